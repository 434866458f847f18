package encryption_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/encryption"
)

// TestRotation goes through the steps of the package's documentation.
func TestRotation(t *testing.T) {
	inner := opened(t)
	keys := &switched{named(t, "a")}
	s := encryption.New(inner, keys)
	const records = 25
	for i := range records {
		create(t, s, fmt.Sprintf("/secrets/%02d", i), fmt.Sprint("value ", i))
	}
	create(t, s, "/pods/one", "not encrypted")
	rewrite := func() encryption.Rewritten {
		t.Helper()
		done, err := encryption.Rewrite(t.Context(), s, "/", encryption.RewriteOptions{Page: 7})
		if err != nil {
			t.Fatal(err)
		}
		return done
	}
	keys.Transformer = named(t, "ab")
	if done := rewrite(); done != (encryption.Rewritten{Current: records + 1}) {
		t.Errorf("with the new key as the second: %+v", done)
	}
	keys.Transformer = named(t, "ba")
	if stale, err := s.(storage.Refresher).Stale(t.Context(), "/secrets/00"); err != nil || !stale {
		t.Errorf("Stale = %v, %v", stale, err)
	}
	if done := rewrite(); done != (encryption.Rewritten{Current: 1, Written: records}) {
		t.Errorf("with the new key as the first: %+v", done)
	}
	if stale, err := s.(storage.Refresher).Stale(t.Context(), "/secrets/00"); err != nil || stale {
		t.Errorf("Stale = %v, %v", stale, err)
	}
	keys.Transformer = named(t, "b")
	page, err := s.List(t.Context(), "/secrets/", storage.ListOptions{})
	if err != nil || len(page.Records) != records {
		t.Fatalf("%d records, %v", len(page.Records), err)
	}
	for i, r := range page.Records {
		if string(r.Value) != fmt.Sprint("value ", i) || r.Err != nil {
			t.Errorf("%s = %q, %v", r.Key, r.Value, r.Err)
		}
	}
	keys.Transformer = named(t, "c")
	if done := rewrite(); done != (encryption.Rewritten{Current: 1, Unreadable: records}) {
		t.Errorf("without a key: %+v", done)
	}
	if _, err := encryption.Rewrite(t.Context(), inner, "/", encryption.RewriteOptions{}); !errors.Is(err, encryption.ErrNotRefresher) {
		t.Errorf("a store that cannot tell: %v", err)
	}
}

// TestRewriteUnderWrites: writers beside a Rewrite count as without it, and all ends up in the new form.
func TestRewriteUnderWrites(t *testing.T) {
	const counters, steps = 8, 50
	inner := opened(t)
	keys := &switched{named(t, "a")}
	s := encryption.New(inner, keys)
	for i := range counters {
		create(t, s, fmt.Sprint("/secrets/", i), "0")
	}
	create(t, s, "/secrets/gone", "0")
	keys.Transformer = named(t, "ba")
	var wg sync.WaitGroup
	for i := range counters {
		wg.Go(func() { count(t, s, fmt.Sprint("/secrets/", i), steps) })
	}
	wg.Go(func() {
		r, err := s.Get(t.Context(), "/secrets/gone")
		for err == nil {
			if _, err = s.Delete(t.Context(), r.Key, r.Revision); errors.Is(err, storage.ErrConflict) {
				r, err = s.Get(t.Context(), r.Key)
			}
		}
		if !errors.Is(err, storage.ErrNotFound) {
			t.Error(err)
		}
	})
	for range 5 {
		if _, err := encryption.Rewrite(t.Context(), s, "/secrets/", encryption.RewriteOptions{Page: 3}); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
	page, err := inner.List(t.Context(), "/secrets/", storage.ListOptions{})
	if err != nil || len(page.Records) != counters {
		t.Fatalf("%d records, %v", len(page.Records), err)
	}
	for _, raw := range page.Records {
		r, err := s.Get(t.Context(), raw.Key)
		if err != nil || string(r.Value) != fmt.Sprint(steps) || !strings.HasPrefix(string(raw.Value), "b:") {
			t.Errorf("%s = %q, stored as %.2q, %v", raw.Key, r.Value, raw.Value, err)
		}
	}
}

// count adds to a counter, and again when somebody was faster.
func count(t *testing.T, s storage.Store, key string, steps int) {
	for range steps {
		for {
			r, err := s.Get(t.Context(), key)
			if err != nil {
				t.Error(err)
				return
			}
			var n int
			if _, err := fmt.Sscan(string(r.Value), &n); err != nil {
				t.Error(err)
				return
			}
			if _, err = s.Update(t.Context(), key, fmt.Append(nil, n+1), r.Revision); err == nil {
				break
			} else if !errors.Is(err, storage.ErrConflict) {
				t.Error(err)
				return
			}
		}
	}
}

// remembering is a Lessor that knows the last lifetime.
type remembering struct {
	leases
	ttl time.Duration
}

func (r *remembering) UpdateFor(ctx context.Context, key string, value []byte, expected int64, ttl time.Duration) (int64, error) {
	r.ttl = ttl
	return r.leases.UpdateFor(ctx, key, value, expected, ttl)
}

func TestRewriteKeepsLifetimes(t *testing.T) {
	inner := &remembering{leases: leases{opened(t)}}
	keys := &switched{named(t, "a")}
	s := encryption.New(inner, keys)
	create(t, s, "/secrets/event", "x")
	keys.Transformer = named(t, "ba")
	done, err := encryption.Rewrite(t.Context(), s, "/", encryption.RewriteOptions{
		Lifetime: func(string, []byte) time.Duration { return time.Hour },
	})
	if err != nil || done.Written != 1 || inner.ttl != time.Hour {
		t.Errorf("%+v, lifetime %v, %v", done, inner.ttl, err)
	}
}

// contested is a store in which somebody is always faster, and then is told of what they did.
type contested struct {
	storage.Store
	storage.Refresher
	after error // of Get after the conflict
}

func (c *contested) Update(context.Context, string, []byte, int64) (int64, error) {
	return 0, storage.ErrConflict
}

func (c *contested) Get(ctx context.Context, key string) (storage.Record, error) {
	r, err := c.Store.Get(ctx, key)
	if c.after != nil {
		err = c.after
	}
	return r, err
}

// TestRewriteAfterConflict: what somebody else has deleted or made unreadable meanwhile does not end a Rewrite, what
// cannot be known does.
func TestRewriteAfterConflict(t *testing.T) {
	broken := errors.New("broken")
	for after, want := range map[error]encryption.Rewritten{
		storage.ErrNotFound: {}, storage.ErrUnreadable: {Unreadable: 1}, broken: {},
	} {
		keys := &switched{named(t, "a")}
		s := encryption.New(opened(t), keys)
		create(t, s, "/secrets/one", "x")
		keys.Transformer = named(t, "ba")
		done, err := encryption.Rewrite(t.Context(), &contested{s, s.(storage.Refresher), after}, "/", encryption.RewriteOptions{})
		if done != want || errors.Is(err, broken) != errors.Is(after, broken) || (err != nil) != errors.Is(err, broken) {
			t.Errorf("after %v: %+v, %v", after, done, err)
		}
	}
}

// TestLayers: what an inner layer says of a record holds for the outer one, too.
func TestLayers(t *testing.T) {
	keys := &switched{named(t, "a")}
	base := opened(t)
	s := encryption.New(encryption.New(base, keys), all(nil))
	after := create(t, s, "/secrets/one", "x")
	stale := func() bool {
		t.Helper()
		stale, err := s.(storage.Refresher).Stale(t.Context(), "/secrets/one")
		if err != nil {
			t.Error(err)
		}
		return stale
	}
	if stale() {
		t.Error("what was just written is stale")
	}
	keys.Transformer = named(t, "ba")
	if !stale() {
		t.Error("what the inner layer would write otherwise is not stale")
	}
	keys.Transformer = named(t, "c")
	page, err := s.List(t.Context(), "/", storage.ListOptions{})
	if err != nil || len(page.Records) != 1 || !errors.Is(page.Records[0].Err, storage.ErrUnreadable) {
		t.Errorf("list: %+v, %v", page, err)
	}
	stream, err := s.Watch(t.Context(), "/", after-1)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	events, err := stream.Next(t.Context())
	if err != nil || len(events) != 1 || !errors.Is(events[0].Err, storage.ErrUnreadable) {
		t.Errorf("watch: %+v, %v", events, err)
	}
}

// TestNothingIsAValue: also where all that is stored of it is the prefix.
func TestNothingIsAValue(t *testing.T) {
	inner := opened(t)
	s := encryption.New(inner, all(encryption.FirstOf(errNone, encryption.Choice{Prefix: "p:", Transformer: encryption.Identity{}})))
	create(t, s, "/one", "")
	if raw, err := inner.Get(t.Context(), "/one"); err != nil || string(raw.Value) != "p:" {
		t.Errorf("stored is %q, %v", raw.Value, err)
	}
	if r, err := s.Get(t.Context(), "/one"); err != nil || r.Value == nil || len(r.Value) != 0 {
		t.Errorf("read is %q, %v", r.Value, err)
	}
}
