package registry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/registry/codec"
	"github.com/keelson-dev/keelson/storage"
)

// Root is the prefix of all storage keys, the same as upstream's in etcd.
const Root = "/registry/"

// Options are the options of a Registry; the zero value is valid.
type Options struct {
	// Identifiers makes UIDs and generated names; nil makes random ones.
	Identifiers Identifiers
	// History is how many changes of each resource can be watched again or listed at; 0 is 4096.
	History int
	// HistoryBytes bounds the stored size of the states that these changes keep in memory, per resource; 0 is
	// 64 MiB.
	HistoryBytes int64
	// Compaction is the minimum time for which old states can be listed and changes watched again, as far as
	// History reaches; they are dropped before twice that time has passed. 0 is 5 minutes, upstream's
	// compaction interval for etcd.
	Compaction time.Duration
	// EncodingBytes bounds the memory that cached encodings take; 0 is 64 MiB.
	EncodingBytes int
	// Initialization, if set, hides objects until others have completed them.
	Initialization *Initialization
	Logger         *slog.Logger
}

// Registry is the kinds and their cache over a store. It answers reads from memory; a write returns only when
// its own reads show it. All methods are safe for concurrent use; they need Run to be running.
type Registry struct {
	store   storage.Store
	ids     Identifiers
	log     *slog.Logger
	options Options
	space   *encodings
	clock   clock
	pending pending
	waker   *waker
	waits   waits
	ready   sync.Once
	synced  chan struct{} // closed when the store has been read

	kinds      atomic.Pointer[kindSet]
	installing sync.Mutex // held while kinds are changed, and while the store is read
	begun      bool       // the store has been read once; guarded by installing
}

// New returns a registry of the given kinds, or an error if they conflict.
func New(store storage.Store, kinds []Kind, o Options) (*Registry, error) {
	if o.Identifiers == nil {
		o.Identifiers = Random()
	}
	if o.History <= 0 {
		o.History = 4096
	}
	if o.HistoryBytes <= 0 {
		o.HistoryBytes = 64 << 20
	}
	if o.Compaction <= 0 {
		o.Compaction = 5 * time.Minute
	}
	if o.EncodingBytes <= 0 {
		o.EncodingBytes = 64 << 20
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	r := &Registry{
		store: store, ids: o.Identifiers, log: o.Logger, options: o,
		space: &encodings{budget: o.EncodingBytes}, synced: make(chan struct{}), waker: newWaker(), waits: waits{ended: make(chan time.Time)},
	}
	set := (&kindSet{}).without(schema.GroupResource{})
	for _, k := range kinds {
		res, err := r.resource(k)
		if err != nil {
			return nil, err
		}
		if set.named[res.GroupResource()] != nil {
			return nil, fmt.Errorf("resource %s is defined twice", res.GroupResource())
		}
		if err := set.add(res); err != nil {
			return nil, err
		}
	}
	r.kinds.Store(set)
	return r, nil
}

// Revision returns the newest revision that reads show.
func (r *Registry) Revision() int64 { return r.clock.read() }

// WaitSynced blocks until the store has been read.
func (r *Registry) WaitSynced(ctx context.Context) error {
	select {
	case <-r.synced:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Run reads the store, then follows it until the context ends. It is called once. An error means that the store
// failed. If the registry falls behind the history that the store keeps, such as after a long disconnection, it
// reads the store again, and watches end with ErrExpired.
func (r *Registry) Run(ctx context.Context) error {
	err := r.run(ctx)
	if ctx.Err() != nil {
		err = nil
	}
	if err != nil {
		r.clock.stop(fmt.Errorf("%w: %w", errStopped, err))
	} else {
		r.clock.stop(errStopped)
	}
	return err
}

func (r *Registry) run(ctx context.Context) error {
	// The waker must outlive the last change.
	waking, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var beside sync.WaitGroup
	beside.Go(func() { r.waker.run(waking) })
	defer func() { cancel(); beside.Wait() }()
	forgetting, cancelForget := context.WithCancel(ctx)
	beside.Go(func() {
		if r.WaitSynced(forgetting) == nil {
			r.forget(forgetting)
		}
	})
	defer cancelForget()
	for again := false; ; again = true {
		stream, now, err := r.begin(ctx, again)
		if err != nil {
			return err
		}
		err = r.follow(ctx, stream, now)
		stream.Close()
		if !errors.Is(err, storage.ErrCompacted) || ctx.Err() != nil {
			return fmt.Errorf("follow the store: %w", err)
		}
		r.log.Warn("the registry fell behind the store's history: it reads the store again, and all watches must list again", "error", err)
	}
}

// follow applies the changes of a stream until it ends. Reads may show nothing before revision now is reached.
func (r *Registry) follow(ctx context.Context, stream storage.Stream, now int64) error {
	for told := r.clock.read(); ; {
		if told >= now {
			r.ready.Do(func() { close(r.synced) })
		}
		events, err := stream.Next(ctx)
		if err != nil {
			return err
		}
		for len(events) > 0 {
			n := 1
			for told = events[0].Revision; n < len(events) && events[n].Revision == told; n++ {
			}
			r.apply(events[:n])
			r.clock.advance(told)
			events = events[n:]
		}
	}
}

// Resource is one kind in one group-version, with its cache.
type Resource struct {
	Kind
	registry *Registry
	table    *table
	// version is that of a further group-version, nil for the stored one; stored is the resource of the latter.
	version *Version
	stored  *Resource
	further []*Resource
}

// Storage returns the resource of the stored version, which may be this one.
func (r *Resource) Storage() *Resource { return r.stored }

// Versions returns the resource in each group-version that is served. The slice is new.
func (r *Resource) Versions() []*Resource {
	if r.stored.Unserved {
		return slices.Clone(r.stored.further)
	}
	return append([]*Resource{r.stored}, r.stored.further...)
}

// ToStored converts an object of this version to the stored one. The result may be the argument itself, which does not
// change otherwise.
func (r *Resource) ToStored(ctx context.Context, obj Object) (Object, error) {
	if r.version == nil {
		return obj, nil
	}
	return r.version.ToStored(ctx, obj)
}

// FromStored converts a stored object to this version. The result may be the argument itself, which does not change
// otherwise.
func (r *Resource) FromStored(ctx context.Context, obj Object) (Object, error) {
	if r.version == nil {
		return obj, nil
	}
	return r.version.FromStored(ctx, obj)
}

// Batched returns FromStored for several objects if one call for all is cheaper than one for each, or nil.
func (r *Resource) Batched() func(ctx context.Context, objs []Object) ([]Object, error) {
	if r.version == nil {
		return nil
	}
	return r.version.AllFromStored
}

// ShowsVersion reports whether Columns shows objects of this version, and not stored ones.
func (r *Resource) ShowsVersion() bool { return r.version != nil && r.version.Columns != nil }

func (r *Resource) storageKey(key string) string { return Root + r.Prefix + "/" + key }

// item returns a new state; size is that of its stored form.
func (r *Resource) item(key string, obj Object, revision int64, size int) *Item {
	return &Item{Object: obj, Revision: revision, key: key, size: size, space: r.registry.space, pending: r.isPending(obj)}
}

// gvk is the type in which objects are stored.
func (r *Resource) gvk() schema.GroupVersionKind {
	return r.stored.StoredAs()
}

func (r *Resource) decode(key string, value []byte, revision int64) (Object, error) {
	obj, err := r.stored.open(value)
	if err != nil {
		return nil, fmt.Errorf("stored object %s does not decode as %s: %w", key, r.gvk(), err)
	}
	obj.SetResourceVersion(strconv.FormatInt(revision, 10))
	return obj, nil
}

// open decodes a stored value of any version, and sets the defaults.
func (r *Resource) open(value []byte) (Object, error) {
	if r.DecodeStored != nil {
		return r.DecodeStored(value)
	}
	obj, err := r.openTyped(value)
	if err != nil {
		return nil, err
	}
	if r.Rules.Default != nil {
		r.Rules.Default(obj)
	}
	if r.Rules.Restore != nil {
		r.Rules.Restore(obj)
	}
	return obj, nil
}

func (r *Resource) openTyped(value []byte) (Object, error) {
	if len(r.Also)+len(r.Older) > 0 {
		gvk, err := codec.Type(value)
		if err != nil {
			return nil, err
		}
		for _, v := range r.Older {
			if gvk.GroupVersion() == v.GroupVersion {
				old := v.New()
				if _, err := codec.Decode(value, old); err != nil {
					return nil, err
				}
				return v.ToStored(old), nil
			}
		}
		for _, v := range r.Also {
			if gvk.GroupVersion() == v.GroupVersion {
				served := v.New()
				if _, err := codec.Decode(value, served); err != nil {
					return nil, err
				}
				return v.ToStored(context.Background(), served)
			}
		}
	}
	obj := r.New()
	_, err := codec.Decode(value, obj)
	return obj, err
}
