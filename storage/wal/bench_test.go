package wal_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/wal"
)

func benchKey(i int) string { return fmt.Sprintf("/registry/pods/default/web-%06d", i) }

func open(b *testing.B) *wal.Store {
	s, err := wal.Open(b.TempDir(), wal.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	return s
}

// together runs b.N calls in a number of goroutines.
func together(b *testing.B, writers int, call func(i int) error) {
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	for range writers {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < b.N; i = int(next.Add(1)) - 1 {
				if err := call(i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// filled returns a store with records, and their revisions.
func filled(b *testing.B, records int) (*wal.Store, []int64) {
	s := open(b)
	at := make([]int64, records)
	var wg sync.WaitGroup
	for w := range 64 {
		wg.Go(func() {
			for i := w; i < records; i += 64 {
				var err error
				if at[i], err = s.Create(b.Context(), benchKey(i), make([]byte, 1024)); err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
	return s, at
}

func BenchmarkCreate(b *testing.B) {
	for _, writers := range []int{1, 16, 64} {
		b.Run(fmt.Sprint("writers=", writers), func(b *testing.B) {
			s := open(b)
			together(b, writers, func(i int) error {
				_, err := s.Create(b.Context(), benchKey(i), make([]byte, 1024))
				return err
			})
		})
	}
}

func BenchmarkUpdate(b *testing.B) {
	for _, writers := range []int{1, 16, 64} {
		b.Run(fmt.Sprint("writers=", writers), func(b *testing.B) {
			s, at := filled(b, 64*100)
			locks := make([]sync.Mutex, len(at))
			together(b, writers, func(i int) error {
				k := i * 7919 % len(at)
				locks[k].Lock()
				defer locks[k].Unlock()
				revision, err := s.Update(b.Context(), benchKey(k), make([]byte, 1024), at[k])
				at[k] = revision
				return err
			})
		})
	}
}

func BenchmarkGet(b *testing.B) {
	s, at := filled(b, 10_000)
	together(b, 1, func(i int) error {
		_, err := s.Get(b.Context(), benchKey(i%len(at)))
		return err
	})
}

func BenchmarkList(b *testing.B) {
	s, _ := filled(b, 10_000)
	together(b, 1, func(int) error {
		_, err := s.List(b.Context(), "/registry/", storage.ListOptions{})
		return err
	})
}

// One op is one write, by one of 64 writers, delivered to every watcher.
func BenchmarkWatch(b *testing.B) {
	for _, watchers := range []int{1, 100} {
		b.Run(fmt.Sprint("watchers=", watchers), func(b *testing.B) {
			s := open(b)
			var wg sync.WaitGroup
			for range watchers {
				stream, err := s.Watch(b.Context(), "/registry/", 0)
				if err != nil {
					b.Fatal(err)
				}
				wg.Go(func() {
					defer stream.Close()
					for n := 0; n < b.N; {
						events, err := stream.Next(b.Context())
						if err != nil {
							b.Error(err)
							return
						}
						n += len(events)
					}
				})
			}
			together(b, 64, func(i int) error {
				_, err := s.Create(b.Context(), benchKey(i), make([]byte, 1024))
				return err
			})
			wg.Wait()
		})
	}
}

// One op is opening a store of 10,000 records of 1 KiB.
func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	s, err := wal.Open(dir, wal.Options{})
	if err != nil {
		b.Fatal(err)
	}
	var wg sync.WaitGroup
	for w := range 64 {
		wg.Go(func() {
			for i := w; i < 10_000; i += 64 {
				if _, err := s.Create(b.Context(), benchKey(i), make([]byte, 1024)); err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	for range b.N {
		s, err := wal.Open(dir, wal.Options{})
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
