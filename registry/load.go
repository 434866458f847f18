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
// the stream must come to before reads may show anything. At the first time, where the store has a history,
// the state is read as it was in the past, so that what happened since can be watched again: clients
// resume their watches after a restart.
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

// state is what a table is to hold.
type state struct {
	tree       *itemTree
	unreadable map[string]unreadable
}

// load reads the state at a revision, or with 0 the newest, into the tables and returns which it was.
func (r *Registry) load(ctx context.Context, revision int64) (int64, error) {
	states := map[*Resource]*state{}
	for _, res := range r.byPrefix {
		states[res] = &state{tree: newTree(), unreadable: map[string]unreadable{}}
	}
	o := storage.ListOptions{Limit: loadPage, Revision: revision}
	for {
		page, err := r.store.List(ctx, Root, o)
		if err != nil {
			return 0, fmt.Errorf("list the store: %w", err)
		}
		if shown := r.clock.read(); page.Revision < shown {
			return 0, fmt.Errorf("the store has gone back from revision %d to %d; restart, so that clients list again", shown, page.Revision)
		}
		for _, rec := range page.Records {
			if res, key := r.locate(rec.Key); res != nil {
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

// take puts a record that was read into the state of its resource.
func (r *Registry) take(s *state, res *Resource, key string, rec storage.Record) {
	obj, err := res.read(rec.Key, rec.Value, rec.Err, rec.Revision)
	if err != nil {
		r.log.Error("a stored object cannot be read", "key", rec.Key, "error", err)
		s.unreadable[key] = unreadable{rec.Revision, err}
		return
	}
	s.tree.Put(res.item(key, obj, rec.Revision, len(rec.Value)))
}

// update is a committed change on its way into a table.
type update struct {
	res   *Resource
	key   string
	event storage.Event
	obj   Object // of a Put that can be read
	err   error  // of one that cannot
}

// apply takes the changes of one revision into the caches of their resources. Who writes to the store by
// other ways, and leases whose time is over, may change several keys at one revision: readers of a
// resource see all of it or nothing.
func (r *Registry) apply(events []storage.Event) {
	var all []update
	for _, e := range events {
		if u, ok := r.prepare(e); ok {
			all = append(all, u)
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

// prepare does what needs no lock.
func (r *Registry) prepare(e storage.Event) (u update, ok bool) {
	if e.Type == storage.Progress {
		return u, false
	}
	u.event = e
	if u.res, u.key = r.locate(e.Key); u.res == nil {
		return u, false
	}
	if e.Type == storage.Put {
		if u.obj = r.pending.take(e); u.obj == nil {
			if u.obj, u.err = u.res.read(e.Key, e.Value, e.Err, e.Revision); u.err != nil {
				r.log.Error("a stored object cannot be read", "key", e.Key, "error", u.err)
			}
		}
	}
	return u, true
}

// apply changes the table, whose lock is held.
func (u update) apply(t *table) {
	revision := u.event.Revision
	switch {
	case u.err != nil:
		t.spoil(u.key, unreadable{revision, u.err})
	case u.obj != nil:
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
