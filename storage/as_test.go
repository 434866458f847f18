package storage_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/memory"
)

// wrapper is in front of another store, nil for none.
type wrapper struct{ storage.Store }

func (w wrapper) Unwrap() storage.Store { return w.Store }

// cut is a Compactor that tells who it is.
type cut struct {
	storage.Store
	name error
}

func (c cut) Compact(context.Context, int64) error { return c.name }

// both is a wrapper that is itself a Compactor.
type both struct{ cut }

func (b both) Unwrap() storage.Store { return b.Store }

func TestAs(t *testing.T) {
	inner, outer := fmt.Errorf("inner"), fmt.Errorf("outer")
	plain := memory.New(memory.Options{})
	for name, c := range map[string]struct {
		store storage.Reader
		want  error
	}{
		"none":                    {nil, nil},
		"one that cannot":         {struct{ storage.Store }{plain}, nil},
		"one that can":            {cut{plain, inner}, inner},
		"wrapped":                 {wrapper{cut{plain, inner}}, inner},
		"wrapped twice":           {wrapper{wrapper{cut{plain, inner}}}, inner},
		"wrapped, and it cannot":  {wrapper{wrapper{plain}}, nil},
		"wrapped around nothing":  {wrapper{}, nil},
		"wrapped by one that can": {wrapper{both{cut{cut{plain, inner}, outer}}}, outer},
		"hidden":                  {struct{ storage.Store }{wrapper{cut{plain, inner}}}, nil},
	} {
		compactor, ok := storage.As[storage.Compactor](c.store)
		if ok != (c.want != nil) || ok && compactor.Compact(t.Context(), 1) != c.want { //nolint:errorlint // this very one
			t.Errorf("%s: %v, %v", name, compactor, ok)
		}
	}
}

// counted is a store whose reads are counted; what else it can do is the store's behind it.
type counted struct {
	storage.Store
	reads int
}

func (c *counted) Unwrap() storage.Store { return c.Store }

func (c *counted) Get(ctx context.Context, key string) (storage.Record, error) {
	c.reads++
	return c.Store.Get(ctx, key)
}

// What only some stores can do is found behind those that wrap them.
func ExampleAs() {
	var s storage.Store = &counted{Store: cut{memory.New(memory.Options{}), nil}}
	if compactor, ok := storage.As[storage.Compactor](s); ok {
		fmt.Println(compactor.Compact(context.Background(), 1))
	}
	_, ok := storage.As[storage.Lessor](s)
	fmt.Println(ok)
	// Output:
	// <nil>
	// false
}
