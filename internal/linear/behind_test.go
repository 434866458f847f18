package linear_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/keelson-dev/keelson/internal/linear"
	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/memory"
)

// slow is a store whose changes arrive late, like those from another machine. A careless one also reports a stale
// revision, so that readers do not wait.
type slow struct {
	storage.Store
	careless bool
}

func (s slow) Revision(ctx context.Context) (int64, error) {
	if s.careless {
		return 1, nil
	}
	return s.Store.Revision(ctx)
}

func (s slow) Watch(ctx context.Context, prefix string, after int64) (storage.Stream, error) {
	stream, err := s.Store.Watch(ctx, prefix, after)
	if err != nil {
		return nil, err
	}
	return slowStream{stream}, nil
}

type slowStream struct{ storage.Stream }

func (s slowStream) Next(ctx context.Context) ([]storage.Event, error) {
	select {
	case <-time.After(time.Duration(rand.IntN(5)) * time.Millisecond):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return s.Stream.Next(ctx)
}

// However far its cache lags behind, a server answers with the newest state.
func TestServersBehind(t *testing.T) {
	for _, careless := range []bool{false, true} {
		store := memory.New(memory.Options{})
		t.Cleanup(func() { _ = store.Close() })
		r, err := play(t, serve(t, slow{store, careless}, 3), 100, linear.Options{Seed: 5})
		switch {
		case careless && !errors.Is(err, linear.ErrViolated):
			t.Errorf("old answers are taken for new ones: %v", err)
		case !careless && err != nil:
			t.Error(err)
		case !careless:
			t.Logf("%+v", r)
		}
	}
}
