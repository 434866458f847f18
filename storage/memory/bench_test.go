package memory_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/memory"
)

func key(i int) string { return fmt.Sprintf("/registry/pods/default/web-%06d", i) }

func filled(b *testing.B, records int) (*memory.Store, []string, []int64) {
	s := memory.New(memory.Options{})
	b.Cleanup(func() { s.Close() })
	keys, at := make([]string, records), make([]int64, records)
	value := make([]byte, 1024)
	for i := range records {
		keys[i] = key(i)
		revision, err := s.Create(b.Context(), keys[i], value)
		if err != nil {
			b.Fatal(err)
		}
		at[i] = revision
	}
	return s, keys, at
}

func BenchmarkCreate(b *testing.B) {
	s := memory.New(memory.Options{})
	defer s.Close()
	keys := make([]string, b.N)
	for i := range keys {
		keys[i] = key(i)
	}
	value := make([]byte, 1024)
	ctx := b.Context()
	b.ReportAllocs()
	b.ResetTimer()
	for _, k := range keys {
		if _, err := s.Create(ctx, k, value); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkUpdate(b *testing.B) {
	for _, records := range []int{1_000, 100_000} {
		b.Run(fmt.Sprint(records), func(b *testing.B) {
			s, keys, at := filled(b, records)
			value := make([]byte, 1024)
			ctx := b.Context()
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				k := i * 7919 % records
				revision, err := s.Update(ctx, keys[k], value, at[k])
				if err != nil {
					b.Fatal(err)
				}
				at[k] = revision
			}
		})
	}
}

// A list after every write makes the next write copy its path through the index.
func BenchmarkUpdateBetweenLists(b *testing.B) {
	s, keys, at := filled(b, 1000)
	value := make([]byte, 1024)
	ctx := b.Context()
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		k := i * 7919 % len(keys)
		revision, err := s.Update(ctx, keys[k], value, at[k])
		if err != nil {
			b.Fatal(err)
		}
		at[k] = revision
		if _, err := s.List(ctx, keys[k], storage.ListOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkGet(b *testing.B) {
	s, keys, _ := filled(b, 10_000)
	ctx := b.Context()
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		if _, err := s.Get(ctx, keys[i*7919%len(keys)]); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkList(b *testing.B) {
	const records = 10_000
	b.Run("newest", func(b *testing.B) {
		s, _, _ := filled(b, records)
		list(b, s, storage.ListOptions{}, records)
	})
	b.Run("page", func(b *testing.B) {
		s, keys, _ := filled(b, records)
		list(b, s, storage.ListOptions{Limit: 500, After: keys[5000]}, 500)
	})
	b.Run("page 5000 revisions ago", func(b *testing.B) {
		s, keys, _ := filled(b, records)
		revision, err := s.Revision(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		list(b, s, storage.ListOptions{Limit: 500, After: keys[1000], Revision: revision - 5000}, 500)
	})
}

func list(b *testing.B, s *memory.Store, options storage.ListOptions, want int) {
	ctx := b.Context()
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		page, err := s.List(ctx, "/registry/", options)
		if err != nil || len(page.Records) != want {
			b.Fatalf("%d records, %v", len(page.Records), err)
		}
	}
}

// One op is one write delivered to every watcher.
func BenchmarkWatch(b *testing.B) {
	for _, watchers := range []int{1, 100, 1000} {
		b.Run(fmt.Sprint(watchers), func(b *testing.B) {
			s, keys, at := filled(b, 1000)
			start, err := s.Revision(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			var wg sync.WaitGroup
			var round sync.WaitGroup // keeps the writer from outrunning history
			ctx := b.Context()
			for range watchers {
				stream, err := s.Watch(ctx, "/registry/", start)
				if err != nil {
					b.Fatal(err)
				}
				wg.Go(func() {
					defer stream.Close()
					for n := 0; n < b.N; {
						events, err := stream.Next(ctx)
						if err != nil {
							b.Error(err)
							return
						}
						n += len(events)
						for range events {
							round.Done()
						}
					}
				})
			}
			value := make([]byte, 1024)
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				round.Add(watchers)
				k := i * 7919 % len(keys)
				if at[k], err = s.Update(ctx, keys[k], value, at[k]); err != nil {
					b.Fatal(err)
				}
				if i%100 == 99 {
					round.Wait()
				}
			}
			wg.Wait()
		})
	}
}
