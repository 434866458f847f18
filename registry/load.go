package registry

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/keelson-dev/keelson/storage"
)

// loadPage is how many records are read at a time.
const loadPage = 2000

// begin reads the store in and returns a stream of what happened after that, and the revision that
// the stream must come to before reads may show anything. Where the store has a history the
// state is read as it was in the past, so that what happened since can be watched again: clients
// resume their watches after a restart.
func (r *Registry) begin(ctx context.Context) (stream storage.Stream, now int64, err error) {
	from, err := r.past(ctx)
	if err != nil {
		return nil, 0, err
	}
	for {
		revision, err := r.load(ctx, from)
		if err == nil {
			stream, err = r.store.Watch(ctx, Root, revision)
		}
		if errors.Is(err, storage.ErrCompacted) && ctx.Err() == nil {
			from = 0 // the past went away meanwhile: take the present
			continue
		}
		if err != nil {
			return nil, 0, err
		}
		if now, err = r.store.Revision(ctx); err != nil {
			stream.Close()
			return nil, 0, fmt.Errorf("ask the store for its revision: %w", err)
		}
		r.clock.advance(revision)
		return stream, now, nil
	}
}

// past returns the revision to read the store in at; 0 is the newest.
func (r *Registry) past(ctx context.Context) (int64, error) {
	historian, ok := r.store.(storage.Historian)
	if !ok {
		return 0, nil
	}
	now, err := r.store.Revision(ctx)
	if err != nil {
		return 0, fmt.Errorf("ask the store for its revision: %w", err)
	}
	oldest, err := historian.Oldest(ctx)
	if err != nil {
		return 0, fmt.Errorf("ask the store for its history: %w", err)
	}
	return min(max(oldest, now-int64(r.history)), now), nil
}

// load reads the state at a revision, or with 0 the newest, and returns which it was.
func (r *Registry) load(ctx context.Context, revision int64) (int64, error) {
	for _, res := range r.byPrefix {
		res.table.clear()
	}
	o := storage.ListOptions{Limit: loadPage, Revision: revision}
	for {
		page, err := r.store.List(ctx, Root, o)
		if err != nil {
			return 0, fmt.Errorf("list the store: %w", err)
		}
		for _, rec := range page.Records {
			r.take(rec)
		}
		o.Revision = page.Revision
		if !page.More {
			for _, res := range r.byPrefix {
				res.table.log.oldest = page.Revision
			}
			return page.Revision, nil
		}
		o.After = page.Records[len(page.Records)-1].Key
	}
}

// take puts a record that was read into its table.
func (r *Registry) take(rec storage.Record) {
	res, key := r.locate(rec.Key)
	if res == nil {
		return
	}
	obj, err := res.read(rec.Key, rec.Value, rec.Err, rec.Revision)
	if err != nil {
		r.log.Error("a stored object cannot be read", "key", rec.Key, "error", err)
		res.table.spoil(key, unreadable{rec.Revision, err})
		return
	}
	res.table.load(res.item(key, obj, rec.Revision, len(rec.Value)))
}

// apply takes one committed change into the cache of its resource.
func (r *Registry) apply(e storage.Event) {
	if e.Type == storage.Progress {
		return
	}
	res, key := r.locate(e.Key)
	if res == nil {
		return
	}
	if e.Type == storage.Delete {
		prev := res.table.get(key)
		if prev == nil {
			res.table.mend(key)
			return
		}
		last := prev.Object.DeepCopyObject().(Object)
		last.SetResourceVersion(strconv.FormatInt(e.Revision, 10))
		res.table.remove(prev, res.item(key, last, e.Revision, prev.size))
		return
	}
	obj := r.pending.take(e)
	if obj == nil {
		var err error
		if obj, err = res.read(e.Key, e.Value, e.Err, e.Revision); err != nil {
			r.log.Error("a stored object cannot be read", "key", e.Key, "error", err)
			res.table.spoil(key, unreadable{e.Revision, err})
			return
		}
	}
	res.table.put(res.item(key, obj, e.Revision, len(e.Value)))
}

// read decodes what the store told of a record. Its error is in upstream's words.
func (r *Resource) read(key string, value []byte, unread error, revision int64) (Object, error) {
	what, err := "data from the storage is not transformable", unread
	var obj Object
	if err == nil {
		what = "object not decodable"
		obj, err = r.decode(key, value, revision)
	}
	if err != nil {
		return nil, fmt.Errorf("%s revision=%d: %w", what, revision, err)
	}
	return obj, nil
}
