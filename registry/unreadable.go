package registry

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/keelson-dev/keelson/registry/codec"
	"github.com/keelson-dev/keelson/storage"
)

// unreadable is a record whose object is not known: no key decrypts it, or it does not decode. Reads of it
// fail, lists omit it with a warning, and watchers get no event: it is not deleted. Nobody can overwrite it;
// deleting it requires the option to ignore read errors. It is retried from time to time.
type unreadable struct {
	revision int64
	err      error
}

// corrupt is the code of upstream's storage error for such records.
const corrupt = 7

// unreadableError is the error for a request for an unreadable record, in upstream's words.
func (r *Resource) unreadableError(key, name string, u unreadable) *Error {
	return r.errorf(ErrInternal, name, "StorageError: corrupt object, Code: %d, Key: %s, ResourceVersion: 0, AdditionalErrorMsg: %v", corrupt, r.storageKey(key), u.err)
}

// markUnreadable marks the record at key as unreadable. The caller holds the lock, if there are readers yet.
func (t *table) markUnreadable(key string, u unreadable) {
	t.unreadable[key] = u
	if prev, ok := t.tree.Get(key); ok {
		t.drop(prev)
	}
	t.latest = max(t.latest, u.revision)
}

// unreadableAt returns the unreadable record at key, if there is one.
func (t *table) unreadableAt(key string) (unreadable, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	u, ok := t.unreadable[key]
	return u, ok
}

// Unreadable returns, in key order, an error for each object of a namespace, or of all namespaces with "", that
// is stored but cannot be read; lists omit these.
func (r *Resource) Unreadable(namespace string) []error {
	if r.table == nil {
		return nil
	}
	r.table.mu.RLock()
	defer r.table.mu.RUnlock()
	var keys []string
	for key := range r.table.unreadable {
		if namespace == "" || strings.HasPrefix(key, namespace+"/") {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	all := make([]error, len(keys))
	for n, key := range keys {
		all[n] = r.unreadableError(key, key[strings.LastIndexByte(key, '/')+1:], r.table.unreadable[key])
	}
	return all
}

// unreadableWarnings bounds how many unreadable objects a list names.
const unreadableWarnings = 10

// warnUnreadable warns a client of the unreadable objects missing from its list.
func (r *Resource) warnUnreadable(ctx context.Context, namespace string) {
	all := r.Unreadable(namespace)
	for n, err := range all {
		if n == unreadableWarnings {
			Warn(ctx, fmt.Sprintf("%d more %s cannot be read and are not in this list", len(all)-n, r.GroupResource()))
			return
		}
		Warn(ctx, "not in this list: "+err.Error())
	}
}

// deleteUnread deletes a record that cannot be read, as the delete option
// ignoreStoreReadErrorWithClusterBreakingPotential requires: without regard to finalizers, preconditions and
// what the object holds elsewhere. It refuses to delete an object that can be read, in upstream's words.
func (r *Resource) deleteUnread(ctx context.Context, key, name string, dryRun bool) (*Item, bool, error) {
	for {
		if err := r.catchUp(ctx); err != nil {
			return nil, false, err
		}
		u, ok := r.table.unreadableAt(key)
		switch {
		case !ok && r.table.get(key) != nil:
			return nil, false, r.errorf(ErrConflict, name, "StorageError: invalid object, Code: 4, Key: %s, ResourceVersion: 0, AdditionalErrorMsg: unsafe deletion is not allowed because the object is decodable from storage", r.storageKey(key))
		case !ok:
			return nil, false, r.errorf(ErrNotFound, name, "")
		case dryRun:
			return nil, true, nil
		}
		revision, err := r.registry.store.Delete(ctx, r.storageKey(key), u.revision)
		if err == nil {
			return nil, true, r.registry.clock.wait(ctx, revision)
		}
		if !refusedByStore(err) {
			return nil, false, err
		}
	}
}

const (
	// retryPeriod is how often unreadable records are retried.
	retryPeriod = 5 * time.Second
	// retried is how many of a resource are retried at a time until one can be read.
	retried = 16
)

// retry retries the resource's unreadable records: a key may have come back. A record that can be read again is
// rewritten unchanged, so that it gets a revision and watchers see it.
func (r *Resource) retry(ctx context.Context) {
	r.table.mu.RLock()
	var unreadables map[string]unreadable
	if len(r.table.unreadable) > 0 { // hardly ever
		unreadables = maps.Clone(r.table.unreadable)
	}
	r.table.mu.RUnlock()
	tries := retried
	for key, u := range unreadables {
		if tries == 0 || ctx.Err() != nil {
			return
		}
		tries--
		if r.reread(ctx, key, u) {
			tries = len(unreadables)
		}
	}
}

// reread reports whether the record can be read again, and rewrites it if so.
func (r *Resource) reread(ctx context.Context, key string, u unreadable) bool {
	rec, err := r.registry.store.Get(ctx, r.storageKey(key))
	if err != nil || rec.Revision != u.revision {
		return false
	}
	if _, err := r.decode(rec.Key, rec.Value, rec.Revision); err != nil {
		return false
	}
	_, err = r.storeOver(ctx, &Item{key: key, Revision: rec.Revision}, rec.Value)
	if err != nil && !refusedByStore(err) && ctx.Err() == nil {
		r.registry.log.Warn("cannot rewrite an object that can be read again", "key", rec.Key, "error", err)
	}
	return err == nil
}

// rewritable reports whether a write that changes nothing must still be stored, because the store would now
// encode the record differently.
func (r *Resource) rewritable(ctx context.Context, current *Item, obj Object) (bool, error) {
	if refresher, ok := storage.As[storage.Refresher](r.registry.store); ok {
		if stale, err := refresher.Stale(ctx, r.storageKey(current.key)); stale || err != nil {
			return stale, err
		}
	}
	return r.outdated(ctx, current, obj)
}

// outdated reports whether the store has an object of a kind with several versions in another form than it would get
// now. Migrations to another stored version write objects as they are.
func (r *Resource) outdated(ctx context.Context, current *Item, obj Object) (bool, error) {
	if r.stored.DecodeStored == nil && len(r.stored.Older) == 0 {
		return false, nil // there has never been another form
	}
	rec, err := r.registry.store.Get(ctx, r.storageKey(current.key))
	if err != nil || rec.Err != nil || rec.Revision != current.Revision {
		return false, err
	}
	obj = obj.DeepCopyObject().(Object)
	obj.SetResourceVersion("") // as in a write
	codec.Canonical(obj)
	is, err := codec.Stored(r.gvk(), obj)
	return err == nil && !bytes.Equal(rec.Value, is), err
}
