package cluster

import (
	"context"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/version"

	"github.com/keelson-dev/keelson/apiserver/audit"
	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/apps"
	"github.com/keelson-dev/keelson/registry/authentication"
	"github.com/keelson-dev/keelson/registry/authorization"
	"github.com/keelson-dev/keelson/registry/autoscaling"
	"github.com/keelson-dev/keelson/registry/batch"
	"github.com/keelson-dev/keelson/registry/certificates"
	"github.com/keelson-dev/keelson/registry/coordination"
	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/registry/discovery"
	"github.com/keelson-dev/keelson/registry/flowcontrol"
	"github.com/keelson-dev/keelson/registry/networking"
	"github.com/keelson-dev/keelson/registry/node"
	"github.com/keelson-dev/keelson/registry/policy"
	"github.com/keelson-dev/keelson/registry/rbac"
	"github.com/keelson-dev/keelson/registry/resource"
	"github.com/keelson-dev/keelson/registry/scheduling"
	"github.com/keelson-dev/keelson/registry/storage"
	"github.com/keelson-dev/keelson/registry/storagemigration"
)

// builtin returns upstream's kinds, as far as they exist here.
func (c *Cluster) builtin() []registry.Kind {
	var kinds []registry.Kind
	kinds = append(kinds, core.Kinds(core.Options{
		Tokens:     core.Tokens{Issuer: c.tokens.issuer, Audiences: []string{c.tokens.url}, Annotate: audit.Annotate},
		Components: c.componentsToCheck(),
		Services:   core.Services{Networks: c.options.Services.networks(), NodePorts: c.services.ports},
	})...)
	authorizer := authz.Func(func(ctx context.Context, a authz.Attributes) (authz.Decision, error) {
		return c.access.Authorize(ctx, a)
	})
	kinds = append(kinds, apps.Kinds()...)
	kinds = append(kinds, autoscaling.Kinds()...)
	kinds = append(kinds, batch.Kinds()...)
	kinds = append(kinds, certificates.Kinds(authorizer)...)
	kinds = append(kinds, coordination.Kinds()...)
	kinds = append(kinds, discovery.Kinds()...)
	kinds = append(kinds, flowcontrol.Kinds()...)
	kinds = append(kinds, networking.Kinds()...)
	kinds = append(kinds, node.Kinds()...)
	kinds = append(kinds, policy.Kinds()...)
	kinds = append(kinds, rbac.Kinds(escalation{c})...)
	kinds = append(kinds, authentication.Kinds(authn.Func(func(r *http.Request) (*authn.Identity, error) {
		return c.authn.Authenticate(r)
	}), authentication.Options{Audiences: []string{c.tokens.url}})...)
	kinds = append(kinds, authorization.Kinds(authorizer, authz.RulesFunc(func(ctx context.Context, user *authn.Identity, namespace string) (authz.Rules, error) {
		return c.access.rules.RulesFor(ctx, user, namespace)
	}))...)
	kinds = append(kinds, resource.Kinds(resource.Options{Compile: c.options.Server.Selectors, Authorizer: authorizer, Namespace: c.namespace})...)
	kinds = append(kinds, scheduling.Kinds()...)
	kinds = append(kinds, storagemigration.Kinds()...)
	return append(kinds, storage.Kinds()...)
}

// namespace returns a namespace as it is stored.
func (c *Cluster) namespace(_ context.Context, name string) (*corev1.Namespace, error) {
	namespaces, err := registry.NewLive[*corev1.Namespace](c.registry, corev1.Resource("namespaces"))
	if err != nil {
		return nil, err
	}
	ns, ok := namespaces.Get("", name)
	if !ok {
		return nil, registry.Errorf(registry.ErrNotFound, registry.ObjectKey{Resource: corev1.Resource("namespaces"), Name: name}, "")
	}
	return ns, nil
}

// serverVersion is the upstream version whose behaviour is served.
func serverVersion() version.Info {
	return version.Info{Major: "1", Minor: "37", GitVersion: "v1.37.1+keelson"}
}

// binaryVersion is the version's number alone.
func binaryVersion(v version.Info) string {
	number, _, _ := strings.Cut(strings.TrimPrefix(v.GitVersion, "v"), "+")
	return number
}
