package main

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/cluster/authenticationconfig"
)

// loginFlags are about users of other systems, and about requests without credentials.
type loginFlags struct {
	file      string
	issuer    authenticationconfig.Flags
	required  []string
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
	if a != nil {
		o.Extensions = append(o.Extensions, a.Extension())
		o.Authenticators = append(o.Authenticators, a.Stages()...)
		if a.Anonymous() != nil && l.said() {
			return errors.New("anonymous: Forbidden: --anonymous-auth flag cannot be set when anonymous field is configured in authentication configuration file")
		}
	}
	if !l.anonymous {
		o.Authenticators = append(o.Authenticators, cluster.Ready(cluster.Anonymous, authn.Nobody()))
	}
	return nil
}
