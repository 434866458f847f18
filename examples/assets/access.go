package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/cluster/admissionconfig"
	"github.com/keelson-dev/keelson/cluster/authorizationconfig"
)

// accessFlags say what is allowed, and which admission plugins there are.
type accessFlags struct {
	open               []string
	file               string                    // the AuthorizationConfiguration
	flags              authorizationconfig.Flags // instead of it
	plugged, unplugged []string
	admission          string                  // the file that configures plugins
	configured         *admissionconfig.Config // what it says
	privileged         bool
}

func (a *accessFlags) define(f *pflag.FlagSet) {
	a.flags = authorizationconfig.NewFlags()
	f.StringVar(&a.file, "authorization-config", "", "an AuthorizationConfiguration: who decides what is allowed")
	f.StringSliceVar(&a.flags.Modes, "authorization-mode", nil, "who decides, in this order: AlwaysAllow, AlwaysDeny, ABAC, Node, RBAC, Webhook (default AlwaysAllow)")
	f.StringVar(&a.flags.PolicyFile, "authorization-policy-file", "", "the policies of ABAC, one in a line")
	f.StringVar(&a.flags.WebhookConfigFile, "authorization-webhook-config-file", "", "the kubeconfig file of the server that Webhook asks")
	f.StringVar(&a.flags.WebhookVersion, "authorization-webhook-version", a.flags.WebhookVersion, "the version of authorization.k8s.io that it speaks")
	f.DurationVar(&a.flags.AuthorizedTTL, "authorization-webhook-cache-authorized-ttl", a.flags.AuthorizedTTL, "how long it is known what it allowed")
	f.DurationVar(&a.flags.UnauthorizedTTL, "authorization-webhook-cache-unauthorized-ttl", a.flags.UnauthorizedTTL, "how long it is known what it did not allow")
	f.StringSliceVar(&a.open, "authorization-always-allow-paths", []string{"/healthz", "/readyz", "/livez"}, "paths that everybody may read")
	f.StringSliceVar(&a.plugged, "enable-admission-plugins", nil, "admission plugins beyond those that run by default")
	f.StringSliceVar(&a.unplugged, "disable-admission-plugins", nil, "admission plugins to leave out")
	f.StringVar(&a.admission, "admission-control-config-file", "", "an AdmissionConfiguration: how admission plugins are to work")
	f.BoolVar(&a.privileged, "allow-privileged", true, "accepted; pods may always have privileged containers")
}

func (a *accessFlags) check() error { return a.openAdmission() }

func (a *accessFlags) openAdmission() (err error) {
	if a.admission != "" {
		if a.configured, err = admissionconfig.Open(a.admission); err != nil {
			err = fmt.Errorf("--admission-control-config-file: %w", err)
		}
	}
	return err
}

// authorizers returns the chain of authorizers.
func (a *accessFlags) authorizers(o *cluster.Options) error {
	if o.Nodes.Count > 0 && len(a.flags.Modes) > 0 && !slices.Contains(a.flags.Modes, authorizationconfig.Node) {
		a.flags.Modes = append([]string{authorizationconfig.Node}, a.flags.Modes...) // without it nodes cannot even register
	}
	z, err := a.flags.Open(a.file, []string{authorizationconfig.AlwaysAllow}, authorizationconfig.Options{Log: o.Logger})
	if err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	stages := z.Stages()
	o.Authorizers = slices.Insert(stages, len(stages)-1, cluster.Ready[authz.Authorizer]("open", openPaths(a.open)))
	o.Extensions = append(o.Extensions, z.Extension())
	return nil
}

// apply sets authorizers and admission plugins.
func (a *accessFlags) apply(o *cluster.Options, tell func(format string, args ...any)) error {
	if err := a.authorizers(o); err != nil {
		return err
	}
	for _, stage := range admissionconfig.Optional() {
		if slices.Contains(a.plugged, stage.Name) {
			o.Admission = append(o.Admission, stage)
		}
	}
	o.Admission = a.configured.Apply(o.Admission)
	known := cluster.StageNames(o.Admission)
	for _, name := range a.unplugged {
		if slices.Contains(known, name) {
			o.Disable = append(o.Disable, name)
		}
	}
	for _, name := range a.plugged {
		if !slices.Contains(known, name) {
			tell("--enable-admission-plugins: there is no %s here", name)
		}
	}
	if !a.privileged {
		tell("--allow-privileged=false has no effect")
	}
	return nil
}

// openPaths is an authorizer that lets everybody read the paths, of which those that end with an asterisk are prefixes.
type openPaths []string

// Authorize implements authz.Authorizer.
func (p openPaths) Authorize(_ context.Context, a authz.Attributes) (authz.Decision, error) {
	if !a.ResourceRequest && a.Verb == "get" && slices.ContainsFunc(p, func(path string) bool {
		prefix, isPrefix := strings.CutSuffix(path, "*")
		return strings.TrimSuffix(path, "/") == strings.TrimSuffix(a.Path, "/") || isPrefix && strings.HasPrefix(a.Path, prefix)
	}) {
		return authz.Decision{Verdict: authz.Allow}, nil
	}
	return authz.Decision{}, nil
}
