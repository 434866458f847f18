package discovery

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgo "k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/disk"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/keelson-dev/keelson/client"
)

// TTL is how long an answer is cached by default, as by kubectl.
const TTL = 6 * time.Hour

// The rate limit of requests to the server: those for all groups and versions come in one burst.
const (
	qps   = 50
	burst = 300
)

// Options of a Client.
type Options struct {
	// CacheDir is the cache directory, kubectl's --cache-dir: ~/.kube/cache or KUBECACHEDIR. If it is empty, answers
	// are cached in memory.
	CacheDir string
	// TTL is how long answers on disk are valid; [TTL] when 0.
	TTL time.Duration
	// Warn is called when a short name stands for several resources. It may be nil.
	Warn func(string)
}

// Client knows what one server serves. Make one with New.
type Client struct {
	server     clientgo.CachedDiscoveryInterface
	shortcuts  meta.RESTMapper
	mapper     meta.RESTMapperWithContext // the same, with contexts
	categories restmapper.CategoryExpanderWithContext
	turn       chan struct{} // held by the user of the above: client-go's disk cache is for one caller at a time
}

// New makes a Client of config's server. It makes no request yet.
func New(config *rest.Config, o Options) (*Client, error) {
	config = rest.CopyConfig(config)
	if config.QPS >= 0 {
		config.QPS, config.Burst = qps, burst
	}
	if o.Warn == nil {
		o.Warn = func(string) {}
	}
	if o.TTL == 0 {
		o.TTL = TTL
	}
	cached, err := open(config, o)
	if err != nil {
		return nil, fmt.Errorf("discovery: %w", err)
	}
	shortcuts := restmapper.NewShortcutExpander(restmapper.NewDeferredDiscoveryRESTMapper(cached), cached, o.Warn)
	return &Client{
		server: cached, shortcuts: shortcuts, mapper: meta.ToRESTMapperWithContext(shortcuts),
		categories: restmapper.NewDiscoveryCategoryExpanderWithContext(clientgo.ToDiscoveryInterfaceWithContext(cached)),
		turn:       make(chan struct{}, 1),
	}, nil
}

func open(config *rest.Config, o Options) (clientgo.CachedDiscoveryInterface, error) {
	if o.CacheDir != "" {
		cached, err := disk.NewCachedDiscoveryClientForConfig(config, hostDir(o.CacheDir, config.Host), filepath.Join(o.CacheDir, "http"), o.TTL)
		if err != nil {
			return nil, err
		}
		return onDisk{cached}, nil
	}
	asked, err := clientgo.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	return memory.NewMemCacheClient(asked), nil
}

// hostDir is kubectl's cache directory of a host.
func hostDir(cache, host string) string {
	name := strings.Replace(strings.Replace(host, "https://", "", 1), "http://", "", 1)
	name = regexp.MustCompile(`[^(\w/.)]`).ReplaceAllString(name, "_")
	// Cleaned as a path from the root it stays below.
	return filepath.Join(cache, "discovery", filepath.Join("/", name))
}

// Server is the discovery client of client-go behind this one, with the same cache: groups, resources, the server's
// version, OpenAPI documents. With a CacheDir it is for one goroutine at a time, which must not use the Client
// otherwise meanwhile.
func (c *Client) Server() clientgo.CachedDiscoveryInterface { return c.server }

// enter waits for its turn; leave ends it.
func (c *Client) enter(ctx context.Context) error {
	select {
	case c.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *Client) leave() { <-c.turn }

func (c *Client) withContext() clientgo.CachedDiscoveryInterfaceWithContext {
	return clientgo.ToCachedDiscoveryInterfaceWithContext(c.server)
}

// Mapper finds resources and kinds; it knows short names. It is a ResourceMapper for package
// generate. With a CacheDir it is for one goroutine at a time, as the Server is.
func (c *Client) Mapper() meta.RESTMapper { return c.shortcuts }

// Invalidate drops the cache: the server is asked again. The error is the context's.
func (c *Client) Invalidate(ctx context.Context) error {
	if err := c.enter(ctx); err != nil {
		return err
	}
	defer c.leave()
	c.withContext().InvalidateWithContext(ctx)
	if r, ok := c.mapper.(meta.ResettableRESTMapperWithContext); ok {
		r.ResetWithContext(ctx)
	}
	return nil
}

// notServed is an error about a name, in kubectl's words.
type notServed struct {
	name  schema.GroupResource
	cause error
}

func (e *notServed) Error() string {
	text := fmt.Sprintf("the server doesn't have a resource type %q", e.name.Resource)
	if e.name.Group != "" {
		text += fmt.Sprintf(" in group %q", e.name.Group)
	}
	return text
}

func (e *notServed) Unwrap() error { return e.cause }

// Mapping finds the resource of a name: a resource or a kind, in the plural or singular, or a short name, alone or with
// its group, or with version and group ("deploy", "deployments.apps", "deployments.v1.apps", "Deployment.v1.apps").
// Without a version it returns the server's preferred one.
func (c *Client) Mapping(ctx context.Context, name string) (*meta.RESTMapping, error) {
	if name == "" {
		return nil, errors.New("the name of a resource is empty")
	}
	if err := c.enter(ctx); err != nil {
		return nil, err
	}
	defer c.leave()
	full, group := schema.ParseResourceArg(name)
	var gvk schema.GroupVersionKind
	if full != nil {
		gvk, _ = c.mapper.KindForWithContext(ctx, *full) // it may be no resource, or a group with a dot
	}
	if gvk.Empty() {
		gvk, _ = c.mapper.KindForWithContext(ctx, group.WithVersion(""))
	}
	if !gvk.Empty() {
		return c.mapper.RESTMappingWithContext(ctx, gvk.GroupKind(), gvk.Version)
	}
	fullKind, kind := schema.ParseKindArg(name)
	if fullKind != nil {
		if found, err := c.mapper.RESTMappingWithContext(ctx, fullKind.GroupKind(), fullKind.Version); err == nil {
			return found, nil
		}
	}
	found, err := c.mapper.RESTMappingWithContext(ctx, kind)
	if meta.IsNoMatchError(err) {
		return nil, &notServed{name: group, cause: err}
	}
	return found, err
}

// MappingOf finds the resource of an object of a known type, in the first of these versions of its kind that the server
// serves, or else in the server's preferred version.
func (c *Client) MappingOf(ctx context.Context, kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if err := c.enter(ctx); err != nil {
		return nil, err
	}
	defer c.leave()
	return c.mapper.RESTMappingWithContext(ctx, kind, versions...)
}

// Category lists the resources of a category such as "all"; none if it is not a category. The error is the context's.
func (c *Client) Category(ctx context.Context, name string) ([]schema.GroupResource, error) {
	if err := c.enter(ctx); err != nil {
		return nil, err
	}
	defer c.leave()
	var once []schema.GroupResource
	resources, _ := c.categories.ExpandWithContext(ctx, name) // one for each version
	for _, r := range resources {
		if !slices.Contains(once, r) {
			once = append(once, r)
		}
	}
	return once, nil
}

// Target addresses an object, or a collection when name is empty. It ignores the namespace if the resource is not
// namespaced.
func Target(m *meta.RESTMapping, namespace, name string) client.Target {
	t := client.Target{Resource: m.Resource, Name: name}
	if m.Scope.Name() == meta.RESTScopeNameNamespace {
		t.Namespace = namespace
	}
	return t
}

// TargetOf addresses the collection of an object's kind, in the version that the object has.
func (c *Client) TargetOf(ctx context.Context, obj runtime.Object, namespace string) (client.Target, error) {
	gvk := obj.GetObjectKind().GroupVersionKind()
	if gvk.Kind == "" {
		return client.Target{}, fmt.Errorf("a %T does not say its kind", obj)
	}
	m, err := c.MappingOf(ctx, gvk.GroupKind(), gvk.Version)
	if err != nil {
		return client.Target{}, err
	}
	return Target(m, namespace, ""), nil
}

// Names lists the resources of the server's preferred versions, in the usual notation: "pods", "deployments.apps". If
// some groups do not answer, it returns the others with an error.
func (c *Client) Names(ctx context.Context) ([]string, error) {
	if err := c.enter(ctx); err != nil {
		return nil, err
	}
	defer c.leave()
	lists, err := c.withContext().ServerPreferredResourcesWithContext(ctx)
	var names []string
	for _, list := range lists {
		gv, parseErr := schema.ParseGroupVersion(list.GroupVersion)
		if parseErr != nil {
			err = errors.Join(err, parseErr)
			continue
		}
		for _, r := range list.APIResources {
			names = append(names, gv.WithResource(r.Name).GroupResource().String())
		}
	}
	slices.Sort(names)
	return slices.Compact(names), err
}
