package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/etcd"
)

// TestClock: calls made while a request runs share the next one, and no call gets the answer of an earlier request.
func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var newest, requests atomic.Int64
		read, end := etcd.NewClock(func(ctx context.Context) (int64, error) {
			requests.Add(1)
			at := newest.Load() // the worst case: it misses all later writes
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
		// One waiter that gives up does not end the request; the last one does.
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

// TestClockIsShared: a waiter that gives up does not affect the others; the last one to give up ends the request.
func TestClockIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := 0
		read, end := etcd.NewClock(func(ctx context.Context) (int64, error) {
			select {
			case <-time.After(time.Second):
				return 7, nil
			case <-ctx.Done():
				ended++
				return 0, ctx.Err()
			}
		})
		defer end()
		answers := make(chan int64, 3)
		ask := func(patience time.Duration) {
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				at, _ := read(ctx)
				answers <- at
			}()
		}
		ask(time.Hour) // has the first request to itself
		synctest.Wait()
		ask(1200 * time.Millisecond) // these share the second
		ask(1300 * time.Millisecond)
		ask(time.Hour)
		var got []int64
		for range 4 {
			got = append(got, <-answers)
		}
		if !slices.Equal(got, []int64{7, 0, 0, 7}) || ended != 0 {
			t.Errorf("answers %v, %d ended", got, ended)
		}
		ask(100 * time.Millisecond)
		synctest.Wait()
		ask(200 * time.Millisecond)
		if one, two := <-answers, <-answers; one != 0 || two != 0 {
			t.Errorf("answers %d, %d", one, two)
		}
		synctest.Wait()
		if ended != 2 { // the first, and the second, which then began
			t.Errorf("%d ended", ended)
		}
	})
}

// TestLeaseReuse: no lease ends early, few are granted, and none serves too many records.
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

// TestLeaseUses: a lease serves a thousand records, and only the named lease is forgotten.
func TestLeaseUses(t *testing.T) {
	now, granted := time.Unix(0, 0), 0
	take, drop := etcd.NewLeases(func(context.Context, time.Duration) (clientv3.LeaseID, error) {
		granted++
		return clientv3.LeaseID(granted), nil
	}, func() time.Time { return now })
	for i := range 2500 {
		drop(clientv3.LeaseID(5000)) // an unknown lease
		if id, fresh, err := take(t.Context(), time.Hour); err != nil || int(id) != i/1000+1 || fresh != (i%1000 == 0) {
			t.Fatalf("record %d gets lease %d, granted now: %v, %v", i, id, fresh, err)
		}
	}
	// 64 times to live are remembered; with one more all others are dropped. Used-up leases are dropped first.
	kind := func(i int) (fresh bool) {
		_, fresh, err := take(t.Context(), time.Hour+time.Duration(i)*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		return fresh
	}
	for i := range 64 { // the first is the one from above
		if kind(i) != (i > 0) {
			t.Errorf("kind %d", i)
		}
	}
	for i := range 64 {
		if kind(i) {
			t.Errorf("kind %d is forgotten", i)
		}
	}
	if !kind(64) || kind(64) || !kind(63) {
		t.Error("after 64 kinds the others are not forgotten")
	}
	now = now.Add(30 * time.Second)
	for i := range 62 {
		kind(i)
	}
	now = now.Add(45 * time.Second) // less than a minute is left for the first two
	if !kind(100) || kind(0) || kind(61) || !kind(63) {
		t.Error("what was of use was forgotten before what was of none")
	}
}

// TestTimeouts: the defaults are as documented.
func TestTimeouts(t *testing.T) {
	endpoints := []string{"http://127.0.0.1:1"}
	for _, c := range []struct {
		set, want [3]time.Duration
	}{
		{[3]time.Duration{}, [3]time.Duration{20 * time.Second, 30 * time.Second, 10 * time.Second}},
		{[3]time.Duration{-1, -1, -1}, [3]time.Duration{20 * time.Second, 30 * time.Second, 10 * time.Second}},
		{[3]time.Duration{1, 2, 3}, [3]time.Duration{1, 2, 3}},
	} {
		got, err := etcd.ClientConfig(etcd.Config{Endpoints: endpoints, User: "ann", Password: "x", DialTimeout: c.set[0], KeepaliveTime: c.set[1], KeepaliveTimeout: c.set[2]})
		if err != nil {
			t.Fatal(err)
		}
		if have := [3]time.Duration{got.DialTimeout, got.DialKeepAliveTime, got.DialKeepAliveTimeout}; have != c.want || got.Username != "ann" || got.Password != "x" || got.TLS != nil || !slices.Equal(got.Endpoints, endpoints) {
			t.Errorf("%v became %v, %+v", c.set, have, got)
		}
	}
}

// TestTooLargeForGRPC: gRPC reports excess size by a code and a text; neither alone suffices.
func TestTooLargeForGRPC(t *testing.T) {
	const text = "trying to send message larger than max (3 vs. 2)"
	for err, want := range map[error]bool{
		status.Error(codes.ResourceExhausted, text):                        true,
		fmt.Errorf("put: %w", status.Error(codes.ResourceExhausted, text)): true,
		status.Error(codes.Internal, text):                                 false,
		status.Error(codes.ResourceExhausted, "etcdserver: no space"):      false,
		errors.New(text): false,
		rpctypes.Error(status.Error(codes.ResourceExhausted, text)): true,
		rpctypes.ErrNoSpace: false,
	} {
		if got := etcd.TooLarge(err); got != want {
			t.Errorf("%v: %v", err, got)
		}
	}
}

// FuzzKeys: a list finds the keys that begin with its prefix and sort after the given one, whatever Trim and Prefix
// are.
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
