package remote

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/client"
	clientrest "github.com/keelson-dev/keelson/client/rest"
	"github.com/keelson-dev/keelson/component"
	"github.com/keelson-dev/keelson/controllers/leaderelection"
	"github.com/keelson-dev/keelson/events/publish"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/lifecycle"
)

// ErrNotServed means that the server does not store a resource that a component reads.
var ErrNotServed = errors.New("the server does not serve it")

// Options configures a Manager. The zero value runs the components at once.
type Options struct {
	// As, if set, returns the configuration for acting as an identity. The Manager may modify it.
	As func(id *authn.Identity) (*rest.Config, error)
	// Lease, if set, is the lease that the leader of several processes holds while its components run.
	Lease *Lease
	// RootCA is the PEM of the authority with which pods verify the API server.
	RootCA []byte
	// Signer is the authority that signs certificates of users and kubelets; nil signs none.
	Signer component.Signer
	// Pace controls when components act. Its zero value is upstream's behaviour.
	Pace   component.Pace
	Logger *slog.Logger
}

// Lease configures leader election, with a Lease object that one process holds at a time.
type Lease struct {
	// Name is the name of the Lease object: upstream's are kube-controller-manager and kube-scheduler in kube-system.
	Name types.NamespacedName
	// Identity is unique to this process.
	Identity string
	// Options configures the election.
	Options leaderelection.Options
}

// Manager runs components in this process. Make one with New.
type Manager struct {
	config     *rest.Config
	scheme     *runtime.Scheme
	components []component.Component
	options    Options
	log        *slog.Logger
}

var _ lifecycle.Runnable = (*Manager)(nil)

// New makes a Manager of the components. The scheme has the Go types that they read and write. New sends no requests.
// It fails with component.ErrInvalid.
func New(config *rest.Config, scheme *runtime.Scheme, components []component.Component, o Options) (*Manager, error) {
	if len(components) == 0 {
		return nil, fmt.Errorf("%w: there are none", component.ErrInvalid)
	}
	if err := component.Check(components); err != nil {
		return nil, err
	}
	m := &Manager{config: config, scheme: scheme, components: components, options: o, log: o.Logger}
	if m.log == nil {
		m.log = slog.New(slog.DiscardHandler)
	}
	return m, nil
}

// Run runs the components until the context ends, and then returns nil. It may be called only once.
func (m *Manager) Run(ctx context.Context) error {
	l := m.options.Lease
	if l == nil {
		return m.lead(ctx)
	}
	api, err := m.connect(nil, l.Name.Name)
	if err != nil {
		return err
	}
	o := l.Options
	if o.Logger == nil {
		o.Logger = m.log
	}
	recorder := publish.New(api, publish.Options{Component: l.Name.Name, Host: l.Identity, Logger: m.log})
	if o.Recorder == nil {
		o.Recorder = recorder
	}
	e, err := leaderelection.New(l.Name, l.Identity, api, lifecycle.Func(m.lead), o)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return lifecycle.Group(recorder, lifecycle.Func(func(ctx context.Context) error {
		defer cancel() // ends the recorder too
		return e.Run(ctx)
	})).Run(ctx)
}

// lead assembles the components and runs them.
func (m *Manager) lead(ctx context.Context) error {
	known, err := newCatalog(ctx, m.config, m.scheme, m.log)
	if err != nil {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the end of the context is the regular end
		}
		return fmt.Errorf("what does %s serve: %w", m.config.Host, err)
	}
	pace := m.options.Pace
	host := &component.Host{
		Connect: m.connect, Pace: &pace, Logger: m.log,
		Informers: component.NewInformers(&feed{m.config, m.scheme, known.known}, informer.Options{Logger: m.log}),
		Cluster:   component.Cluster{Resources: known.resources, Changed: known.next, RootCA: m.options.RootCA, Signer: m.options.Signer},
	}
	known.drop = host.Informers.Drop
	runs := []lifecycle.Runnable{host.Informers, lifecycle.Func(known.run)}
	for _, c := range m.components {
		run, err := host.Make(c)
		if err != nil {
			return err
		}
		runs = append(runs, run)
	}
	return lifecycle.Group(runs...).Run(ctx)
}

// connect makes a component's client.
func (m *Manager) connect(id *authn.Identity, program string) (client.Client, error) {
	config := rest.CopyConfig(m.config)
	if m.options.As != nil && id != nil {
		var err error
		if config, err = m.options.As(id); err != nil {
			return nil, err
		}
	}
	if config.WarningHandler == nil && config.WarningHandlerWithContext == nil {
		config.WarningHandler = rest.NoWarnings{} // warnings are for people
	}
	if config.UserAgent == "" {
		config.UserAgent = program
	}
	if config.ContentType == "" {
		config.ContentType = runtime.ContentTypeProtobuf
		config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	}
	return clientrest.New(config, m.scheme)
}
