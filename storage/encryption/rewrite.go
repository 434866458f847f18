package encryption

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/keelson-dev/keelson/storage"
)

// RewriteOptions is what a Rewrite may be told. The zero value works.
type RewriteOptions struct {
	// Lifetime tells how long a record lives from now on, 0 for always; nil lets all live always.
	// It matters in stores that are a storage.Lessor: what was written with a lifetime
	// and should keep one, such as events, needs another.
	Lifetime func(key string, value []byte) time.Duration
	// Page is how many records are read at once; 0 means 500.
	Page int
}

// Rewritten counts what a Rewrite did.
type Rewritten struct {
	Current    int // records that were in the wanted form already
	Written    int // records that are now
	Unreadable int // records that nobody can tell, and that stay as they are
}

// ErrNotRefresher: the store cannot tell which of its records are in an old form.
var ErrNotRefresher = errors.New("store cannot tell what is stale")

// Rewrite brings all records whose keys start with prefix to the form that a write gives them. A record
// that somebody else writes meanwhile is looked at again; nobody else's write fails or is lost because of
// it, though one that expects the record's revision from before gets storage.ErrConflict, as after
// any other write. It can be repeated at any time, and after an error it should be. The store must
// be a storage.Refresher, as those that New returns are.
func Rewrite(ctx context.Context, store storage.Store, prefix string, options RewriteOptions) (Rewritten, error) {
	var done Rewritten
	refresher, ok := storage.As[storage.Refresher](store)
	if !ok {
		return done, ErrNotRefresher
	}
	if options.Page <= 0 {
		options.Page = 500
	}
	r := &rewriter{Rewritten: &done, store: store, refresher: refresher, lifetime: options.Lifetime}
	for after := ""; ; {
		// Each page is as new as can be: keys do not move, so none is missed.
		page, err := store.List(ctx, prefix, storage.ListOptions{After: after, Limit: options.Page})
		if err != nil {
			return done, fmt.Errorf("rewriting %s: %w", prefix, err)
		}
		for _, record := range page.Records {
			if err := r.record(ctx, record); err != nil {
				return done, fmt.Errorf("rewriting %s: %w", record.Key, err)
			}
			after = record.Key
		}
		if !page.More || len(page.Records) == 0 {
			return done, nil
		}
	}
}

type rewriter struct {
	*Rewritten
	store     storage.Store
	refresher storage.Refresher
	lifetime  func(string, []byte) time.Duration
}

func (r *rewriter) record(ctx context.Context, record storage.Record) error {
	for {
		if record.Err != nil {
			r.Unreadable++
			return nil //nolint:nilerr // it is counted
		}
		stale, err := r.refresher.Stale(ctx, record.Key)
		if err == nil && stale {
			err = r.write(ctx, record)
		}
		switch {
		case errors.Is(err, storage.ErrNotFound):
			return nil
		case errors.Is(err, storage.ErrConflict), errors.Is(err, storage.ErrUnreadable):
			// Somebody wrote it: look at what is there now.
			record, err = r.store.Get(ctx, record.Key)
			if errors.Is(err, storage.ErrNotFound) {
				return nil
			}
			if err != nil && !errors.Is(err, storage.ErrUnreadable) {
				return err
			}
			record.Err = err
		case err != nil:
			return err
		case stale:
			r.Written++
			return nil
		default:
			r.Current++
			return nil
		}
	}
}

func (r *rewriter) write(ctx context.Context, record storage.Record) error {
	if lessor, ok := storage.As[storage.Lessor](r.store); ok && r.lifetime != nil {
		if ttl := r.lifetime(record.Key, record.Value); ttl > 0 {
			_, err := lessor.UpdateFor(ctx, record.Key, record.Value, record.Revision, ttl)
			return err
		}
	}
	_, err := r.store.Update(ctx, record.Key, record.Value, record.Revision)
	return err
}
