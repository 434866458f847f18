package etcd_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keelson-dev/keelson/internal/etcdtest"
	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/etcd"
	"github.com/keelson-dev/keelson/storage/wal"
)

// backends are etcd as it runs in production, and for comparison the embedded store, both durable.
func backends() map[string]func(testing.TB) storage.Store {
	return map[string]func(testing.TB) storage.Store{
		"etcd": func(t testing.TB) storage.Store {
			return open(t, etcdtest.Start(t, etcdtest.Options{Fsync: true}), etcd.Options{})
		},
		"wal": func(t testing.TB) storage.Store {
			s, err := wal.Open(t.TempDir(), wal.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			return s
		},
	}
}

// latencies runs b.N calls in a number of goroutines and reports the median and the 99th percentile.
func latencies(b *testing.B, callers int, call func(ctx context.Context, i int) error) {
	took := make([]time.Duration, b.N)
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for range callers {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < b.N; i = int(next.Add(1)) - 1 {
				began := time.Now()
				if err := call(b.Context(), i); err != nil {
					b.Error(err)
					return
				}
				took[i] = time.Since(began)
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "µs/p50")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "µs/p99")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
}

func key(i int) string { return fmt.Sprintf("/registry/pods/default/web-%08d", i) }

func BenchmarkStore(b *testing.B) {
	for name, start := range backends() {
		for _, callers := range []int{1, 16, 64} {
			suffix := fmt.Sprintf("/%s/%d", name, callers)
			b.Run("create"+suffix, func(b *testing.B) {
				s, value := start(b), make([]byte, 1<<10)
				latencies(b, callers, func(ctx context.Context, i int) error {
					_, err := s.Create(ctx, key(i), value)
					return err
				})
			})
			b.Run("get"+suffix, func(b *testing.B) {
				s := start(b)
				if _, err := s.Create(b.Context(), key(0), make([]byte, 1<<10)); err != nil {
					b.Fatal(err)
				}
				latencies(b, callers, func(ctx context.Context, _ int) error {
					_, err := s.Get(ctx, key(0))
					return err
				})
			})
			b.Run("revision"+suffix, func(b *testing.B) {
				s := start(b)
				latencies(b, callers, func(ctx context.Context, _ int) error {
					_, err := s.Revision(ctx)
					return err
				})
			})
		}
	}
}

// BenchmarkWatch measures from before a write until a stream delivers it.
func BenchmarkWatch(b *testing.B) {
	for name, start := range backends() {
		b.Run(name, func(b *testing.B) {
			s := start(b)
			stream := watch(b, s, "", revision(b, s))
			latencies(b, 1, func(ctx context.Context, i int) error {
				at, err := s.Create(ctx, key(i), nil)
				for told := int64(0); err == nil && told < at; {
					var events []storage.Event
					if events, err = stream.Next(ctx); err == nil {
						told = events[len(events)-1].Revision
					}
				}
				return err
			})
		})
	}
}

// BenchmarkProgress measures a consistent read through a stream that no write affects: the revision, and the stream
// reaching it.
func BenchmarkProgress(b *testing.B) {
	s := backends()["etcd"](b)
	stream := watch(b, s, "none/", revision(b, s))
	latencies(b, 1, func(ctx context.Context, i int) error {
		if _, err := s.Create(ctx, key(i), nil); err != nil {
			return err
		}
		at, err := s.Revision(ctx)
		for told := int64(0); err == nil && told < at; {
			var events []storage.Event
			if events, err = stream.Next(ctx); err == nil {
				told = events[len(events)-1].Revision
			}
		}
		return err
	})
}
