package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/apiserver/metrics"
	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/component"
	"github.com/keelson-dev/keelson/lifecycle"
	"github.com/keelson-dev/keelson/registry"
)

// Extension is a part of the API server that only those clusters have that ask for it, so that others do not link it. It
// is a value and may be copied. Package cluster/customresources has one.
type Extension struct {
	// Name identifies the extension in errors and logs.
	Name string
	// Kinds are served from the start.
	Kinds []registry.Kind
	// Admission plugins are added to those of Options.Admission. Options.Disable does not know them.
	Admission []AdmissionStage
	// Initialization, if set, hides objects until others have completed them. Of a cluster's extensions, one may have it.
	Initialization *registry.Initialization
	// New makes the extension. It starts nothing.
	New func(p *ExtensionParts) (Extended, error)
}

// Extended is a running extension.
type Extended interface {
	// Prepare is called once, before Run, when the registry has read the store. Until it returns, the cluster is not
	// ready, and its components do not run.
	Prepare(ctx context.Context) error
	lifecycle.Runnable
}

// Delegating is an Extended that lets other servers serve versions of API groups. Of a cluster's extensions, one may be
// such.
type Delegating interface {
	Extended
	apiserver.Delegates
	// OpenAPI wraps handlers of OpenAPI documents, by path, so that they also serve those of the other servers.
	OpenAPI(paths map[string]http.Handler)
}

// Measured is an Extended with metrics, which /metrics serves (Server.Metrics).
type Measured interface {
	Extended
	// Collectors returns the metrics.
	Collectors() []metrics.Collector
}

// ExtensionParts are what an extension is made from. All are set.
type ExtensionParts struct {
	// Registry holds the objects. Kinds changes which there are.
	Registry *registry.Registry
	Kinds    *Kinds
	// Client acts as Identity, the API server itself, which may do everything. Its requests pass admission.
	Client   client.Client
	Identity *authn.Identity
	// Informers are shared with the components of the cluster.
	Informers *component.Informers
	// Pace controls when loops act: see component.Parts.Loop.
	Pace   *component.Pace
	Logger *slog.Logger
}

// Kinds changes which kinds a cluster serves. Its components learn of it: the objects of new kinds are collected as
// garbage, counted by quotas and deleted with their namespace like all others. It is safe for concurrent use.
type Kinds struct {
	registry  *registry.Registry
	informers *component.Informers

	mu           sync.Mutex // guards what follows
	changed      chan struct{}
	delegated    []component.Resource
	undiscovered component.Undiscovered
}

func newKinds(r *registry.Registry, in *component.Informers) *Kinds {
	return &Kinds{registry: r, informers: in, changed: make(chan struct{})}
}

// Install serves one more kind, or replaces the kind of the same group and plural, as registry.Registry.Install does.
func (k *Kinds) Install(ctx context.Context, kind registry.Kind) error {
	res, err := k.registry.Install(ctx, kind)
	if err != nil {
		return err
	}
	served := res.GroupVersion.WithResource(res.Plural)
	k.informers.Drop(res.GroupResource(), func(gvr schema.GroupVersionResource) bool { return gvr == served })
	k.announce()
	return nil
}

// Remove stops serving a kind; it is no error if there is none. If the kind has no objects, the components of the cluster
// first learn that those it had are gone.
func (k *Kinds) Remove(ctx context.Context, gr schema.GroupResource) error {
	res, ok := k.registry.Resource(gr)
	if !ok {
		return nil
	}
	if res.Stored() && res.Len() == 0 {
		if err := k.informers.WaitEmpty(ctx, gr); err != nil {
			return err
		}
	}
	k.registry.Remove(gr)
	k.informers.Drop(gr, func(schema.GroupVersionResource) bool { return false })
	k.announce()
	return nil
}

// SetDelegated replaces the list of resources whose objects other servers have, as far as the cluster has none of that
// name itself. Its components treat these objects like all others. What a version of a group has may be unknown at the
// moment, which is not to say that there is nothing. Calls must not be concurrent.
func (k *Kinds) SetDelegated(all []component.Resource, unknown component.Undiscovered) {
	k.mu.Lock()
	before := k.delegated
	k.delegated, k.undiscovered = all, unknown
	k.mu.Unlock()
	stays := func(resource schema.GroupVersionResource) bool {
		_, ok := unknown[resource.GroupVersion()]
		return ok || slices.ContainsFunc(all, func(r component.Resource) bool { return r.GroupVersionResource == resource })
	}
	for _, r := range before {
		if _, own := k.registry.Resource(r.GroupResource()); !own && !stays(r.GroupVersionResource) {
			k.informers.Drop(r.GroupResource(), stays)
		}
	}
	k.announce()
}

// isDelegated reports whether another server has the objects of a resource.
func (k *Kinds) isDelegated(resource schema.GroupVersionResource) bool {
	if _, own := k.registry.Resource(resource.GroupResource()); own {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.ContainsFunc(k.delegated, func(r component.Resource) bool { return r.GroupVersionResource == resource })
}

// resources returns the resources that have objects.
func (k *Kinds) resources(context.Context) ([]component.Resource, error) {
	var all []component.Resource
	for _, res := range k.registry.Resources() {
		if res.Stored() {
			all = append(all, component.Resource{
				GroupVersionResource: res.GroupVersion.WithResource(res.Plural), Kind: res.Names.Kind,
				Namespaced: res.Namespaced, Scalable: res.Sub.Scale != nil,
			})
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, r := range k.delegated {
		if _, own := k.registry.Resource(r.GroupResource()); !own {
			r.Delegated = true
			all = append(all, r)
		}
	}
	if len(k.undiscovered) > 0 {
		return all, k.undiscovered
	}
	return all, nil
}

func (k *Kinds) announce() {
	k.mu.Lock()
	defer k.mu.Unlock()
	close(k.changed)
	k.changed = make(chan struct{})
}

// Changed returns a channel that is closed when the cluster next serves other kinds.
func (k *Kinds) Changed() <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.changed
}

// checkExtensions validates the extensions.
func checkExtensions(all []Extension) error {
	for i, e := range all {
		hides := func(o Extension) bool { return o.Initialization != nil }
		switch {
		case e.Name == "":
			return fmt.Errorf("%w: extension number %d has no name", ErrOptions, i)
		case e.New == nil:
			return fmt.Errorf("%w: extension %s has no New", ErrOptions, e.Name)
		case slices.ContainsFunc(all[:i], func(o Extension) bool { return o.Name == e.Name }):
			return fmt.Errorf("%w: there are two extensions %s", ErrOptions, e.Name)
		case hides(e) && slices.ContainsFunc(all[:i], hides):
			return fmt.Errorf("%w: %s is the second extension with an Initialization", ErrOptions, e.Name)
		}
	}
	return nil
}

// addExtensions makes the extensions.
func (c *Cluster) addExtensions(pace *component.Pace) error {
	for _, e := range c.options.Extensions {
		api, err := c.clientOf(systemIdentity(), "kube-apiserver")
		if err != nil {
			return fmt.Errorf("%s: %w", e.Name, err)
		}
		run, err := e.New(&ExtensionParts{
			Registry: c.registry, Kinds: c.front.kinds, Client: api, Identity: systemIdentity(), Informers: c.informers, Pace: pace, Logger: c.log,
		})
		if err = errors.Join(err, c.informers.Err()); err != nil {
			return fmt.Errorf("%s: %w", e.Name, err)
		}
		c.front.extended = append(c.front.extended, run)
		c.parts = append(c.parts, run)
	}
	return nil
}

// delegate lets other servers serve what they are to serve, if an extension provides that.
func (c *Cluster) delegate(o *apiserver.Options) error {
	for i, e := range c.front.extended {
		d, ok := e.(Delegating)
		switch {
		case !ok:
		case o.Delegates != nil:
			return fmt.Errorf("%w: %s is the second extension that delegates to other servers", ErrOptions, c.options.Extensions[i].Name)
		default:
			d.OpenAPI(o.Paths)
			o.Delegates = d
		}
	}
	return nil
}

// prepare lets the extensions read what the store has.
func (c *Cluster) prepare(ctx context.Context) error {
	for i, e := range c.front.extended {
		if err := e.Prepare(ctx); err != nil {
			return fmt.Errorf("%s: %w", c.options.Extensions[i].Name, err)
		}
	}
	return nil
}
