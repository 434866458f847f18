package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/authz/abac"
	"github.com/keelson-dev/keelson/authz/alwaysallow"
	"github.com/keelson-dev/keelson/authz/alwaysdeny"
	"github.com/keelson-dev/keelson/authz/superuser"
	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/cluster/admissionconfig"
)

// accessFlags say what is allowed, and which admission plugins there are.
type accessFlags struct {
	modes, open        []string
	policies           string        // the file of ABAC
	loaded             abac.Policies // what it says
	plugged, unplugged []string
	admission          string                  // the file that configures plugins
	configured         *admissionconfig.Config // what it says
	privileged         bool
}

func (a *accessFlags) define(f *pflag.FlagSet) {
	f.StringSliceVar(&a.modes, "authorization-mode", []string{"AlwaysAllow"}, "who decides, in this order: AlwaysAllow, AlwaysDeny, ABAC, Node, RBAC")
	f.StringVar(&a.policies, "authorization-policy-file", "", "the policies of ABAC, one in a line")
	f.StringSliceVar(&a.open, "authorization-always-allow-paths", []string{"/healthz", "/readyz", "/livez"}, "paths that everybody may read")
	f.StringSliceVar(&a.plugged, "enable-admission-plugins", nil, "admission plugins beyond those that run by default")
	f.StringSliceVar(&a.unplugged, "disable-admission-plugins", nil, "admission plugins to leave out")
	f.StringVar(&a.admission, "admission-control-config-file", "", "an AdmissionConfiguration: how admission plugins are to work")
	f.BoolVar(&a.privileged, "allow-privileged", true, "accepted; pods may always have privileged containers")
}

func (a *accessFlags) check() error {
	for _, mode := range a.modes {
		if _, ok := a.authorizer(mode); !ok {
			return fmt.Errorf("%w: --authorization-mode %q: choose from AlwaysAllow, AlwaysDeny, ABAC, Node and RBAC", errUsage, mode)
		}
	}
	if slices.Contains(a.modes, abac.Name) != (a.policies != "") {
		return fmt.Errorf("%w: --authorization-mode ABAC and --authorization-policy-file take one another", errUsage)
	}
	return errors.Join(a.openPolicies(), a.openAdmission())
}

func (a *accessFlags) openPolicies() (err error) {
	if a.policies != "" {
		a.loaded, err = abac.Open(a.policies)
	}
	return err
}

func (a *accessFlags) openAdmission() (err error) {
	if a.admission != "" {
		if a.configured, err = admissionconfig.Open(a.admission); err != nil {
			err = fmt.Errorf("--admission-control-config-file: %w", err)
		}
	}
	return err
}

// authorizer returns the authorizer of a mode, under upstream's name for it.
func (a *accessFlags) authorizer(mode string) (cluster.AuthorizerStage, bool) {
	switch mode {
	case abac.Name:
		return cluster.Ready[authz.Authorizer]("abac", a.loaded), true
	case "AlwaysAllow":
		return cluster.Ready[authz.Authorizer]("alwaysallow", alwaysallow.New()), true
	case "AlwaysDeny":
		return cluster.Ready[authz.Authorizer]("alwaysdeny", alwaysdeny.New()), true
	case "Node", "RBAC":
		all := cluster.DefaultAuthorizers()
		return all[slices.IndexFunc(all, func(s cluster.AuthorizerStage) bool { return s.Name == strings.ToLower(mode) })], true
	}
	return cluster.AuthorizerStage{}, false
}

// apply sets authorizers and admission plugins.
func (a *accessFlags) apply(o *cluster.Options, tell func(format string, args ...any)) {
	o.Authorizers = []cluster.AuthorizerStage{
		cluster.Ready[authz.Authorizer](superuser.Name, superuser.New()), cluster.Ready[authz.Authorizer]("open", openPaths(a.open)),
	}
	modes := a.modes
	if o.Nodes.Count > 0 && !slices.Contains(modes, "Node") {
		modes = append([]string{"Node"}, modes...) // without it nodes cannot even register
	}
	for _, mode := range modes {
		stage, _ := a.authorizer(mode)
		o.Authorizers = append(o.Authorizers, stage)
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
