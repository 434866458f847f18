package encryption_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/encryption"
	"github.com/keelson-dev/keelson/storage/memory"
)

// cached is a store that gives the same page to everybody, and notes what is asked for.
type cached struct {
	storage.Store
	page   *storage.Page
	limits []int
}

func (c *cached) List(ctx context.Context, prefix string, o storage.ListOptions) (storage.Page, error) {
	c.limits = append(c.limits, o.Limit)
	if c.page != nil {
		return *c.page, nil
	}
	page, err := c.Store.List(ctx, prefix, o)
	return page, err
}

// reversing writes values backwards.
type reversing struct{}

func (reversing) For(string) encryption.Transformer { return reversing{} }

func (reversing) Seal(_ context.Context, dst []byte, _ string, value []byte) ([]byte, error) {
	value = slices.Clone(value)
	slices.Reverse(value)
	return append(dst, value...), nil
}

func (r reversing) Open(ctx context.Context, key string, stored []byte) ([]byte, bool, error) {
	value, err := r.Seal(ctx, nil, key, stored)
	return value, false, err
}

// TestPagesOfOthers: a page belongs to the store below, which may give it to another reader.
func TestPagesOfOthers(t *testing.T) {
	c := &cached{page: &storage.Page{Revision: 5, Records: []storage.Record{{Key: "a", Value: []byte("nialp"), Revision: 2}}}}
	s := encryption.New(c, reversing{})
	for range 2 {
		page, err := s.List(t.Context(), "", storage.ListOptions{})
		if err != nil || string(page.Records[0].Value) != "plain" {
			t.Errorf("%+v, %v", page, err)
		}
	}
	if got := string(c.page.Records[0].Value); got != "nialp" {
		t.Errorf("the store's own page has become %q", got)
	}
}

// TestRewriteByPages: of 500 records, or of as many as was said.
func TestRewriteByPages(t *testing.T) {
	for page, want := range map[int][]int{0: {500, 500}, -1: {500, 500}, 1000: {1000}, 300: {300, 300, 300}} {
		c := &cached{Store: memory.New(memory.Options{})}
		for i := range 700 {
			if _, err := c.Create(t.Context(), fmt.Sprintf("%04d", i), []byte("x")); err != nil {
				t.Fatal(err)
			}
		}
		done, err := encryption.Rewrite(t.Context(), encryption.New(c, reversing{}), "", encryption.RewriteOptions{Page: page})
		if err != nil || done.Current+done.Written != 700 || !slices.Equal(c.limits, want) {
			t.Errorf("pages of %d: %+v, %v; asked for %d, want %d", page, done, err, c.limits, want)
		}
	}
}

// hooked opens nothing while hook says why.
type hooked struct {
	reversing
	hook func(stored string) error
}

func (h hooked) For(string) encryption.Transformer { return h }

func (h hooked) Open(ctx context.Context, key string, stored []byte) ([]byte, bool, error) {
	if err := h.hook(string(stored)); err != nil {
		return nil, false, err
	}
	return h.reversing.Open(ctx, key, stored)
}

// TestEndWhileThePastIsOpened: a context that ends before it is known what was there before ends Next, and takes nothing from the event.
func TestEndWhileThePastIsOpened(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := encryption.New(memory.New(memory.Options{}), hooked{hook: func(stored string) error {
		if stored == "dlo" {
			cancel()
		}
		return ctx.Err()
	}})
	at, err := s.Create(t.Context(), "a", []byte("old"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Delete(t.Context(), "a", at); err != nil {
		t.Fatal(err)
	}
	stream, err := s.Watch(t.Context(), "", at)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	if events, err := stream.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%+v, %v", events, err)
	}
	ctx, cancel = t.Context(), func() {} // the hook lets everything pass now
	if events, err := stream.Next(ctx); err != nil || len(events) != 1 || string(events[0].Prev) != "old" || events[0].Type != storage.Delete {
		t.Errorf("%+v, %v", events, err)
	}
}

// TestReasonsOfReasons: the reasons of a choice that has choices are told beside each other.
func TestReasonsOfReasons(t *testing.T) {
	failing := func(reason string) encryption.Choice {
		return encryption.Choice{Prefix: "x:", Transformer: hooked{hook: func(string) error { return errors.New(reason) }}}
	}
	inner := encryption.FirstOf(errors.New("none within"), failing("one"), failing("two"))
	outer := encryption.FirstOf(errors.New("none"), encryption.Choice{Prefix: "a:", Transformer: inner}, encryption.Choice{Prefix: "a:x:", Transformer: hooked{hook: func(string) error { return errors.New("three") }}})
	_, _, err := outer.Open(t.Context(), "key", []byte("a:x:y"))
	for _, want := range []string{"one", "two", "three"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	if err != nil && strings.Contains(err.Error(), "none") {
		t.Errorf("%v, although there were choices", err)
	}
}

// stale finds everything stale.
type stale struct{ reversing }

func (stale) For(string) encryption.Transformer { return stale{} }

func (s stale) Open(ctx context.Context, key string, stored []byte) ([]byte, bool, error) {
	value, _, err := s.reversing.Open(ctx, key, stored)
	return value, true, err
}

// unlisted cannot be listed from some key on.
type unlisted struct {
	storage.Store
	after string
}

var errUnlisted = errors.New("connection lost")

func (u unlisted) List(ctx context.Context, prefix string, o storage.ListOptions) (storage.Page, error) {
	if o.After >= u.after {
		return storage.Page{}, errUnlisted
	}
	return u.Store.List(ctx, prefix, o)
}

// TestRewriteOfWhatCannotEnd: where nothing has a lifetime, what should have one is written to stay; a list that fails is told.
func TestRewriteOfWhatCannotEnd(t *testing.T) {
	plain := memory.New(memory.Options{})
	for i := range 10 {
		if _, err := plain.Create(t.Context(), fmt.Sprint("/", i), []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	options := encryption.RewriteOptions{Page: 4, Lifetime: func(string, []byte) time.Duration { return time.Hour }}
	if done, err := encryption.Rewrite(t.Context(), encryption.New(plain, stale{}), "/", options); err != nil || done.Written != 10 {
		t.Errorf("%+v, %v", done, err)
	}
	for after, want := range map[string]int{"": 0, "/3": 4} {
		done, err := encryption.Rewrite(t.Context(), encryption.New(unlisted{plain, after}, stale{}), "/", options)
		if !errors.Is(err, errUnlisted) || !strings.HasPrefix(err.Error(), "rewriting /: ") || done.Written != want {
			t.Errorf("unlisted after %q: %+v, %v", after, done, err)
		}
	}
}
