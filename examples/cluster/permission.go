package main

import (
	"flag"
	"fmt"
	"strings"

	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/cluster/authorizationconfig"
)

// permission holds kube-apiserver's flags about who may do what.
type permission struct {
	file  string
	flags authorizationconfig.Flags
}

func (p *permission) define(f *flag.FlagSet) {
	p.flags = authorizationconfig.NewFlags()
	f.StringVar(&p.file, "authorization-config", "", "")
	f.Func("authorization-mode", "", func(list string) error {
		p.flags.Modes = append(p.flags.Modes, strings.Split(list, ",")...)
		return nil
	})
	f.StringVar(&p.flags.PolicyFile, "authorization-policy-file", "", "")
	f.StringVar(&p.flags.WebhookConfigFile, "authorization-webhook-config-file", "", "")
	f.StringVar(&p.flags.WebhookVersion, "authorization-webhook-version", p.flags.WebhookVersion, "")
	f.DurationVar(&p.flags.AuthorizedTTL, "authorization-webhook-cache-authorized-ttl", p.flags.AuthorizedTTL, "")
	f.DurationVar(&p.flags.UnauthorizedTTL, "authorization-webhook-cache-unauthorized-ttl", p.flags.UnauthorizedTTL, "")
}

// apply sets the authorizers of a cluster. Without flags they are Node and RBAC.
func (p *permission) apply(s *settings, o *cluster.Options) error {
	a, err := p.flags.Open(p.file, []string{authorizationconfig.Node, authorizationconfig.RBAC}, authorizationconfig.Options{Log: s.logger()})
	if err != nil {
		return fmt.Errorf("--authorization-*: %w", err)
	}
	o.Authorizers, o.Extensions = a.Stages(), append(o.Extensions, a.Extension())
	return nil
}
