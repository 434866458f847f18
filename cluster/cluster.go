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
	"github.com/keelson-dev/keelson/lifecycle"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/memory"
)

// Errors of a Cluster; test for them with errors.Is.
var (
	// ErrStarted: the cluster runs or ran already, or was closed.
	ErrStarted = errors.New("cluster was started before")
	// ErrClosed: the cluster has ended, or is about to.
	ErrClosed = errors.New("cluster is closed")
	// ErrOptions: Options contradict themselves or are out of range.
	ErrOptions = errors.New("bad options")
	// ErrUnknownComponent: Options.Disable names something that does not exist.
	ErrUnknownComponent = component.ErrUnknown
	// ErrUnknownNode: there is no simulated node of that name.
	ErrUnknownNode = errors.New("unknown node")
)

// Cluster is a control plane with its nodes. Make one with New, or with Start, which also runs it.
type Cluster struct {
	options    Options
	log        *slog.Logger
	ids        registry.Identifiers
	store      storage.Store
	closer     func() error // of the storage that is the cluster's own
	registry   *registry.Registry
	scheme     *runtime.Scheme
	access     access
	tokens     tokens
	authn      authn.Authenticator
	services   services
	drain      *apiserver.Drain
	informers  *component.Informers
	handler    http.Handler
	transport  *apiserver.Transport
	nodes      []*Node
	nodesReady *nodesReady
	parts      []lifecycle.Runnable // components and nodes

	life life
}

// New assembles a cluster; nothing runs and nothing is listened to. It opens Options.Dir: who
// does not call Run, calls Close.
func New(o Options) (*Cluster, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	c := &Cluster{options: o, log: o.Logger, ids: registry.Random(), life: newLife(), drain: apiserver.NewDrain()}
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
	if c.registry, err = registry.New(store, kinds, registry.Options{Identifiers: c.ids, Logger: c.log}); err != nil {
		return err
	}
	c.scheme = registry.Scheme(kinds)
	if c.tokens.verifier, err = c.newVerifier(); err != nil {
		return err
	}
	c.informers = component.NewInformers(feed{c.registry}, c.informerOptions())
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
	if c.handler, err = c.newServer(kinds, chain); err != nil {
		return err
	}
	c.transport = apiserver.NewTransport(c.handler, nil)
	return c.addComponents()
}

// Handler is the API server, for a net/http server or test of the user's. Its watches end with
// the cluster, and requests after that are answered with 503.
func (c *Cluster) Handler() http.Handler { return c.drain.Handler(gate{c}) }

// Drain begins the end for those who came by Handler: /readyz fails and their watches end, all else is still
// answered. Whoever serves the handler calls it before closing the listener, and closes the cluster afterwards.
func (c *Cluster) Drain() {
	c.drain.Begin()
	c.drain.EndStreams()
}

// Config leads clients to the cluster as Admin. It is the caller's to change.
func (c *Cluster) Config() *rest.Config { return c.ConfigFor(Admin()) }

// ConfigFor leads clients to the cluster as somebody else: a User, a ServiceAccount. The server's
// warnings, which client-go would write to standard error, are dropped.
func (c *Cluster) ConfigFor(id *authn.Identity) *rest.Config {
	return &rest.Config{
		Host: "http://keelson.in-process", QPS: -1, WarningHandler: rest.NoWarnings{},
		Transport: roundTripper{c, func(r *http.Request) *http.Request {
			return r.WithContext(inprocess.Attach(r.Context(), id))
		}},
	}
}

// Anonymous leads clients to the cluster without an identity: what they bring in their
// requests, such as a bearer token, goes to Options.Authenticators.
func (c *Cluster) Anonymous() *rest.Config {
	return &rest.Config{Host: "http://keelson.in-process", QPS: -1, Transport: roundTripper{c, func(r *http.Request) *http.Request { return r }}}
}

// Client returns the narrow client of this module as somebody.
func (c *Cluster) Client(id *authn.Identity) (client.Client, error) {
	return c.clientOf(id, "")
}

// clientOf is Client for one of upstream's programs, whose name managed fields tell.
func (c *Cluster) clientOf(id *authn.Identity, program string) (client.Client, error) {
	config := c.ConfigFor(id)
	if program != "" {
		config.UserAgent = program + "/" + serverVersion().GitVersion
	}
	config.ContentType = "application/vnd.kubernetes.protobuf"
	return clientrest.New(config, c.scheme)
}

// Scheme knows the Go types of all kinds that are served, for controller-runtime clients.
func (c *Cluster) Scheme() *runtime.Scheme { return c.scheme }

// Registry is the cluster's registry: the direct way to state, past authorization and admission.
func (c *Cluster) Registry() *registry.Registry { return c.registry }
