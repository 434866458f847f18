package storage_test

import (
	"context"
	"errors"
	"testing"

	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/memory"
)

// broken takes no more writes.
type broken struct {
	storage.Store
	err error
}

func (b broken) Err() error { return b.err }

// away is behind a network.
type away struct {
	broken
	asked context.Context
	ready error
}

func (a *away) Ready(ctx context.Context) error {
	a.asked = ctx
	return a.ready
}

// TestReady: a permanent failure takes precedence over being unreachable; a store that has neither method is ready.
func TestReady(t *testing.T) {
	full, unreachable := errors.New("disk full"), errors.New("unreachable")
	type key struct{}
	ctx := context.WithValue(t.Context(), key{}, "mine")
	plain := memory.New(memory.Options{})
	for name, c := range map[string]struct {
		store      storage.Store
		err, ready error
	}{
		"knows of nothing":  {struct{ storage.Store }{plain}, nil, nil},
		"works":             {broken{plain, nil}, nil, nil},
		"failed":            {broken{plain, full}, full, full},
		"is reached":        {&away{broken: broken{plain, nil}}, nil, nil},
		"is not reached":    {&away{broken: broken{plain, nil}, ready: unreachable}, nil, unreachable},
		"failed, out there": {&away{broken: broken{plain, full}, ready: unreachable}, full, full},
	} {
		if err := storage.Err(c.store); err != c.err { //nolint:errorlint // this very one
			t.Errorf("%s: Err is %v, want %v", name, err, c.err)
		}
		if err := storage.Ready(ctx, c.store); err != c.ready { //nolint:errorlint // this very one
			t.Errorf("%s: Ready is %v, want %v", name, err, c.ready)
		}
		if a, ok := c.store.(*away); ok && c.err == nil && a.asked != ctx {
			t.Errorf("%s: asked with %v", name, a.asked)
		}
	}
}
