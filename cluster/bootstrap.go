package cluster

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz/rbac/bootstrap"
	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/direct"
	"github.com/keelson-dev/keelson/registry/scheduling"
)

// bootstrap creates what upstream's API server creates at its start: the system namespaces, the default flow schemas and
// priority levels, the system priority classes and the default RBAC policy. Existing objects are kept.
func (c *Cluster) bootstrap(ctx context.Context) error {
	for _, name := range []string{"default", "kube-node-lease", "kube-public", "kube-system"} {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if err := c.ensure(ctx, corev1.SchemeGroupVersion.WithResource("namespaces"), ns); err != nil {
			return err
		}
	}
	if err := c.bootstrapServices(ctx); err != nil {
		return err
	}
	if err := c.services.flows.Once(asServer(ctx)); err != nil {
		return err
	}
	for _, class := range scheduling.Defaults() {
		if err := c.ensure(ctx, schedulingv1.SchemeGroupVersion.WithResource("priorityclasses"), class); err != nil {
			return err
		}
	}
	if err := c.publishTrust(ctx); err != nil {
		return err
	}
	if err := c.trackUse(ctx); err != nil {
		return err
	}
	return c.bootstrapRBAC(ctx)
}

// direct is the API server's own access to its registry, without authorization and admission, because it must work
// before anybody can be authorized. Upstream's loopback client is a member of system:masters instead; here only
// administrators are.
func (c *Cluster) direct() *direct.Client {
	return direct.New(c.registry, direct.Options{Identity: systemIdentity()})
}

// asServer makes a request the API server's own.
func asServer(ctx context.Context) context.Context { return authn.NewContext(ctx, systemIdentity()) }

// bootstrapRBAC applies the default policy at each start, like upstream: what administrators added is kept.
func (c *Cluster) bootstrapRBAC(ctx context.Context) error {
	if err := bootstrap.Ensure(ctx, c.direct(), bootstrap.Policy()); err != nil {
		return err
	}
	if c.options.Server.Connector == nil {
		return nil
	}
	return c.ensure(ctx, rbacv1.SchemeGroupVersion.WithResource("clusterrolebindings"), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: KubeletClient},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:kubelet-api-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: KubeletClient}},
	})
}

// KubeletClient is the user as which the API server connects to kubelets, under the name that upstream's installers
// use.
const KubeletClient = "kube-apiserver-kubelet-client"

// ensure creates an object unless it exists.
func (c *Cluster) ensure(ctx context.Context, resource schema.GroupVersionResource, obj registry.Object) error {
	t := client.Target{Resource: resource, Namespace: obj.GetNamespace(), Name: obj.GetName()}
	d := c.direct()
	if _, err := d.Get(ctx, t); !apierrors.IsNotFound(err) {
		return err
	}
	_, err := d.Create(ctx, t, obj, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
