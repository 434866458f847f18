package cluster

import (
	"errors"
	"log/slog"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/inprocess"
	"github.com/keelson-dev/keelson/client"
	clientrest "github.com/keelson-dev/keelson/client/rest"
	"github.com/keelson-dev/keelson/component"
	"github.com/keelson-dev/keelson/internal/inmemory"
	"github.com/keelson-dev/keelson/lifecycle"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/memory"
)

// Errors of a Cluster; test for them with errors.Is.
var (
	// ErrStarted means that the cluster was already run or closed.
	ErrStarted = errors.New("cluster was started before")
	// ErrClosed means that the cluster has ended or is ending.
	ErrClosed = errors.New("cluster is closed")
	// ErrOptions means that Options are contradictory or out of range.
	ErrOptions = errors.New("bad options")
	// ErrUnknownComponent means that Options.Disable names something that does not exist.
	ErrUnknownComponent = component.ErrUnknown
	// ErrUnknownNode means that there is no simulated node of that name.
	ErrUnknownNode = errors.New("unknown node")
)

// Cluster is a control plane with its nodes. Make one with New, or with Start, which also runs it.
type Cluster struct {
	options   Options
	log       *slog.Logger
	ids       registry.Identifiers
	store     storage.Store
	closer    func() error // closes the storage that the cluster owns
	registry  *registry.Registry
	access    access
	tokens    tokens
	authn     authn.Authenticator
	services  services
	informers *component.Informers
	front     front
	nodes     nodes
	parts     []lifecycle.Runnable // extensions, components and nodes

	life life
}

// front is where requests come in, and which kinds they can be about.
type front struct {
	scheme    *runtime.Scheme
	handler   http.Handler
	transport *apiserver.Transport // to the server, in this process
	memory    *inmemory.Server     // serves it to clients that need connections
	drain     *apiserver.Drain
	kinds     *Kinds
	extended  []Extended
}

// New assembles a cluster; it starts nothing and listens on nothing. It opens Options.Dir, so callers that do not call
// Run must call Close.
func New(o Options) (*Cluster, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	c := &Cluster{options: o, log: o.Logger, ids: registry.Random(), life: newLife(), front: front{drain: apiserver.NewDrain()}}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	if o.Seed != nil {
		c.ids = registry.Seeded(*o.Seed)
	}
	store, err := c.openStore()
	if err != nil {
		return nil, err
	}
	if err := c.assemble(store); err != nil {
		return nil, errors.Join(err, c.closer())
	}
	return c, nil
}

func (c *Cluster) openStore() (storage.Store, error) {
	c.closer = func() error { return nil }
	switch {
	case c.options.Store != nil:
		return c.options.Store, nil
	case c.options.Dir != "":
		return c.openDir()
	}
	m := memory.New(memory.Options{})
	c.closer = m.Close
	return m, nil
}

// assemble builds everything in the order in which requests pass it.
func (c *Cluster) assemble(store storage.Store) (err error) {
	c.store = store
	if c.tokens, err = c.newTokens(); err != nil {
		return err
	}
	if err = c.newPorts(store); err != nil {
		return err
	}
	kinds := append(c.builtin(), c.options.Kinds...)
	how := registry.Options{Identifiers: c.ids, Logger: c.log}
	for _, e := range c.options.Extensions {
		kinds = append(kinds, e.Kinds...)
		if e.Initialization != nil {
			how.Initialization = e.Initialization
		}
	}
	if c.registry, err = registry.New(store, kinds, how); err != nil {
		return err
	}
	c.front.scheme = registry.Scheme(kinds)
	if c.tokens.verifier, err = c.newVerifier(); err != nil {
		return err
	}
	c.informers = component.NewInformers(feed{c}, c.informerOptions())
	c.front.kinds = newKinds(c.registry, c.informers)
	if err = c.newServices(store); err != nil {
		return err
	}
	if err = c.newAccess(); err != nil {
		return err
	}
	chain, err := c.admissionChain()
	if err != nil {
		return err
	}
	pace := &component.Pace{Seed: c.options.Seed, Settle: c.options.Settle}
	if err = c.addExtensions(pace); err != nil {
		return err
	}
	if c.front.handler, err = c.newServer(chain); err != nil {
		return err
	}
	c.front.transport = apiserver.NewTransport(c.front.handler, nil)
	c.front.memory = inmemory.NewServer(c.Handler())
	return c.addComponents(pace)
}

// Handler returns the API server, for the caller's own net/http server or test. Its watches end with the cluster, and
// later requests are answered with 503.
func (c *Cluster) Handler() http.Handler { return c.front.drain.Handler(gate{c}) }

// Drain starts the shutdown for clients of Handler: /readyz fails and watches end; other requests are still answered.
// Call it before closing the listener that serves the handler, and close the cluster afterwards.
func (c *Cluster) Drain() {
	c.front.drain.Begin()
	c.front.drain.EndStreams()
	c.registry.EndWaits()
}

// Config returns a configuration for clients that act as Admin. The caller may modify it.
func (c *Cluster) Config() *rest.Config { return c.ConfigFor(Admin()) }

// ConfigFor returns a configuration for clients that act as the given identity, such as a User or a ServiceAccount. The
// server's warnings, which client-go would write to standard error, are dropped.
func (c *Cluster) ConfigFor(id *authn.Identity) *rest.Config {
	return &rest.Config{
		Host: "http://keelson.in-process", QPS: -1, WarningHandler: rest.NoWarnings{},
		Transport: roundTripper{c, func(r *http.Request) *http.Request {
			return r.WithContext(inprocess.Attach(r.Context(), id))
		}},
	}
}

// Anonymous returns a configuration without an identity: the credentials in clients' requests, such as a bearer token,
// go to Options.Authenticators.
func (c *Cluster) Anonymous() *rest.Config {
	return &rest.Config{Host: "http://keelson.in-process", QPS: -1, Transport: roundTripper{c, func(r *http.Request) *http.Request { return r }}}
}

// Client returns this module's narrow client, acting as the identity.
func (c *Cluster) Client(id *authn.Identity) (client.Client, error) {
	return c.clientOf(id, "")
}

// clientOf is Client for one of upstream's programs, whose name appears in managed fields.
func (c *Cluster) clientOf(id *authn.Identity, program string) (client.Client, error) {
	config := c.ConfigFor(id)
	if program != "" {
		config.UserAgent = program + "/" + serverVersion().GitVersion
	}
	config.ContentType = "application/vnd.kubernetes.protobuf"
	return clientrest.New(config, c.front.scheme)
}

// Scheme returns a scheme with the Go types of all served kinds, for controller-runtime clients.
func (c *Cluster) Scheme() *runtime.Scheme { return c.front.scheme }

// Registry returns the cluster's registry: direct access to state, without authorization and admission.
func (c *Cluster) Registry() *registry.Registry { return c.registry }
