package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/pflag"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/requestheader"
	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/cluster/authenticationconfig"
)

// loginFlags are about users of other systems, and about requests without credentials.
type loginFlags struct {
	file      string
	issuer    authenticationconfig.Flags
	required  []string
	webhook   authenticationconfig.Webhook
	bootstrap bool
	proxy     proxyFlags
	anonymous bool
	said      func() bool // whether --anonymous-auth was given
}

func (l *loginFlags) define(f *pflag.FlagSet) {
	f.StringVar(&l.file, "authentication-config", "", "an AuthenticationConfiguration: issuers of OpenID Connect whose tokens are accepted, and who needs no credentials")
	f.StringVar(&l.issuer.IssuerURL, "oidc-issuer-url", "", "the URL of an issuer of OpenID Connect")
	f.StringVar(&l.issuer.ClientID, "oidc-client-id", "", "for whom its tokens must be")
	f.StringVar(&l.issuer.CAFile, "oidc-ca-file", "", "the authorities of its certificate")
	f.StringVar(&l.issuer.UsernameClaim, "oidc-username-claim", "sub", "the claim with a user's name")
	f.StringVar(&l.issuer.UsernamePrefix, "oidc-username-prefix", "", "what precedes names; \"-\" is nothing")
	f.StringVar(&l.issuer.GroupsClaim, "oidc-groups-claim", "", "the claim with a user's groups")
	f.StringVar(&l.issuer.GroupsPrefix, "oidc-groups-prefix", "", "what precedes groups")
	f.StringSliceVar(&l.issuer.SigningAlgs, "oidc-signing-algs", nil, "the algorithms of signatures that are accepted (default RS256)")
	f.StringArrayVar(&l.required, "oidc-required-claim", nil, "a claim that must have a value: NAME=VALUE")
	l.webhook = authenticationconfig.NewWebhook()
	f.StringVar(&l.webhook.ConfigFile, "authentication-token-webhook-config-file", "", "the kubeconfig file of a server that knows tokens")
	f.StringVar(&l.webhook.Version, "authentication-token-webhook-version", l.webhook.Version, "the version of authentication.k8s.io that it speaks")
	f.DurationVar(&l.webhook.CacheTTL, "authentication-token-webhook-cache-ttl", l.webhook.CacheTTL, "how long its answers are cached")
	f.BoolVar(&l.bootstrap, "enable-bootstrap-token-auth", false, "accept bootstrap tokens, with which nodes join")
	l.proxy.define(f)
	f.BoolVar(&l.anonymous, "anonymous-auth", true, "serve requests without credentials as those of system:anonymous")
	l.said = func() bool { return f.Changed("anonymous-auth") }
}

// apply adds authenticators.
func (l *loginFlags) apply(o *cluster.Options, issuers []string) error {
	if l.issuer.UsernameClaim == "sub" {
		l.issuer.UsernameClaim = "" // the default, as which it may be beside --authentication-config
	}
	for _, pair := range l.required {
		if err := l.issuer.RequiredClaim(pair); err != nil {
			return fmt.Errorf("%w: --oidc-required-claim %q: %w", errUsage, pair, err)
		}
	}
	a, err := l.issuer.Open(l.file, authenticationconfig.Options{DisallowedIssuers: issuers, Log: o.Logger})
	if err != nil {
		return fmt.Errorf("--authentication-config, --oidc-*: %w", err)
	}
	if l.bootstrap {
		o.Authenticators = append(o.Authenticators, cluster.BootstrapTokens())
	}
	asked, err := l.webhook.Stages()
	if err != nil {
		return fmt.Errorf("--authentication-token-webhook-config-file: %w", err)
	}
	if a != nil {
		o.Extensions = append(o.Extensions, a.Extension())
		o.Authenticators = append(o.Authenticators, a.Stages()...)
		if a.Anonymous() != nil && l.said() {
			return errors.New("anonymous: Forbidden: --anonymous-auth flag cannot be set when anonymous field is configured in authentication configuration file")
		}
	}
	o.Authenticators = append(o.Authenticators, asked...)
	if !l.anonymous {
		o.Authenticators = append(o.Authenticators, cluster.Ready(cluster.Anonymous, authn.Nobody()))
	}
	return l.proxy.apply(o)
}

// proxyFlags are about proxies that say in headers whose requests they forward.
type proxyFlags struct {
	ca      string
	headers requestheader.Options
}

func (p *proxyFlags) define(f *pflag.FlagSet) {
	f.StringVar(&p.ca, "requestheader-client-ca-file", "", "the authorities of the certificates of proxies that say in headers whose requests they forward")
	f.StringSliceVar(&p.headers.AllowedNames, "requestheader-allowed-names", nil, "the common names that those certificates may have; none allows all")
	f.StringSliceVar(&p.headers.UsernameHeaders, "requestheader-username-headers", nil, "the headers with names (default X-Remote-User)")
	f.StringSliceVar(&p.headers.UIDHeaders, "requestheader-uid-headers", nil, "the headers with UIDs (default X-Remote-Uid)")
	f.StringSliceVar(&p.headers.GroupHeaders, "requestheader-group-headers", nil, "the headers with groups (default X-Remote-Group)")
	f.StringSliceVar(&p.headers.ExtraHeaderPrefixes, "requestheader-extra-headers-prefix", nil, "what the headers with other attributes begin with (default X-Remote-Extra-)")
}

func (p *proxyFlags) apply(o *cluster.Options) error {
	if p.ca == "" {
		return nil
	}
	text, err := os.ReadFile(p.ca)
	if err != nil {
		return fmt.Errorf("--requestheader-client-ca-file: %w", err)
	}
	if len(p.headers.AllowedNames) == 0 && bytes.Equal(bytes.TrimSpace(text), bytes.TrimSpace(o.Server.ClientCA)) {
		return errors.New("--requestheader-client-ca-file and --client-ca-file contain overlapping certificates; --requestheader-allowed-names must be specified to ensure regular client certificates cannot set authenticating proxy headers for arbitrary users")
	}
	o.Server.FrontProxy = &cluster.FrontProxy{CA: text, Headers: p.headers}
	return nil
}
