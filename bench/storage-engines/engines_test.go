package storageengines_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"go.etcd.io/bbolt"

	"github.com/keelson-dev/keelson/storage/wal"
)

const valueBytes = 1024

// engine writes one key durably. A store with revisions needs, per write, the record under its key and the change under
// its revision; an engine that is not a log is given both to write.
type engine struct {
	put   func(key string, value []byte) error
	close func() error
}

func engines() map[string]func(dir string) (engine, error) {
	return map[string]func(string) (engine, error){"wal": openWAL, "pebble": openPebble, "bbolt": openBolt}
}

func openWAL(dir string) (engine, error) {
	store, err := wal.Open(dir, wal.Options{})
	if err != nil {
		return engine{}, err
	}
	return engine{
		put: func(key string, value []byte) error {
			_, err := store.Create(context.Background(), key, value)
			return err
		},
		close: store.Close,
	}, nil
}

// Pebble itself commits concurrent batches with one sync.
func openPebble(dir string) (engine, error) {
	db, err := pebble.Open(dir, &pebble.Options{Logger: silent{}})
	if err != nil {
		return engine{}, err
	}
	var revision atomic.Uint64
	return engine{
		put: func(key string, value []byte) error {
			batch := db.NewBatch()
			defer batch.Close()
			if err := batch.Set([]byte("k"+key), value, nil); err != nil {
				return err
			}
			if err := batch.Set(binary.BigEndian.AppendUint64([]byte("r"), revision.Add(1)), value, nil); err != nil {
				return err
			}
			return batch.Commit(pebble.Sync)
		},
		close: db.Close,
	}, nil
}

type silent struct{}

func (silent) Infof(string, ...any)  {}
func (silent) Errorf(string, ...any) {}
func (silent) Fatalf(f string, a ...any) {
	panic(fmt.Sprintf(f, a...))
}

// bbolt's own Batch waits for a timer; a queue in front, like that of the wal, is faster.
func openBolt(dir string) (engine, error) {
	db, err := bbolt.Open(filepath.Join(dir, "bolt"), 0o600, &bbolt.Options{FreelistType: bbolt.FreelistMapType, NoFreelistSync: true})
	if err != nil {
		return engine{}, err
	}
	names := [][]byte{[]byte("keys"), []byte("revisions")}
	if err := db.Update(func(tx *bbolt.Tx) error {
		for _, name := range names {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return engine{}, err
	}
	var revision uint64
	g := newGroup(func(batch []*put) error {
		return db.Update(func(tx *bbolt.Tx) error {
			keys, revisions := tx.Bucket(names[0]), tx.Bucket(names[1])
			for _, p := range batch {
				revision++
				if err := keys.Put([]byte(p.key), p.value); err != nil {
					return err
				}
				if err := revisions.Put(binary.BigEndian.AppendUint64(nil, revision), p.value); err != nil {
					return err
				}
			}
			return nil
		})
	})
	return engine{put: g.put, close: func() error { g.close(); return db.Close() }}, nil
}

type put struct {
	key   string
	value []byte
	done  chan error
}

// group passes everything that has gathered to one commit at a time.
type group struct {
	puts chan *put
	end  sync.WaitGroup
}

func newGroup(commit func([]*put) error) *group {
	g := &group{puts: make(chan *put, 1024)}
	g.end.Go(func() {
		for first := range g.puts {
			batch := []*put{first}
			for n := len(g.puts); n > 0; n-- {
				batch = append(batch, <-g.puts)
			}
			err := commit(batch)
			for _, p := range batch {
				p.done <- err
			}
		}
	})
	return g
}

func (g *group) put(key string, value []byte) error {
	p := &put{key, value, make(chan error, 1)}
	g.puts <- p
	return <-p.done
}

func (g *group) close() {
	close(g.puts)
	g.end.Wait()
}

func BenchmarkDurableWrites(b *testing.B) {
	for _, writers := range []int{1, 16, 64} {
		for _, name := range []string{"wal", "pebble", "bbolt"} {
			b.Run(fmt.Sprintf("%s/writers=%d", name, writers), func(b *testing.B) {
				e, err := engines()[name](b.TempDir())
				if err != nil {
					b.Fatal(err)
				}
				write(b, e, writers)
				if err := e.close(); err != nil {
					b.Fatal(err)
				}
			})
		}
	}
}

func write(b *testing.B, e engine, writers int) {
	var next atomic.Int64
	var wg sync.WaitGroup
	b.SetBytes(valueBytes)
	b.ReportAllocs()
	b.ResetTimer()
	for range writers {
		wg.Go(func() {
			for {
				i := next.Add(1)
				if i > int64(b.N) {
					return
				}
				value := make([]byte, valueBytes)
				binary.LittleEndian.PutUint64(value, uint64(i))
				// Not in order: pods are created all over the key space.
				if err := e.put(fmt.Sprintf("/registry/pods/default/%016x", uint64(i)*0x9e3779b97f4a7c15), value); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "writes/s")
}
