package cluster

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz/rbac/bootstrap"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/scheduling"
)

// bootstrap creates what upstream's API server creates at its start: the system's namespaces,
// the default RBAC policy and the system's priority classes. What is there already stays.
func (c *Cluster) bootstrap(ctx context.Context) error {
	for _, name := range []string{"default", "kube-node-lease", "kube-public", "kube-system"} {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if err := c.ensure(ctx, schema.GroupResource{Resource: "namespaces"}, ns); err != nil {
			return err
		}
	}
	for _, class := range scheduling.Defaults() {
		if err := c.ensure(ctx, schema.GroupResource{Group: "scheduling.k8s.io", Resource: "priorityclasses"}, class); err != nil {
			return err
		}
	}
	return c.bootstrapRBAC(ctx)
}

// bootstrapRBAC brings the policy into force: on an empty store by plain creates, on one that
// was used before as upstream does at each start, so that what administrators added stays.
func (c *Cluster) bootstrapRBAC(ctx context.Context) error {
	policy := bootstrap.Policy()
	if roles, ok := c.registry.Resource(rbacResource("clusterroles")); ok {
		if used, err := roles.List(ctx, registry.ListOptions{Limit: 1}); err != nil || len(used.Items) > 0 {
			api, clientErr := c.Client(systemIdentity())
			if err = errors.Join(err, clientErr); err != nil {
				return err
			}
			return bootstrap.Ensure(ctx, api, policy)
		}
	}
	for _, o := range policy.ClusterRoles {
		if err := c.ensure(ctx, rbacResource("clusterroles"), o); err != nil {
			return err
		}
	}
	for _, o := range policy.ClusterRoleBindings {
		if err := c.ensure(ctx, rbacResource("clusterrolebindings"), o); err != nil {
			return err
		}
	}
	for _, o := range policy.Roles {
		if err := c.ensure(ctx, rbacResource("roles"), o); err != nil {
			return err
		}
	}
	for _, o := range policy.RoleBindings {
		if err := c.ensure(ctx, rbacResource("rolebindings"), o); err != nil {
			return err
		}
	}
	return nil
}

// ensure creates an object unless it is there. The server does it itself, before anybody could
// be authorized.
func (c *Cluster) ensure(ctx context.Context, gr schema.GroupResource, obj registry.Object) error {
	res, ok := c.registry.Resource(gr)
	if !ok {
		return errors.New(gr.String() + " is not served")
	}
	if _, err := res.Get(ctx, obj.GetNamespace(), obj.GetName(), "0"); err == nil {
		return nil
	}
	if res.Rules.Default != nil {
		res.Rules.Default(obj)
	}
	_, err := res.Create(authn.NewContext(ctx, systemIdentity()), obj, registry.CreateOptions{})
	if errors.Is(err, registry.ErrExists) {
		return nil
	}
	return err
}
