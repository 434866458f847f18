package registry

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// freshTimeout is how long a read waits for a revision that the cache has not reached yet.
const freshTimeout = 3 * time.Second

// ListOptions are the options of a list; ResourceVersion and Match have upstream's meaning
// (https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions).
type ListOptions struct {
	Selection
	Limit           int64  // maximum number of objects; 0 is all
	Continue        string // the token of the previous page
	ResourceVersion string // as in metav1.ListOptions
	Match           metav1.ResourceVersionMatch
}

// List is the answer to a list: items in key order, all as of one revision.
type List struct {
	Items    []*Item
	Revision int64 // at which all of it was read
	// Continue continues after the last item, at the same revision; empty after the last page.
	Continue string
	// Remaining is how many items follow, or nil if unknown.
	Remaining *int64
}

// errTooLarge: the client asks for a revision that does not exist (yet). It may be one that no store can have:
// resource versions have one bit more than revisions.
type errTooLarge struct {
	asked   uint64
	current int64
}

// Error has upstream's words.
func (e *errTooLarge) Error() string {
	return fmt.Sprintf("Too large resource version: %d, current: %d", e.asked, e.current)
}

// FutureRevision reports whether err is about a requested revision that does not exist yet.
func FutureRevision(err error) bool { _, ok := errors.AsType[*errTooLarge](err); return ok }

// Get returns one object. An empty resource version reads the newest state, "0" any cached state, any other a
// state at least as new.
func (r *Resource) Get(ctx context.Context, namespace, name, resourceVersion string) (*Item, error) {
	item, err := r.GetPending(ctx, namespace, name, resourceVersion)
	if err == nil && item.pending {
		return nil, r.errorf(ErrNotFound, name, "")
	}
	return item, err
}

// missing returns the error for a read of a key that has no item.
func (r *Resource) missing(key, name string) error {
	if u, ok := r.table.unreadableAt(key); ok {
		return r.unreadableError(key, name, u)
	}
	return r.errorf(ErrNotFound, name, "")
}

// Len returns the number of objects.
func (r *Resource) Len() int {
	if r.table == nil {
		return 0
	}
	r.table.mu.RLock()
	defer r.table.mu.RUnlock()
	return r.table.tree.Len()
}

// List returns the selected objects.
func (r *Resource) List(ctx context.Context, o ListOptions) (*List, error) {
	if r.Read != nil {
		return r.computeAll(ctx, o.Selection)
	}
	l, err := r.list(ctx, o)
	if err == nil {
		r.warnUnreadable(ctx, o.Namespace)
	}
	return l, err
}

func (r *Resource) list(ctx context.Context, o ListOptions) (*List, error) {
	if o.ResourceVersion == "0" {
		o.Limit = 0 // a list that may be stale is never paged
	}
	prefix := ""
	if o.Namespace != "" {
		prefix = o.Namespace + "/"
	}
	if o.Continue != "" {
		return r.listOn(ctx, prefix, o)
	}
	if o.exact() {
		return r.listExact(ctx, prefix, o)
	}
	if err := r.fresh(ctx, o.ResourceVersion); err != nil {
		return nil, err
	}
	if name, ok := o.exactName(); ok && (o.Namespace != "" || !r.Namespaced) {
		return r.listOne(indexKey(o.Namespace, name), o), nil
	}
	return r.page(ctx, r.look(o.Selection), prefix, "", o)
}

// exact reports whether the list is of one revision: by its match, or by a limit with a version, which meant
// exact before resourceVersionMatch existed.
func (o ListOptions) exact() bool {
	versioned := o.ResourceVersion != "" && o.ResourceVersion != "0"
	return o.Match == metav1.ResourceVersionMatchExact || o.Match == "" && o.Limit > 0 && versioned
}

// listExact lists at exactly one revision.
func (r *Resource) listExact(ctx context.Context, prefix string, o ListOptions) (*List, error) {
	revision, err := r.ParseVersion(o.ResourceVersion)
	if err != nil {
		return nil, err
	}
	if err := r.fresh(ctx, o.ResourceVersion); err != nil {
		return nil, err
	}
	v, ok := r.lookAt(revision, o.Selection)
	if !ok {
		return nil, r.expired(revision)
	}
	return r.page(ctx, v, prefix, "", o)
}

// listOn continues a list from its token.
func (r *Resource) listOn(ctx context.Context, prefix string, o ListOptions) (*List, error) {
	if o.ResourceVersion != "" && o.ResourceVersion != "0" {
		return nil, r.errorf(ErrBadRequest, "", "specifying resource version is not allowed when using continue")
	}
	from, revision, err := DecodeContinue(o.Continue)
	if err != nil {
		return nil, r.errorf(ErrBadRequest, "", "invalid continue token: %v", err)
	}
	if revision < 0 {
		// A token without a consistent revision continues at the newest state.
		if err := r.catchUp(ctx); err != nil {
			return nil, err
		}
		return r.page(ctx, r.look(o.Selection), prefix, prefix+from, o)
	}
	if err := r.fresh(ctx, strconv.FormatInt(revision, 10)); err != nil {
		return nil, err
	}
	v, ok := r.lookAt(revision, o.Selection)
	if !ok {
		gone := r.errorf(ErrExpired, "", "%s", "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.")
		gone.Continue = encodeContinue(from, -1)
		return nil, gone
	}
	return r.page(ctx, v, prefix, prefix+from, o)
}

func (r *Resource) listOne(key string, o ListOptions) *List {
	t := r.table
	t.mu.RLock()
	item, _ := t.tree.Get(key)
	l := &List{Revision: t.revision(&r.registry.clock)}
	t.mu.RUnlock()
	if item != nil {
		l.Items = r.selected([]*Item{item}, o.Selection)
	}
	return l
}

func (r *Resource) selected(items []*Item, s Selection) []*Item {
	kept := items[:0]
	for _, i := range items {
		if s.matches(&r.Kind, i) {
			kept = append(kept, i)
		}
	}
	return kept
}

// page collects the selected items of a state from a key on, until the limit or until ctx ends.
func (r *Resource) page(ctx context.Context, v *view, prefix, from string, o ListOptions) (*List, error) {
	l := &List{Revision: v.revision}
	v.walk(prefix, from, func(i *Item) bool {
		if v.all || o.matches(&r.Kind, i) {
			l.Items = append(l.Items, i)
		}
		return ctx.Err() == nil && (o.Limit <= 0 || int64(len(l.Items)) < o.Limit)
	})
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if o.Limit <= 0 || int64(len(l.Items)) < o.Limit {
		return l, nil
	}
	last := l.Items[len(l.Items)-1].key
	// The remaining items are counted without checking whether they are selected, as upstream does.
	remaining := v.after(prefix, last)
	if remaining == 0 {
		return l, nil
	}
	l.Continue = encodeContinue(strings.TrimPrefix(last, prefix)+"\x00", v.revision)
	r.table.keep(v)
	if o.everything() && v.complete(o.Selection) {
		l.Remaining = &remaining
	}
	return l, nil
}

// fresh waits until the cache is as new as resourceVersion requires.
func (r *Resource) fresh(ctx context.Context, resourceVersion string) error {
	switch resourceVersion {
	case "":
		return r.catchUp(ctx)
	case "0":
		return nil
	}
	revision, err := r.ParseVersion(resourceVersion)
	if err != nil {
		return err
	}
	return r.await(ctx, revision)
}

// await waits until the cache has reached a revision. If that takes too long, FutureRevision is true of its
// error.
func (r *Resource) await(ctx context.Context, revision int64) error {
	if r.registry.clock.read() >= revision {
		return nil // saves a timer
	}
	waiting, cancel := context.WithTimeout(ctx, freshTimeout)
	defer cancel()
	err := r.registry.clock.wait(waiting, revision)
	if err != nil && ctx.Err() == nil && waiting.Err() != nil {
		return &errTooLarge{asked: uint64(revision), current: r.registry.clock.read()}
	}
	return err
}

func (r *Resource) expired(revision int64) error {
	r.table.mu.RLock()
	oldest := max(r.table.log.oldest, r.table.compacted)
	r.table.mu.RUnlock()
	return r.errorf(ErrExpired, "", "too old resource version: %d (%d)", revision, oldest)
}

// ParseVersion parses a resource version, an unsigned 64-bit number, as a revision. A malformed one is
// ErrBadRequest; FutureRevision is true of the error about one larger than any revision.
func (r *Resource) ParseVersion(v string) (int64, error) {
	n, err := strconv.ParseUint(v, 10, 64)
	switch {
	case err != nil:
		return 0, r.errorf(ErrBadRequest, "", "invalid resource version: resourceVersion: Invalid value: %q: %v", v, err)
	case n > math.MaxInt64:
		return 0, &errTooLarge{asked: n, current: r.registry.clock.read()}
	}
	return int64(n), nil
}

// exactName returns the name that the field selector requires, if any.
func (s Selection) exactName() (string, bool) {
	if s.Fields == nil {
		return "", false
	}
	return s.Fields.RequiresExactMatch("metadata.name")
}

// continueToken is the format of upstream's continue tokens.
type continueToken struct {
	APIVersion      string `json:"v"`
	ResourceVersion int64  `json:"rv"`
	StartKey        string `json:"start"`
}

func encodeContinue(start string, revision int64) string {
	token := continueToken{APIVersion: "meta.k8s.io/v1", ResourceVersion: revision, StartKey: start}
	data, _ := json.Marshal(token) //nolint:errchkjson // strings and a number marshal
	return base64.RawURLEncoding.EncodeToString(data)
}

// DecodeContinue decodes a continue token into the key to continue from, relative to the list's prefix, and the
// revision, which is negative if the list continues at the newest state.
func DecodeContinue(token string) (from string, revision int64, err error) {
	data, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return "", 0, fmt.Errorf("continue key is not valid: %w", err)
	}
	var c continueToken
	if err := json.Unmarshal(data, &c); err != nil {
		return "", 0, fmt.Errorf("continue key is not valid: %w", err)
	}
	switch {
	case c.APIVersion != "meta.k8s.io/v1":
		return "", 0, fmt.Errorf("continue key is not valid: server does not recognize this encoded version %s", c.APIVersion)
	case c.ResourceVersion == 0:
		return "", 0, fmt.Errorf("continue key is not valid: incorrect encoded start resourceVersion (version meta.k8s.io/v1)")
	case c.StartKey == "":
		return "", 0, fmt.Errorf("continue key is not valid: encoded start key empty (version meta.k8s.io/v1)")
	}
	// A key must not escape from the list's prefix.
	key := "/" + strings.TrimPrefix(c.StartKey, "/")
	if path.Clean(key) != key {
		return "", 0, fmt.Errorf("continue key is not valid: %s", c.StartKey)
	}
	return key[1:], c.ResourceVersion, nil
}
