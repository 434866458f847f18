package authorizationconfig

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/keelson-dev/keelson/apiserver/metrics"
	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/authz/abac"
	"github.com/keelson-dev/keelson/authz/alwaysallow"
	"github.com/keelson-dev/keelson/authz/alwaysdeny"
	"github.com/keelson-dev/keelson/authz/superuser"
	"github.com/keelson-dev/keelson/authz/webhook"
	"github.com/keelson-dev/keelson/authz/webhook/cel"
	"github.com/keelson-dev/keelson/authz/webhook/remote"
	"github.com/keelson-dev/keelson/client/kubeconfig"
	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/cluster/internal/reload"
)

// Options of Open and New; the zero value is ready to use.
type Options struct {
	// Policies are those of ABAC, which cannot be among the authorizers without.
	Policies abac.Policies
	// Interval is how often the file is read; 0 means once a second.
	Interval time.Duration
	// Server identifies this server in metrics; it may be empty.
	Server string
	// Log receives what is wrong with the file; nil discards.
	Log *slog.Logger
}

// Authorization authorizes requests by a configuration. Make one with Open or New, use Stages as cluster.Options.Authorizers and add
// Extension to cluster.Options.Extensions. It serves one cluster, and is safe for concurrent use.
type Authorization struct {
	options  Options
	compiler *cel.Compiler
	first    Config // of the start
	path     string
	file     *reload.File // nil if there is none

	fixed   map[string]authz.Authorizer // by type; they stay
	current atomic.Pointer[chain]
}

var (
	_ authz.Authorizer   = (*Authorization)(nil)
	_ authz.RuleResolver = (*Authorization)(nil)
)

// chain are the authorizers of a configuration.
type chain struct {
	authz.Authorizer
	rules authz.RuleResolver
}

// Open reads the file at path, and those that it names.
func Open(path string, o Options) (*Authorization, error) {
	a := prepared(o)
	a.path = path
	text, err := reload.Read(path)
	if err != nil {
		return nil, &Error{Path: path, Err: err}
	}
	if a.first, err = a.read(text, nil); err != nil {
		return nil, err
	}
	a.file = reload.New(text, reload.Options{Path: path, What: "authorization", Server: o.Server, Interval: o.Interval, Log: a.options.Log})
	if _, err = a.chain(a.first, a.probe()); err != nil {
		return nil, &Error{Path: path, Err: err}
	}
	return a, nil
}

// New authorizes by a configuration that stands in no file.
func New(c Config, o Options) (*Authorization, error) {
	for i := range c.Authorizers {
		c.Authorizers[i].Webhook.setDefaults()
	}
	if err := errors.Join(c.validate(cel.New()).ToAggregate(), errors.Join(c.conform(nil)...)); err != nil {
		return nil, err
	}
	return newUnchecked(c, o)
}

func newUnchecked(c Config, o Options) (*Authorization, error) {
	a := prepared(o)
	a.first = c
	_, err := a.chain(c, a.probe())
	return a, err
}

func prepared(o Options) *Authorization {
	return &Authorization{options: o, compiler: cel.New()}
}

// read parses and validates the text of the file.
func (a *Authorization) read(text []byte, required []string) (Config, error) {
	d, c, err := parse(a.path, text)
	if err != nil {
		return c, err
	}
	if err := d.Fields(c.validate(a.compiler)); err != nil {
		return c, err
	}
	if errs := c.conform(required); len(errs) > 0 {
		return c, d.Wrong("authorizers", errors.Join(errs...))
	}
	return c, nil
}

// Stages returns the chain of authorizers.
func (a *Authorization) Stages() []cluster.AuthorizerStage {
	return []cluster.AuthorizerStage{
		cluster.Ready[authz.Authorizer](superuser.Name, superuser.New()),
		{Name: "", New: func(p cluster.ServerParts) (authz.Authorizer, error) { return a, a.begin(p) }}, // its links have names
	}
}

// begin makes the authorizers that need a server.
func (a *Authorization) begin(p cluster.ServerParts) error {
	a.fixed = a.probe()
	for _, stage := range cluster.DefaultAuthorizers() {
		for _, name := range []string{Node, RBAC} {
			if stage.Name != strings.ToLower(name) || a.fixed[name] == nil {
				continue
			}
			made, err := stage.New(p)
			if err != nil {
				return err
			}
			a.fixed[name] = made
		}
	}
	c, err := a.chain(a.first, a.fixed)
	a.current.Store(c)
	return err
}

// probe returns the authorizers that stay, with some that stand for those that need a server.
func (a *Authorization) probe() map[string]authz.Authorizer {
	fixed := map[string]authz.Authorizer{AlwaysAllow: alwaysallow.New(), AlwaysDeny: alwaysdeny.New()}
	for _, c := range a.first.Authorizers {
		switch {
		case c.Type == Node || c.Type == RBAC:
			fixed[c.Type] = alwaysdeny.New()
		case c.Type == ABAC && a.options.Policies != nil:
			fixed[ABAC] = a.options.Policies
		}
	}
	return fixed
}

// chain makes the chain of a valid configuration.
func (a *Authorization) chain(c Config, fixed map[string]authz.Authorizer) (*chain, error) {
	var links []authz.Named
	var rules []authz.RuleResolver
	for _, link := range c.Authorizers {
		z := fixed[link.Type]
		if link.Type == Webhook {
			var err error
			if z, err = a.webhook(link.Webhook); err != nil {
				return nil, fmt.Errorf("authorizer %s: %w", link.Name, err)
			}
		}
		if z == nil {
			return nil, fmt.Errorf("authorizer type %s is not allowed if it was not enabled at initial server startup", link.Type)
		}
		links = append(links, authz.Named{Name: link.Name, Authorizer: z})
		if r, ok := z.(authz.RuleResolver); ok {
			rules = append(rules, r)
		}
	}
	return &chain{authz.Union(links...), authz.UnionRules(rules...)}, nil
}

func (a *Authorization) webhook(w *WebhookOptions) (authz.Authorizer, error) {
	access, err := kubeconfig.Load(kubeconfig.Options{Path: *w.ConnectionInfo.KubeConfigFile})
	if err != nil {
		return nil, err
	}
	access.Config.Timeout = w.Timeout.Duration
	reviewer, err := remote.New(access.Config, w.SubjectAccessReviewVersion)
	if err != nil {
		return nil, err
	}
	o := webhook.Options{KeepAllowed: w.AuthorizedTTL.Duration, KeepOthers: w.UnauthorizedTTL.Duration, Timeout: remote.Longest(w.Timeout.Duration)}
	if !*w.CacheAuthorizedRequests {
		o.KeepAllowed = -1
	}
	if !*w.CacheUnauthorizedRequests {
		o.KeepOthers = -1
	}
	if w.FailurePolicy == deny {
		o.OnError = authz.Deny
	}
	var expressions []string
	for _, m := range w.MatchConditions {
		expressions = append(expressions, m.Expression)
	}
	if o.Match, err = a.compiler.Compile(expressions); err != nil {
		return nil, err
	}
	return webhook.New(reviewer, o), nil
}

// Authorize implements authz.Authorizer.
func (a *Authorization) Authorize(ctx context.Context, attributes authz.Attributes) (authz.Decision, error) {
	return a.current.Load().Authorize(ctx, attributes)
}

// RulesFor implements authz.RuleResolver.
func (a *Authorization) RulesFor(ctx context.Context, user *authn.Identity, namespace string) (authz.Rules, error) {
	return a.current.Load().rules.RulesFor(ctx, user, namespace)
}

// Extension reads the file again when it changes, and serves its metrics.
func (a *Authorization) Extension() cluster.Extension {
	return cluster.Extension{Name: "authorization-config", New: func(*cluster.ExtensionParts) (cluster.Extended, error) { return a, nil }}
}

// Prepare implements cluster.Extended.
func (*Authorization) Prepare(context.Context) error { return nil }

// Collectors implements cluster.Measured.
func (a *Authorization) Collectors() []metrics.Collector {
	if a.file == nil {
		return nil
	}
	return []metrics.Collector{a.file}
}

// Run reads the file again when it changes, until ctx ends. It must run once.
func (a *Authorization) Run(ctx context.Context) error {
	if a.file == nil {
		<-ctx.Done()
		return nil
	}
	var required []string
	for _, link := range a.first.Authorizers {
		if link.Type != Webhook {
			required = append(required, link.Type)
		}
	}
	a.file.Run(ctx, func(_ context.Context, text []byte) error {
		c, err := a.read(text, slices.Clone(required))
		if err != nil {
			return err
		}
		fresh, err := a.chain(c, a.fixed)
		if err != nil {
			return &Error{Path: a.path, Err: err}
		}
		a.current.Store(fresh)
		return nil
	})
	return nil
}
