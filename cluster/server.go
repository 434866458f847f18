package cluster

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/apiserver/health"
	"github.com/keelson-dev/keelson/apiserver/metrics"
	"github.com/keelson-dev/keelson/apiserver/openapi"
	"github.com/keelson-dev/keelson/apiserver/zpages"
	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/bootstraptoken"
	"github.com/keelson-dev/keelson/authn/inprocess"
	"github.com/keelson-dev/keelson/authn/serviceaccount"
	"github.com/keelson-dev/keelson/authn/token"
	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/storage"
)

// DefaultAuthenticators returns only the authenticator of service account tokens. Certificates and other credentials
// are the caller's choice; in upstream's order they come before it.
func DefaultAuthenticators() []AuthenticatorStage {
	return []AuthenticatorStage{{"serviceaccount", func(p ServerParts) (authn.Authenticator, error) { return token.New(p.Tokens), nil }}}
}

// BootstrapTokens returns the authenticator of bootstrap tokens, with which nodes join; kube-apiserver has it with
// --enable-bootstrap-token-auth.
func BootstrapTokens() AuthenticatorStage {
	return AuthenticatorStage{"bootstraptoken", func(p ServerParts) (authn.Authenticator, error) {
		var err error
		secrets := view[*corev1.Secret](p.Registry, coreResource("secrets"), &err)
		return token.New(bootstraptoken.New(secrets)), err
	}}
}

// Anonymous is the name of the stage of Options.Authenticators that identifies requests without credentials. It is asked
// after all others, wherever it stands; authn.AnonymousAt and authn.Nobody are such. Without one, all requests without
// credentials are those of system:anonymous.
const Anonymous = "anonymous"

// authenticator tries the identities of clients in this process, then the chain; other requests are anonymous.
func (c *Cluster) authenticator() (authn.Authenticator, error) {
	chain, err := made(c.options.Authenticators, c.serverParts())
	if err != nil {
		return nil, err
	}
	first := []authn.Authenticator{inprocess.New()}
	if proxy := c.options.Server.FrontProxy; proxy != nil {
		a, err := proxy.authenticator()
		if err != nil {
			return nil, err
		}
		first = append(first, a)
	}
	last := authn.AnonymousAt()
	for i, a := range chain {
		if c.options.Authenticators[i].Name == Anonymous {
			last = a
		} else {
			first = append(first, a)
		}
	}
	return authn.Fallback(authn.WithGroup(authn.Union(first...), authn.GroupAuthenticated), last), nil
}

// newServer makes the API server with everything that it serves besides the API.
func (c *Cluster) newServer(chain admission.Chain) (http.Handler, error) {
	keys := c.tokens.url + serviceaccount.JWKSPath
	if at := c.options.Server.Address; at.IsValid() {
		keys = "https://" + at.String() + serviceaccount.JWKSPath
	}
	paths, err := c.discovery(keys)
	if err != nil {
		return nil, err
	}
	if c.authn, err = c.authenticator(); err != nil {
		return nil, err
	}
	o := apiserver.Options{
		Authenticator: c.authn, Authorizer: c.access.Authorizer, Admission: chain, Version: serverVersion(),
		Audit: c.options.Server.Audit, Tracer: c.options.Server.Tracer, Paths: paths, Connector: c.connector(), Logger: c.log,
		FlowControl: c.flowControl(), CBOR: c.options.Server.CBOR,
	}
	maps.Copy(o.Paths, openapi.Follow(c.registry.Kinds, openapi.Options{Version: o.Version.GitVersion, Issuer: len(paths) > 0, Logger: c.log}).Paths())
	maps.Copy(o.Paths, health.New(c.checks()))
	if c.options.Server.Metrics {
		m, err := metrics.New(c.figures(o.Version))
		if err != nil {
			return nil, err
		}
		o.Observer, o.Paths["/metrics"] = m, m
	}
	for path, handler := range c.options.Server.Paths {
		if _, taken := o.Paths[path]; !taken {
			o.Paths[path] = handler
		}
	}
	o.Paths["/statusz"] = zpages.Statusz(zpages.Status{
		Component: "apiserver", Version: binaryVersion(o.Version), Started: time.Now(), Paths: slices.Collect(maps.Keys(o.Paths)),
	})
	if err := c.delegate(&o); err != nil {
		return nil, err
	}
	return apiserver.New(c.registry, o), nil
}

// discovery serves what others need to verify tokens, if the issuer is discoverable.
func (c *Cluster) discovery(keys string) (map[string]http.Handler, error) {
	d, err := serviceaccount.NewDiscovery(c.tokens.url, keys, c.tokens.keys)
	if errors.Is(err, serviceaccount.ErrDiscovery) {
		c.log.Warn("tokens of service accounts can be verified by this server alone", "error", err)
		return map[string]http.Handler{}, nil
	}
	if err != nil {
		return nil, err
	}
	return d.Handlers(), nil
}

// checks returns the health checks.
func (c *Cluster) checks() health.Options {
	return health.Options{
		Checks: append([]health.Check{
			health.Log(c.log),
			health.Storage("storage", func(ctx context.Context) error {
				if err := storage.Ready(ctx, c.store); err != nil {
					return err
				}
				return c.registry.WaitSynced(ctx)
			}),
			health.Started("start-service-ip-repair-controllers", c.life.informed.done),
			health.Started("priority-and-fairness-config-consumer", c.life.informed.done),
			health.Started("rbac/bootstrap-roles", c.life.informed.done),
			health.Started("scheduling/bootstrap-system-priority-classes", c.life.informed.done),
			health.Started("priority-and-fairness-config-producer", c.life.informed.done),
		}, c.options.Server.Checks...),
		Ready: []health.Check{
			health.Synced(func() []string {
				select {
				case <-c.life.informed.done:
					return nil
				default:
					return []string{"shared caches"}
				}
			}),
			health.Shutdown(c.front.drain.Begun()),
		},
		Logger: c.log,
	}
}

// componentsToCheck are those of upstream. All but the storage are healthy if this process runs them.
func (c *Cluster) componentsToCheck() []core.Component {
	runs := func(program string) func(context.Context) error {
		return func(context.Context) error {
			if slices.ContainsFunc(c.options.Components, func(k Component) bool { return k.ProgramName() == program }) {
				return nil
			}
			return errors.New("this server does not run it and cannot tell")
		}
	}
	return []core.Component{
		{Name: "controller-manager", Check: runs("kube-controller-manager")},
		{Name: "scheduler", Check: runs("kube-scheduler")},
		{Name: "etcd-0", Check: func(ctx context.Context) error { return storage.Ready(ctx, c.store) }},
	}
}

// figures returns the metrics besides those of requests.
func (c *Cluster) figures(v version.Info) metrics.Options {
	o := metrics.Options{Version: v, Objects: func() map[schema.GroupResource]int {
		counts := map[schema.GroupResource]int{}
		for _, res := range c.registry.Resources() {
			if res.Stored() {
				counts[res.GroupResource()] = res.Len()
			}
		}
		return counts
	}}
	if log := c.options.Server.Audit; log != nil {
		o.Audit = log.Stats
	}
	if m := c.services.waiting; m != nil {
		o.Collectors = append(o.Collectors, m)
	}
	for _, e := range c.front.extended {
		if m, ok := e.(Measured); ok {
			o.Collectors = append(o.Collectors, m.Collectors()...)
		}
	}
	return o
}
