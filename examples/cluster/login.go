package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"strconv"
	"strings"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/cluster/authenticationconfig"
)

// usualIssuer is the issuer of service accounts' tokens unless --service-account-issuer says otherwise.
const usualIssuer = "https://kubernetes.default.svc.cluster.local"

// login holds the flags about users in files and of other systems, and about those who have no credentials. Most are
// kube-apiserver's.
type login struct {
	tokens    string
	passwords string
	file      string
	issuer    authenticationconfig.Flags
	anonymous *bool // nil if it was not said
	webhook   authenticationconfig.Webhook
	bootstrap bool
}

func (l *login) define(f *flag.FlagSet) {
	f.StringVar(&l.tokens, "token-auth-file", "", "")
	f.StringVar(&l.passwords, "basic-auth-file", "", "")
	f.StringVar(&l.file, "authentication-config", "", "")
	f.StringVar(&l.issuer.IssuerURL, "oidc-issuer-url", "", "")
	f.StringVar(&l.issuer.ClientID, "oidc-client-id", "", "")
	f.StringVar(&l.issuer.CAFile, "oidc-ca-file", "", "")
	f.StringVar(&l.issuer.UsernameClaim, "oidc-username-claim", "", "")
	f.StringVar(&l.issuer.UsernamePrefix, "oidc-username-prefix", "", "")
	f.StringVar(&l.issuer.GroupsClaim, "oidc-groups-claim", "", "")
	f.StringVar(&l.issuer.GroupsPrefix, "oidc-groups-prefix", "", "")
	f.Func("oidc-signing-algs", "", func(list string) error {
		l.issuer.SigningAlgs = append(l.issuer.SigningAlgs, strings.Split(list, ",")...)
		return nil
	})
	f.Func("oidc-required-claim", "", l.issuer.RequiredClaim)
	l.webhook = authenticationconfig.NewWebhook()
	f.StringVar(&l.webhook.ConfigFile, "authentication-token-webhook-config-file", "", "")
	f.StringVar(&l.webhook.Version, "authentication-token-webhook-version", l.webhook.Version, "")
	f.DurationVar(&l.webhook.CacheTTL, "authentication-token-webhook-cache-ttl", l.webhook.CacheTTL, "")
	f.BoolVar(&l.bootstrap, "enable-bootstrap-token-auth", false, "")
	f.BoolFunc("anonymous-auth", "", func(text string) error {
		allowed, err := strconv.ParseBool(text)
		l.anonymous = &allowed
		return err
	})
}

// others adds the authenticators that are asked after those of service accounts, whose issuer cannot be one of users.
func (l *login) others(p *people, s *settings) error {
	a, err := l.issuer.Open(l.file, authenticationconfig.Options{DisallowedIssuers: []string{cmp.Or(s.foreign.issuer, usualIssuer)}, Log: s.logger()})
	if err != nil {
		return fmt.Errorf("--authentication-config, --oidc-*: %w", err)
	}
	if l.bootstrap {
		p.others = append(p.others, cluster.BootstrapTokens())
	}
	asked, err := l.webhook.Stages()
	if err != nil {
		return fmt.Errorf("--authentication-token-webhook-config-file: %w", err)
	}
	if a != nil {
		p.others, p.extensions = append(p.others, a.Stages()...), append(p.extensions, a.Extension())
		if a.Anonymous() != nil && l.anonymous != nil {
			return errors.New("--anonymous-auth: anonymous: Forbidden: --anonymous-auth flag cannot be set when anonymous field is configured in authentication configuration file")
		}
	}
	p.others = append(p.others, asked...)
	if l.anonymous != nil && !*l.anonymous {
		p.others = append(p.others, stage(cluster.Anonymous, authn.Nobody()))
	}
	return nil
}
