package registry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/registry/codec"
	"github.com/keelson-dev/keelson/storage"
)

// Root is where all keys start, as upstream's do on etcd.
const Root = "/registry/"

// Options of a Registry; the zero value is good.
type Options struct {
	// Identifiers makes UIDs and generated names; nil is random ones.
	Identifiers Identifiers
	// History is how many changes of each resource can be watched again or listed at; 0 is 4096.
	History int
	// HistoryBytes bounds the size, as stored, of the states that these changes keep in memory, for each
	// resource; 0 is 64 MiB.
	HistoryBytes int64
	// Compaction is how long at least old states can be listed and changes watched again, as far
	// as History reaches; they are forgotten before twice that time. 0 is 5 minutes, as long as
	// upstream lets etcd remember.
	Compaction time.Duration
	// EncodingBytes bounds the memory that cached encodings take; 0 is 64 MiB.
	EncodingBytes int
	Logger        *slog.Logger
}

// Registry is the kinds and their cache over a store. It answers reads from memory and waits,
// after each write, until its own reads show it. All methods are safe for concurrent use; they
// need Run to be running.
type Registry struct {
	store     storage.Store
	ids       Identifiers
	log       *slog.Logger
	resources map[schema.GroupResource]*Resource
	order     []*Resource
	byPrefix  map[string]*Resource
	space     *encodings
	clock     clock
	pending   pending
	herd      *herd
	ready     sync.Once
	synced    chan struct{} // closed when the store has been read in

	history    int
	compaction time.Duration
}

// New returns a registry of the given kinds. It reports kinds that cannot stand together.
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
		store: store, ids: o.Identifiers, log: o.Logger,
		resources: map[schema.GroupResource]*Resource{}, byPrefix: map[string]*Resource{},
		space: &encodings{budget: o.EncodingBytes}, history: o.History, compaction: o.Compaction,
		synced: make(chan struct{}), herd: newHerd(),
	}
	for _, k := range kinds {
		if err := r.install(k, &o); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (r *Registry) install(k Kind, o *Options) error {
	gr := k.GroupResource()
	if k.Plural == "" || k.Kind == "" || k.GroupVersion.Version == "" {
		return fmt.Errorf("kind %q of %s: kind, plural and version must be set", k.Kind, k.GroupVersion)
	}
	if r.resources[gr] != nil {
		return fmt.Errorf("resource %s is defined twice", gr)
	}
	res := &Resource{Kind: k, registry: r}
	if k.Answer == nil {
		if k.New == nil || k.NewList == nil {
			return fmt.Errorf("resource %s: New and NewList must be set", gr)
		}
		switch defined := len(k.Columns.Definitions) > 0; {
		case defined != (k.Columns.Cells != nil):
			return fmt.Errorf("resource %s: columns need both Definitions and Cells", gr)
		case !defined:
			res.Columns = defaultColumns()
		}
	}
	if k.Stored() {
		if other := r.byPrefix[k.Prefix]; other != nil {
			return fmt.Errorf("resources %s and %s share the storage prefix %q", gr, other.GroupResource(), k.Prefix)
		}
		res.table = newTable(o, r.herd)
		r.byPrefix[k.Prefix] = res
	}
	r.resources[gr] = res
	r.order = append(r.order, res)
	return nil
}

// Resource returns the resource of that name, or false when it is not served.
func (r *Registry) Resource(gr schema.GroupResource) (*Resource, bool) {
	res, ok := r.resources[gr]
	return res, ok
}

// Resources returns all resources in the order of their definition.
func (r *Registry) Resources() []*Resource { return r.order }

// Revision returns the newest revision that reads show.
func (r *Registry) Revision() int64 { return r.clock.read() }

// WaitSynced blocks until the store has been read in.
func (r *Registry) WaitSynced(ctx context.Context) error {
	select {
	case <-r.synced:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Run reads the store in, then follows it until the context ends. It is called once. An error
// means that the store failed. If the registry falls behind the history that the store keeps, as after a
// long time without a connection, it reads the store anew, and watches end with ErrExpired.
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
	// The herd ends behind the last change.
	herding, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var beside sync.WaitGroup
	beside.Go(func() { r.herd.run(herding) })
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
		r.log.Warn("the registry fell behind the store's history; it reads the store anew, and all watches must list again", "error", err)
	}
}

// follow applies what a stream tells until that ends. now is what it must come to before reads may
// show anything.
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

// locate splits a storage key into its resource and the key within.
func (r *Registry) locate(key string) (*Resource, string) {
	rest, ok := strings.CutPrefix(key, Root)
	if !ok {
		return nil, ""
	}
	for at := 0; ; {
		slash := strings.IndexByte(rest[at:], '/')
		if slash < 0 {
			return nil, ""
		}
		at += slash
		if res := r.byPrefix[rest[:at]]; res != nil {
			return res, rest[at+1:]
		}
		at++
	}
}

// Resource is one kind with its cache.
type Resource struct {
	Kind
	registry *Registry
	table    *table
}

func (r *Resource) storageKey(key string) string { return Root + r.Prefix + "/" + key }

// item makes a state; size is that of its stored form.
func (r *Resource) item(key string, obj Object, revision int64, size int) *Item {
	return &Item{Object: obj, Revision: revision, key: key, size: size, space: r.registry.space}
}

// gvk is the type objects are stored as.
func (r *Resource) gvk() schema.GroupVersionKind { return r.GroupVersion.WithKind(r.Names.Kind) }

func (r *Resource) decode(key string, value []byte, revision int64) (Object, error) {
	obj, err := r.open(value)
	if err != nil {
		return nil, fmt.Errorf("stored object %s does not decode as %s: %w", key, r.gvk(), err)
	}
	if r.Rules.Default != nil {
		r.Rules.Default(obj)
	}
	if r.Rules.Restore != nil {
		r.Rules.Restore(obj)
	}
	obj.SetResourceVersion(strconv.FormatInt(revision, 10))
	return obj, nil
}

// open decodes a stored value, in whichever version it is.
func (r *Resource) open(value []byte) (Object, error) {
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
				return v.ToStored(served), nil
			}
		}
	}
	obj := r.New()
	_, err := codec.Decode(value, obj)
	return obj, err
}
