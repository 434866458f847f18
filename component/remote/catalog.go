package remote

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/component"
)

const (
	// again is how often the server is asked which resources there are, as often as upstream's controllers ask.
	again = 30 * time.Second
	// fresh is how long an answer is taken for the current state. It is shorter than what the namespace controller
	// waits before it looks for the objects of a namespace.
	fresh = time.Second
	// patience bounds one round of questions.
	patience = 20 * time.Second
)

// catalog knows the resources that a server stores: those that can be listed, watched and deleted, each in the version
// that the server prefers.
type catalog struct {
	server discovery.DiscoveryInterfaceWithContext
	scheme *runtime.Scheme
	log    *slog.Logger
	// drop ends what reads a resource in other versions than those that stay.
	drop func(gr schema.GroupResource, stays func(schema.GroupVersionResource) bool)
	turn chan struct{} // held while the server is asked

	mu      sync.Mutex // guards what follows
	stored  []component.Resource
	unknown component.Undiscovered
	asked   time.Time
	changed chan struct{}
}

// newCatalog asks the server for the first time.
func newCatalog(ctx context.Context, config *rest.Config, scheme *runtime.Scheme, log *slog.Logger) (*catalog, error) {
	d, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	c := &catalog{server: d, scheme: scheme, log: log, turn: make(chan struct{}, 1), changed: make(chan struct{})}
	return c, c.refresh(ctx)
}

// run asks the server from time to time.
func (c *catalog) run(ctx context.Context) error {
	tick := time.NewTicker(again)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := c.refresh(ctx); err != nil && ctx.Err() == nil {
			c.log.Warn("which resources there are is unknown; the last known ones stay", "error", err)
		}
	}
}

// resources implements component.Cluster.Resources.
func (c *catalog) resources(ctx context.Context) ([]component.Resource, error) {
	if err := c.refresh(ctx); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.unknown) > 0 {
		return c.stored, c.unknown
	}
	return c.stored, nil
}

// known returns the resources of the last answer.
func (c *catalog) known() []component.Resource {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stored
}

// next implements component.Cluster.Changed.
func (c *catalog) next() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changed
}

// refresh asks the server unless it has just been asked.
func (c *catalog) refresh(ctx context.Context) error {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	c.mu.Lock()
	isFresh := !c.asked.IsZero() && time.Since(c.asked) < fresh
	c.mu.Unlock()
	if isFresh {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	began := time.Now()
	stored, unknown, err := c.ask(ctx)
	if err != nil {
		return err
	}
	c.note(stored, unknown, began)
	return nil
}

// note replaces what is known.
func (c *catalog) note(stored []component.Resource, unknown component.Undiscovered, now time.Time) {
	c.mu.Lock()
	before, same := c.stored, slices.Equal(c.stored, stored) && sameVersions(c.unknown, unknown)
	c.stored, c.unknown, c.asked = stored, unknown, now
	c.mu.Unlock()
	if same {
		return
	}
	stays := func(resource schema.GroupVersionResource) bool {
		_, ok := unknown[resource.GroupVersion()]
		return ok || slices.ContainsFunc(stored, func(r component.Resource) bool { return r.GroupVersionResource == resource })
	}
	for _, r := range before {
		if !stays(r.GroupVersionResource) {
			c.drop(r.GroupResource(), stays)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.changed)
	c.changed = make(chan struct{})
}

// sameVersions reports whether the same versions are unknown, for whatever reason.
func sameVersions(a, b component.Undiscovered) bool {
	for gv := range a {
		if _, ok := b[gv]; !ok {
			return false
		}
	}
	return len(a) == len(b)
}

// ask asks the server for what it stores, and in which versions that is unknown.
func (c *catalog) ask(ctx context.Context) ([]component.Resource, component.Undiscovered, error) {
	groups, lists, err := c.server.ServerGroupsAndResourcesWithContext(ctx)
	unknown := component.Undiscovered{}
	if partial, ok := errors.AsType[*discovery.ErrGroupDiscoveryFailed](err); ok {
		for gv, err := range partial.Groups {
			unknown[gv] = err
		}
	} else if err != nil {
		return nil, nil, err
	}
	byVersion := map[string][]metav1.APIResource{}
	for _, list := range lists {
		byVersion[list.GroupVersion] = list.APIResources
	}
	var all []component.Resource
	for _, g := range groups {
		known := map[string]bool{}
		for _, v := range append([]metav1.GroupVersionForDiscovery{g.PreferredVersion}, g.Versions...) {
			served := byVersion[v.GroupVersion]
			for _, r := range served {
				if !stored(r) || known[r.Name] {
					continue
				}
				known[r.Name] = true
				one := component.Resource{
					GroupVersionResource: schema.GroupVersionResource{Group: g.Name, Version: v.Version, Resource: r.Name},
					Kind:                 r.Kind, Namespaced: r.Namespaced,
					Scalable: slices.ContainsFunc(served, func(s metav1.APIResource) bool { return s.Name == r.Name+"/scale" }),
				}
				// Discovery does not tell whose the objects are. Those of kinds that nobody here knows may be others'.
				one.Delegated = !c.scheme.Recognizes(one.GroupVersionKind())
				all = append(all, one)
			}
		}
	}
	return all, unknown, nil
}

// stored reports whether a resource has objects that can be listed, watched and deleted.
func stored(r metav1.APIResource) bool {
	for _, verb := range []string{"list", "watch", "delete"} {
		if !slices.Contains(r.Verbs, verb) {
			return false
		}
	}
	return !strings.Contains(r.Name, "/")
}
