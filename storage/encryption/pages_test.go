package encryption_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

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
