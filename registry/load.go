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

// begin reads the store and returns a stream of the changes that followed, and the revision that the stream
// must reach before reads may show anything. The first time, if the store has a history, it reads a past state,
// so that clients can resume their watches after a restart.
func (r *Registry) begin(ctx context.Context, again bool) (stream storage.Stream, now int64, err error) {
	var from int64
	if !again {
		if from, err = r.past(ctx); err != nil {
			return nil, 0, err
		}
	}
	for {
		revision, err := r.load(ctx, from)
		if err == nil {
			stream, err = r.store.Watch(ctx, Root, revision)
		}
		if errors.Is(err, storage.ErrCompacted) && ctx.Err() == nil {
			from = 0 // the past was compacted meanwhile: read the present
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

// past returns the revision at which to read the store; 0 is the newest.
func (r *Registry) past(ctx context.Context) (int64, error) {
	historian, ok := storage.As[storage.Historian](r.store)
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
	return min(max(oldest, now-int64(r.options.History)), now), nil
}

// state is the new content of a table.
type state struct {
	items
	unreadable map[string]unreadable
}

// load reads the state at a revision, or the newest with 0, into the tables and returns the revision it read.
func (r *Registry) load(ctx context.Context, revision int64) (int64, error) {
	r.installing.Lock()
	defer r.installing.Unlock()
	r.begun = true
	kinds := r.kinds.Load()
	states := map[*Resource]*state{}
	for _, res := range kinds.stored {
		states[res] = newState()
	}
	o := storage.ListOptions{Limit: loadPage, Revision: revision}
	for {
		page, err := r.store.List(ctx, Root, o)
		if err != nil {
			return 0, fmt.Errorf("list the store: %w", err)
		}
		if shown := r.clock.read(); page.Revision < shown {
			return 0, fmt.Errorf("the store went back from revision %d to %d; restart the server so that clients list again", shown, page.Revision)
		}
		for _, rec := range page.Records {
			if res, key := locate(kinds.stored, rec.Key); res != nil {
				r.take(states[res], res, key, rec)
			}
		}
		o.Revision = page.Revision
		if !page.More {
			for res, s := range states {
				res.table.replace(s, page.Revision)
			}
			return page.Revision, nil
		}
		o.After = page.Records[len(page.Records)-1].Key
	}
}

func newState() *state {
	return &state{items: items{tree: newTree()}, unreadable: map[string]unreadable{}}
}

// take adds a record to the state of its resource.
func (r *Registry) take(s *state, res *Resource, key string, rec storage.Record) {
	obj, err := res.read(rec.Key, rec.Value, rec.Err, rec.Revision)
	if err != nil {
		r.log.Error("a stored object cannot be read", "key", rec.Key, "error", err)
		s.unreadable[key] = unreadable{rec.Revision, err}
		return
	}
	item := res.item(key, obj, rec.Revision, len(rec.Value))
	s.tree.Put(item)
	s.pending += countPending(item)
}

// update is a committed change that is about to be applied to a table.
type update struct {
	res   *Resource
	key   string
	event storage.Event
	obj   Object // of a readable Put
	err   error  // of an unreadable Put
}

// apply applies the changes of one revision to the caches of their resources. Other writers to the store, and
// expiring leases, may change several keys at one revision: readers of a resource see all of these changes or
// none.
func (r *Registry) apply(events []storage.Event) {
	kinds := r.kinds.Load()
	var all []update
	for _, e := range events {
		if e.Type == storage.Progress {
			continue
		}
		if res, key := locate(kinds.stored, e.Key); res != nil {
			all = append(all, r.prepare(res, key, e))
		}
		if res, key := locate(kinds.loading, e.Key); res != nil && !res.table.defers(e) {
			all = append(all, r.prepare(res, key, e))
		}
	}
	for len(all) > 0 {
		t := all[0].res.table
		var others []update
		t.mu.Lock()
		for _, u := range all {
			if u.res.table == t {
				u.apply(t)
			} else {
				others = append(others, u)
			}
		}
		t.mu.Unlock()
		all = others
	}
}

// prepare does the part of apply that needs no lock.
func (r *Registry) prepare(res *Resource, key string, e storage.Event) update {
	u := update{res: res, key: key, event: e}
	if e.Type == storage.Put {
		if u.obj = r.pending.take(res, e); u.obj == nil {
			if u.obj, u.err = u.res.read(e.Key, e.Value, e.Err, e.Revision); u.err != nil {
				r.log.Error("a stored object cannot be read", "key", e.Key, "error", u.err)
			}
		}
	}
	return u
}

// apply changes the table, whose lock is held.
func (u update) apply(t *table) {
	revision := u.event.Revision
	switch {
	case revision <= t.loaded:
	case u.err != nil:
		t.markUnreadable(u.key, unreadable{revision, u.err})
	case u.obj != nil:
		if old, ok := t.tree.Get(u.key); ok && u.res.Rules.Share != nil {
			u.res.Rules.Share(u.obj, old.Object)
		}
		t.put(u.res.item(u.key, u.obj, revision, len(u.event.Value)))
	default:
		prev, ok := t.tree.Get(u.key)
		if !ok {
			delete(t.unreadable, u.key)
			return
		}
		last := prev.Object.DeepCopyObject().(Object)
		last.SetResourceVersion(strconv.FormatInt(revision, 10))
		t.remove(prev, u.res.item(u.key, last, revision, prev.size))
	}
}

// read decodes a record from the store. Its error is in upstream's words.
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
