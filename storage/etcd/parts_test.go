package etcd_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/etcd"
)

// TestClock: who asks while a request runs shares the next one, and nobody gets the answer of one that began before.
func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var newest, requests atomic.Int64
		read, end := etcd.NewClock(func(ctx context.Context) (int64, error) {
			requests.Add(1)
			at := newest.Load() // the worst: all that is written later is missing
			select {
			case <-time.After(time.Second):
				return at, nil
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		})
		answers := make(chan int64, 100)
		ask := func() {
			written := newest.Add(1)
			go func() {
				at, err := read(t.Context())
				if err != nil || at < written {
					t.Errorf("read after %d: %d, %v", written, at, err)
				}
				answers <- at
			}()
			synctest.Wait()
		}
		ask()
		for range 49 {
			ask()
		}
		for range 50 {
			<-answers
		}
		if n := requests.Load(); n != 2 {
			t.Errorf("50 callers took %d requests", n)
		}
		// One who gives up takes the request away from nobody; the last one ends it.
		impatient, cancel := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		go func() { _, err := read(impatient); gone <- err }()
		synctest.Wait()
		cancel()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Errorf("read: %v", err)
		}
		ask()
		<-answers
		go func() { _, err := read(t.Context()); gone <- err }()
		synctest.Wait()
		end()
		if err := <-gone; err == nil {
			t.Error("a read outlived the end")
		}
		if _, err := read(t.Context()); err == nil {
			t.Error("a read began after the end")
		}
		end()
	})
}

// TestLeaseReuse: no lease ends before what was asked for, few are granted, and none serves too many.
func TestLeaseReuse(t *testing.T) {
	now := time.Unix(0, 0)
	ends, uses := map[clientv3.LeaseID]time.Time{}, map[clientv3.LeaseID]int{}
	refuse := errors.New("refused")
	var refused bool
	take, drop := etcd.NewLeases(func(_ context.Context, ttl time.Duration) (clientv3.LeaseID, error) {
		if refused {
			return 0, refuse
		}
		if ttl%time.Second != 0 || ttl <= 0 {
			t.Errorf("grant for %v", ttl)
		}
		id := clientv3.LeaseID(len(ends) + 1)
		ends[id] = now.Add(ttl)
		return id, nil
	}, func() time.Time { return now })
	for i := range 20_000 {
		ttl := []time.Duration{time.Hour, 10 * time.Second, 1500 * time.Millisecond, -time.Second, 1<<63 - 1, time.Duration(i%200) * time.Minute}[i%6]
		before := len(ends)
		id, fresh, err := take(t.Context(), ttl)
		if err != nil || fresh != (len(ends) > before) {
			t.Fatalf("take: %v, %v", fresh, err)
		}
		if uses[id]++; uses[id] > 1000 {
			t.Errorf("lease %d has %d uses", id, uses[id])
		}
		const century = 100 * 365 * 24 * time.Hour
		ttl = min(max(ttl, time.Second), century)
		least, most := now.Add(ttl), now.Add(ttl+min(ttl/20, time.Minute)+time.Second)
		if ends[id].Before(least) || ends[id].After(most) {
			t.Fatalf("for %v a lease of %v", ttl, ends[id].Sub(now))
		}
		now = now.Add(7 * time.Millisecond)
	}
	hours := 0
	for range 500 {
		before := len(ends)
		id, _, err := take(t.Context(), time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if hours += len(ends) - before; hours > 2 {
			t.Fatal("no lease is used again")
		}
		if hours == 1 {
			drop(id)
		}
	}
	refused, now = true, now.Add(time.Hour)
	if _, _, err := take(t.Context(), time.Hour); !errors.Is(err, refuse) {
		t.Errorf("take: %v", err)
	}
}

// FuzzKeys: a list finds what begins with its prefix and follows, whatever is trimmed and put in front.
func FuzzKeys(f *testing.F) {
	for _, seed := range [][5]string{
		{"", "", "a", "", ""}, {"/registry/", "/r/", "/registry/pods/a", "/registry/pods/", "/registry/pods/Z"},
		{"/registry/", "\xff", "/registry/\xff", "/reg", "/z"}, {"", "\xff\xff", "\xff", "\xff", "\xff"}, {"a", "", "ab", "a", "a"}, {"a", "b", "c", "d", "e"},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3], seed[4])
	}
	f.Fuzz(func(t *testing.T, trim, prefix, key, listed, after string) {
		inEtcd, back, found, err := etcd.Mapped(etcd.Options{Trim: trim, Prefix: prefix}, key, listed, after)
		if key == "" || !strings.HasPrefix(key, trim) || key == trim && prefix == "" {
			if err == nil || key == "" && !errors.Is(err, storage.ErrEmptyKey) {
				t.Fatalf("%q is accepted: %v", key, err)
			}
			return
		}
		if err != nil || back != key || !strings.HasPrefix(inEtcd, prefix) {
			t.Fatalf("%q became %q became %q, %v", key, inEtcd, back, err)
		}
		if want := strings.HasPrefix(key, listed) && key > after; found != want {
			t.Errorf("list of %q after %q: found %v, want %v", listed, after, found, want)
		}
	})
}
