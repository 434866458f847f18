package authenticationconfig

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/oidc"
	"github.com/keelson-dev/keelson/authn/oidc/cel"
	"github.com/keelson-dev/keelson/authn/token"
	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/cluster/internal/reload"
	"github.com/prometheus/client_golang/prometheus"
)

const (
	// patience is how long new issuers have to tell their keys, and how long the old ones stay after that.
	patience = time.Minute
	// cached is how long it is known whose a token is, as in upstream.
	cached = 10 * time.Second
)

// Options of Open and New; the zero value is ready to use.
type Options struct {
	// DisallowedIssuers are issuers that the file must not name: those of service accounts.
	DisallowedIssuers []string
	// SigningAlgorithms are those that are accepted; empty means all of oidc.SigningAlgorithms.
	SigningAlgorithms []string
	// Interval is how often the file is read; 0 means once a second.
	Interval time.Duration
	// Server identifies this server in metrics; it may be empty.
	Server string
	// Client reaches all issuers; nil makes one for each, which trusts Issuer.CertificateAuthority.
	Client *http.Client
	// Log receives what is wrong with the file or its issuers; nil discards.
	Log *slog.Logger
}

// Authentication authenticates users by a configuration. Make one with Open or New, add Stages to cluster.Options.Authenticators and
// Extension to cluster.Options.Extensions. It is a token.Verifier, and safe for concurrent use.
type Authentication struct {
	options   Options
	compiler  *cel.Compiler
	anonymous *Anonymous
	file      *reload.File // nil if there is none
	path      string
	figures   *figures
	current   atomic.Pointer[issuers]
}

var _ token.Verifier = (*Authentication)(nil)

// issuers are the verifiers of a configuration.
type issuers struct {
	all  []*oidc.Verifier
	stop func() // set when they run
}

// Open reads the file at path. It does not reach out to the issuers.
func Open(path string, o Options) (*Authentication, error) {
	a := prepared(o)
	text, err := reload.Read(path)
	if err != nil {
		return nil, &Error{Path: path, Err: err}
	}
	c, err := a.read(path, text)
	if err != nil {
		return nil, err
	}
	a.path = path
	a.file = reload.New(text, reload.Options{Path: path, What: "authentication", Server: o.Server, Interval: o.Interval, Log: a.options.Log})
	return a, a.begin(c)
}

// New authenticates by a configuration that stands in no file. Its errors name fields.
func New(c Config, o Options) (*Authentication, error) {
	a := prepared(o)
	if err := c.validate(a.compiler, o.DisallowedIssuers).ToAggregate(); err != nil {
		return nil, err
	}
	return a, a.begin(c)
}

func prepared(o Options) *Authentication {
	if len(o.SigningAlgorithms) == 0 {
		o.SigningAlgorithms = oidc.SigningAlgorithms()
	}
	return &Authentication{options: o, compiler: cel.New(), figures: newFigures(o.Server)}
}

func (a *Authentication) begin(c Config) error {
	a.anonymous = c.Anonymous
	first, err := a.make(c)
	a.current.Store(first)
	return err
}

// read parses and validates the text of a file.
func (a *Authentication) read(path string, text []byte) (Config, error) {
	d, c, err := parse(path, text)
	if err != nil {
		return c, err
	}
	return c, d.Fields(c.validate(a.compiler, a.options.DisallowedIssuers))
}

// make returns the verifiers of a valid configuration.
func (a *Authentication) make(c Config) (*issuers, error) {
	made := &issuers{}
	for _, config := range c.JWT {
		v, err := oidc.New(config, oidc.Options{
			Compiler: a.compiler, SigningAlgorithms: a.options.SigningAlgorithms, DisallowedIssuers: a.options.DisallowedIssuers,
			Client: a.options.Client, Log: a.options.Log,
			Verified: a.figures.verified(config.Issuer.URL), Fetched: a.figures.fetched(config.Issuer.URL),
		})
		if err != nil {
			return nil, err
		}
		made.all = append(made.all, v)
	}
	return made, nil
}

// Verify implements token.Verifier: the issuer that a token names decides.
func (a *Authentication) Verify(ctx context.Context, text string) (*authn.Identity, error) {
	for _, v := range a.current.Load().all {
		if id, err := v.Verify(ctx, text); !errors.Is(err, authn.ErrNoCredentials) {
			return id, err
		}
	}
	return nil, authn.ErrNoCredentials
}

// Check returns why tokens of some issuer cannot be verified, or nil.
func (a *Authentication) Check(ctx context.Context) error { return a.current.Load().check(ctx) }

func (i *issuers) check(ctx context.Context) error {
	var errs []error
	for _, v := range i.all {
		errs = append(errs, v.Check(ctx))
	}
	return errors.Join(errs...)
}

// Anonymous returns what the configuration says of requests without credentials; nil if it says nothing.
func (a *Authentication) Anonymous() *Anonymous { return a.anonymous }

// Stages returns the authenticators: that of tokens and, if the configuration speaks of it, that of requests without credentials.
func (a *Authentication) Stages() []cluster.AuthenticatorStage {
	stages := []cluster.AuthenticatorStage{cluster.Ready("jwt", token.New(token.Cache(a, token.CacheOptions{Valid: cached})))}
	if a.anonymous != nil {
		stages = append(stages, cluster.Ready(cluster.Anonymous, a.anonymous.authenticator()))
	}
	return stages
}

// Extension runs what asks issuers for their keys and reads the file again, and serves its metrics.
func (a *Authentication) Extension() cluster.Extension {
	return cluster.Extension{Name: "authentication-config", New: func(*cluster.ExtensionParts) (cluster.Extended, error) { return a, nil }}
}

// Prepare implements cluster.Extended.
func (*Authentication) Prepare(context.Context) error { return nil }

// Collectors implements cluster.Measured.
func (a *Authentication) Collectors() []prometheus.Collector {
	if a.file == nil {
		return a.figures.collectors()
	}
	return append(a.figures.collectors(), a.file)
}

// Run asks the issuers for their keys, and reads the file again when it changes, until ctx ends. It must run once.
func (a *Authentication) Run(ctx context.Context) error {
	var all sync.WaitGroup
	defer all.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a.current.Load().run(ctx, &all)
	if a.file == nil {
		<-ctx.Done()
		return nil
	}
	a.file.Run(ctx, func(ctx context.Context, text []byte) error { return a.replace(ctx, &all, text) })
	return nil
}

// run runs the verifiers until ctx ends or stop is called.
func (i *issuers) run(ctx context.Context, all *sync.WaitGroup) {
	ctx, i.stop = context.WithCancel(ctx)
	for _, v := range i.all {
		all.Go(func() { _ = v.Run(ctx) }) // it has no errors
	}
}

// replace puts new content of the file in force.
func (a *Authentication) replace(ctx context.Context, all *sync.WaitGroup, text []byte) error {
	c, err := a.read(a.path, text)
	if err == nil && !reflect.DeepEqual(c.Anonymous, a.anonymous) {
		at := field.NewPath("anonymous")
		err = &Error{Path: a.path, Err: field.Forbidden(at, "changed from initial configuration file")}
	}
	if err != nil {
		return err
	}
	fresh, err := a.make(c)
	if err != nil {
		return err
	}
	fresh.run(ctx, all)
	if err := fresh.await(ctx); err != nil {
		fresh.stop()
		return fmt.Errorf("%w: %w", reload.ErrLater, err)
	}
	old := a.current.Swap(fresh)
	all.Go(func() { a.retire(ctx, old, fresh) })
	return nil
}

// await waits until all issuers have told where their keys are.
func (i *issuers) await(ctx context.Context) error {
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, v := range i.all {
		select {
		case <-v.Discovered():
		case <-waiting.Done():
			return errors.Join(i.check(ctx), waiting.Err())
		}
	}
	return nil
}

// retire ends verifiers when nobody uses them any more.
func (a *Authentication) retire(ctx context.Context, old, now *issuers) {
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
	old.stop()
	for _, v := range old.all {
		gone := true
		for _, stays := range now.all {
			gone = gone && stays.Issuer() != v.Issuer()
		}
		if gone {
			a.figures.forget(v.Issuer())
		}
	}
}
