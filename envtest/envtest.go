package envtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	registrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/keelson-dev/keelson/apiserver/serving"
	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/x509"
	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/cluster/aggregation"
	"github.com/keelson-dev/keelson/cluster/customresources"
	"github.com/keelson-dev/keelson/cluster/policies"
	"github.com/keelson-dev/keelson/cluster/webhooks"
	"github.com/keelson-dev/keelson/component"
	"github.com/keelson-dev/keelson/lifecycle"
	"github.com/keelson-dev/keelson/pki"
	"github.com/keelson-dev/keelson/registry/resource/selectors"
)

var (
	// ErrStarted means that an Environment runs already.
	ErrStarted = errors.New("the environment has been started")
	// ErrInProcess means that something needs an address, and that the API server has none, as Environment.InProcess asks.
	ErrInProcess = errors.New("the API server is reached in process only")
)

// pollInterval is how often to look whether definitions are served. They are within milliseconds.
const pollInterval = 2 * time.Millisecond

// grace is how long Stop waits for requests; watches end at once.
const grace = 10 * time.Millisecond

// life is how long certificates are valid.
const life = 7 * 24 * time.Hour

// Environment is a control plane for tests. Its methods must not be called concurrently.
type Environment struct {
	// ControlPlane adds users. Its APIServer and Etcd describe programs and are ignored.
	ControlPlane ControlPlane
	// Scheme finds out which kinds have conversion webhooks; nil is client-go's.
	Scheme *runtime.Scheme
	// Config is set by Start, and is what Start returns. With UseExistingCluster, it may be set before.
	Config *rest.Config
	// KubeConfig is a kubeconfig file for Config; it is set by Start unless InProcess.
	KubeConfig []byte
	// CRDInstallOptions say which definitions to install.
	CRDInstallOptions CRDInstallOptions
	// WebhookInstallOptions say which webhooks to install.
	WebhookInstallOptions WebhookInstallOptions
	// ErrorIfCRDPathMissing refuses to start if a path of definitions does not exist.
	ErrorIfCRDPathMissing bool
	// CRDs and CRDDirectoryPaths are installed in addition to those of CRDInstallOptions. Start sets CRDs to all.
	CRDs              []*apiextensionsv1.CustomResourceDefinition
	CRDDirectoryPaths []string
	// UseExistingCluster installs into a cluster that runs already, at Config, and starts nothing.
	UseExistingCluster *bool

	DownloadBinaryAssets         bool          // DownloadBinaryAssets is about programs and ignored.
	DownloadBinaryAssetsVersion  string        // DownloadBinaryAssetsVersion is about programs and ignored.
	DownloadBinaryAssetsIndexURL string        // DownloadBinaryAssetsIndexURL is about programs and ignored.
	BinaryAssetsDirectory        string        // BinaryAssetsDirectory is about programs and ignored.
	ControlPlaneStartTimeout     time.Duration // ControlPlaneStartTimeout is about programs and ignored.
	ControlPlaneStopTimeout      time.Duration // ControlPlaneStopTimeout is about programs and ignored.
	AttachControlPlaneOutput     bool          // AttachControlPlaneOutput is about programs and ignored.

	// What follows upstream does not have.

	// InProcess makes clients whose requests do not pass a network, as a testing/synctest bubble requires it. Their
	// configurations have a transport of their own, so no kubeconfig can be made of them.
	InProcess bool
	// Components run beside the API server; nil is none. cluster.DefaultComponents returns upstream's.
	Components []component.Component
	// Nodes configures simulated nodes; the zero value is none.
	Nodes cluster.Nodes
	// WebhookHandler, if set, answers all webhooks by their paths in this process, without port and certificate:
	// controller-runtime's webhook.Server.WebhookMux, say. It may be set later, before the first request that a webhook
	// concerns.
	WebhookHandler http.Handler
	// Configure, if set, changes the options of the cluster before it starts.
	Configure func(o *cluster.Options)

	running *running
}

// running is an environment that was started.
type running struct {
	installed *envtest.Environment
	cluster   *cluster.Cluster // nil for an existing one
	users     *users
	dir       string // for the kubeconfig files of users
	stop      context.CancelFunc
	served    chan error // what serving came to; nil in process
}

// Start starts the control plane and installs what the Environment names. It returns a configuration for clients that may do
// everything.
func (e *Environment) Start() (*rest.Config, error) {
	if e.running != nil {
		return nil, ErrStarted
	}
	r := &running{stop: func() {}}
	if !e.existing() {
		if err := e.startCluster(r); err != nil {
			return nil, fmt.Errorf("start the control plane: %w", err)
		}
	}
	e.running = r
	if err := e.install(r); err != nil {
		return e.Config, errors.Join(err, e.Stop())
	}
	return e.Config, nil
}

func (e *Environment) existing() bool { return e.UseExistingCluster != nil && *e.UseExistingCluster }

// install lets upstream's Environment install definitions and webhooks into the cluster.
func (e *Environment) install(r *running) error {
	if e.CRDInstallOptions.PollInterval == 0 && r.cluster != nil {
		e.CRDInstallOptions.PollInterval = pollInterval
	}
	r.installed = &envtest.Environment{
		Scheme: e.Scheme, Config: e.Config, KubeConfig: e.KubeConfig, CRDInstallOptions: e.CRDInstallOptions,
		WebhookInstallOptions: e.WebhookInstallOptions, ErrorIfCRDPathMissing: e.ErrorIfCRDPathMissing,
		CRDs: e.CRDs, CRDDirectoryPaths: e.CRDDirectoryPaths, UseExistingCluster: new(true),
	}
	var err error
	if e.InProcess && r.cluster != nil {
		err = installInProcess(r.installed)
	} else {
		_, err = r.installed.Start()
	}
	e.Config, e.Scheme, e.CRDs = r.installed.Config, r.installed.Scheme, r.installed.CRDs
	e.CRDInstallOptions, e.WebhookInstallOptions = r.installed.CRDInstallOptions, r.installed.WebhookInstallOptions
	if !e.InProcess {
		e.KubeConfig = r.installed.KubeConfig
	}
	return err
}

func (e *Environment) startCluster(r *running) error {
	handlers := func(*registrationv1.WebhookClientConfig) http.Handler { return e.WebhookHandler }
	hooks, rules := webhooks.New(webhooks.Options{Handlers: handlers}), policies.New(policies.Options{})
	o := cluster.Options{
		Components: e.Components, Nodes: e.Nodes, Kinds: append(hooks.Kinds(), rules.Kinds()...),
		Admission: slices.Concat(cluster.DefaultAdmission(), hooks.Admission(), rules.Admission()),
		Extensions: []cluster.Extension{
			customresources.Extension(customresources.Options{Webhooks: customresources.Network(handlers)}),
			aggregation.Extension(aggregation.Options{}),
		},
	}
	if o.Components == nil {
		// Nothing would create the service accounts that the plugin demands.
		o.Components, o.Disable = []component.Component{}, []string{"ServiceAccount"}
	}
	authority, err := pki.New("envtest")
	if err != nil {
		return err
	}
	o.Server.ClientCA, o.Server.Selectors = authority.PEM(), selectors.Compile
	o.Authenticators = append(cluster.DefaultAuthenticators(), cluster.Ready("x509", x509.New(authority)))
	if e.Configure != nil {
		e.Configure(&o)
	}
	if r.cluster, err = cluster.Start(context.Background(), o); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	r.users = &users{cluster: r.cluster, authority: authority}
	if err := e.open(ctx, r); err != nil {
		stop()
		return errors.Join(err, r.cluster.Close())
	}
	e.Config, err = r.users.AddUser(User{Name: "admin", Groups: []string{authn.GroupMasters}}, &rest.Config{QPS: 1000, Burst: 2000})
	return err
}

// open has the API served, unless it is reached in process, and tells ControlPlane about it, which adds users.
func (e *Environment) open(ctx context.Context, r *running) (err error) {
	api := e.ControlPlane.GetAPIServer()
	api.Authn, api.CA = r.users, r.users.authority.PEM()
	if e.InProcess {
		return nil
	}
	if r.dir, err = os.MkdirTemp("", "envtest-"); err != nil {
		return err
	}
	api.CertDir = r.dir
	if err := r.users.listen(ctx, r); err != nil {
		return errors.Join(err, os.RemoveAll(r.dir))
	}
	api.Address, api.Port, err = net.SplitHostPort(r.users.address)
	return err
}

// Stop ends the control plane, or, if it existed before, removes what was installed as far as the options ask for that. It does
// nothing if the Environment does not run.
func (e *Environment) Stop() error {
	r := e.running
	if r == nil {
		return nil
	}
	e.running = nil
	var err error
	if r.installed != nil {
		err = r.installed.Stop()
	}
	r.stop()
	if r.served != nil {
		if failed := <-r.served; !errors.Is(failed, context.DeadlineExceeded) { // clients keep their connections
			err = errors.Join(err, failed)
		}
	}
	if r.cluster != nil {
		err = errors.Join(err, r.cluster.Close())
	}
	if r.dir != "" {
		err = errors.Join(err, os.RemoveAll(r.dir))
	}
	return err
}

// AuthenticatedUser is a user of an Environment, with the means to act as that user.
type AuthenticatedUser struct {
	*envtest.AuthenticatedUser
	inProcess *rest.Config
}

// Config returns a configuration of clients that act as the user.
func (u *AuthenticatedUser) Config() *rest.Config {
	if u.inProcess != nil {
		return u.inProcess
	}
	return u.AuthenticatedUser.Config()
}

// KubeConfig returns a kubeconfig file for programs that act as the user, or ErrInProcess.
func (u *AuthenticatedUser) KubeConfig() ([]byte, error) {
	if u.inProcess != nil {
		return nil, ErrInProcess
	}
	return u.AuthenticatedUser.KubeConfig()
}

// AddUser adds a user and returns the means to act as that user: base, which may be nil, with the user's credentials.
func (e *Environment) AddUser(u User, base *rest.Config) (*AuthenticatedUser, error) {
	added, err := e.ControlPlane.AddUser(u, base)
	if err != nil {
		return nil, err
	}
	out := &AuthenticatedUser{AuthenticatedUser: added}
	if e.InProcess && e.running != nil {
		if base == nil {
			base = &rest.Config{}
		}
		out.inProcess, err = e.running.users.AddUser(u, base)
	}
	return out, err
}

// Cluster returns the control plane, for tests that look inside, or nil if it does not run in this process.
func (e *Environment) Cluster() *cluster.Cluster {
	if e.running == nil {
		return nil
	}
	return e.running.cluster
}

// users makes the configurations of users.
type users struct {
	cluster   *cluster.Cluster
	authority *pki.Authority
	address   string // of the server; empty in process
}

// listen serves the API on a free port.
func (u *users) listen(ctx context.Context, r *running) error {
	l, err := serving.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		return err
	}
	pair, err := u.authority.Issue(pki.Subject{Name: "kube-apiserver", Hosts: []string{"127.0.0.1", "localhost"}}, life)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	certificate, err := pair.TLS()
	if err != nil {
		return errors.Join(err, l.Close())
	}
	u.address = net.JoinHostPort("127.0.0.1", fmt.Sprint(l.Addr().(*net.TCPAddr).Port))
	var server lifecycle.Runnable = serving.New(l, certificate, r.cluster.Handler(), serving.Options{Drain: r.cluster.Drain, Grace: grace})
	r.served = make(chan error, 1)
	go func() { r.served <- server.Run(ctx) }()
	return nil
}

// Configure implements upstream's Authn: there is no program to configure.
func (*users) Configure(string, *envtest.Arguments) error { return nil }

// Start implements upstream's Authn.
func (*users) Start() error { return nil }

// Stop implements upstream's Authn.
func (*users) Stop() error { return nil }

// AddUser implements upstream's Authn.
func (u *users) AddUser(who User, base *rest.Config) (*rest.Config, error) {
	if u.address == "" {
		own := u.cluster.ConfigFor(&authn.Identity{Name: who.Name, Groups: append(slices.Clone(who.Groups), authn.GroupAuthenticated)})
		out := rest.CopyConfig(base)
		out.Host, out.Transport, out.ContentType, out.AcceptContentTypes = own.Host, own.Transport, own.ContentType, own.AcceptContentTypes
		return out, nil
	}
	pair, err := u.authority.Issue(pki.Subject{Name: who.Name, Groups: who.Groups}, life)
	if err != nil {
		return nil, err
	}
	out := rest.CopyConfig(base)
	out.Host = "https://" + u.address
	out.CAData, out.CertData, out.KeyData = u.authority.PEM(), pair.Certificate, pair.Key
	return out, nil
}
