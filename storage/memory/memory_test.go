package memory_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/memory"
	"github.com/keelson-dev/keelson/storage/storagetest"
)

func TestContract(t *testing.T) {
	for name, options := range map[string]memory.Options{
		"by number": {History: 200, FirstRevision: 1_000_000},
		"by bytes":  {HistoryBytes: 64 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			storagetest.Run(t, storagetest.Backend{
				Open: func(t testing.TB) storage.Store {
					s := memory.New(options)
					t.Cleanup(func() { s.Close() })
					return s
				},
				Forget:      storagetest.ForgetByWriting(1000),
				StreamBytes: 32 << 20, // 200 changes of 64 KiB
			})
		})
	}
}

// In a bubble, time passes only while all goroutines wait: polling, or waiting on anything outside, would show.
func TestVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Options{})
		defer s.Close()
		start := time.Now()
		stream, err := s.Watch(t.Context(), "", 0)
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Close()
		go func() {
			time.Sleep(time.Hour)
			if _, err := s.Create(t.Context(), "a", nil); err != nil {
				t.Error(err)
			}
		}()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := stream.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Next = %v, want the context's error", err)
		}
		if events, err := stream.Next(t.Context()); err != nil || len(events) != 1 {
			t.Errorf("Next = %v, %v", events, err)
		}
		if waited := time.Since(start); waited != time.Hour {
			t.Errorf("the event came after %v", waited)
		}
	})
}

// Abandoned streams and pages must not keep old values alive.
func TestMemoryIsBounded(t *testing.T) {
	const size = 16 << 10
	s := memory.New(memory.Options{History: 100})
	defer s.Close()
	ctx := t.Context()
	at := map[string]int64{}
	for i := range 10 {
		key := fmt.Sprint(i)
		revision, err := s.Create(ctx, key, make([]byte, size))
		if err != nil {
			t.Fatal(err)
		}
		at[key] = revision
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range 10_000 {
		key := fmt.Sprint(i % 10)
		revision, err := s.Update(ctx, key, make([]byte, size), at[key])
		if err != nil {
			t.Fatal(err)
		}
		at[key] = revision
		if i%200 == 0 {
			if _, err := s.List(ctx, "", storage.ListOptions{Limit: 1}); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Watch(ctx, "", revision); err != nil {
				t.Fatal(err)
			}
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	// History holds 100 values and the 10 before them; 10,000 were written.
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 130*size {
		t.Errorf("the heap grew by %d values' worth after 10,000 updates", grown/size)
	}
	runtime.KeepAlive(s)
}

func TestHistoryKeepsTheNewestChange(t *testing.T) {
	s := memory.New(memory.Options{HistoryBytes: 1})
	defer s.Close()
	revision, err := s.Create(t.Context(), "a", make([]byte, 1000))
	if err != nil {
		t.Fatal(err)
	}
	stream, err := s.Watch(t.Context(), "", revision-1)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	if events, err := stream.Next(t.Context()); err != nil || len(events) != 1 {
		t.Errorf("Next = %v, %v", events, err)
	}
}

// A store that replaces another begins above it: watchers of that one list again.
func TestFirstRevision(t *testing.T) {
	for first, oldest := range map[int64]int64{-1: 1, 0: 1, 1: 1, 2: 2, 1_000_000: 1_000_000} {
		s := memory.New(memory.Options{FirstRevision: first})
		defer s.Close()
		ctx := t.Context()
		if now, err := s.Revision(ctx); err != nil || now != oldest {
			t.Errorf("FirstRevision %d: Revision = %d, %v; want %d", first, now, err, oldest)
		}
		if revision, err := s.Create(ctx, "a", nil); err != nil || revision != oldest+1 {
			t.Errorf("FirstRevision %d: Create = %d, %v; want %d", first, revision, err, oldest+1)
		}
		if got, err := s.Oldest(ctx); err != nil || got != oldest {
			t.Errorf("FirstRevision %d: Oldest = %d, %v; want %d", first, got, err, oldest)
		}
		if oldest > 1 {
			if _, err := s.Watch(ctx, "", oldest-1); !errors.Is(err, storage.ErrCompacted) {
				t.Errorf("FirstRevision %d: Watch after %d = %v, want ErrCompacted", first, oldest-1, err)
			}
		}
	}
}
