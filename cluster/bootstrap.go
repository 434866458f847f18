package cluster

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/authz/rbac/bootstrap"
	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/scheduling"
)

// bootstrap creates what upstream's API server creates at its start: the system's namespaces,
// the default RBAC policy and the system's priority classes. What is there already stays.
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
	for _, class := range scheduling.Defaults() {
		if err := c.ensure(ctx, schedulingv1.SchemeGroupVersion.WithResource("priorityclasses"), class); err != nil {
			return err
		}
	}
	if err := c.publishClientCA(ctx); err != nil {
		return err
	}
	return c.bootstrapRBAC(ctx)
}

// bootstrapRBAC brings the policy into force, as upstream does at each start: what administrators added stays.
func (c *Cluster) bootstrapRBAC(ctx context.Context) error {
	if err := bootstrap.Ensure(ctx, direct{c.registry}, bootstrap.Policy()); err != nil {
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

// KubeletClient is whom the API server is for the servers of nodes, as upstream's installers call
// it.
const KubeletClient = "kube-apiserver-kubelet-client"

// ensure creates an object unless it is there.
func (c *Cluster) ensure(ctx context.Context, resource schema.GroupVersionResource, obj registry.Object) error {
	t := client.Target{Resource: resource, Namespace: obj.GetNamespace(), Name: obj.GetName()}
	d := direct{c.registry}
	if _, err := d.Get(ctx, t); !apierrors.IsNotFound(err) {
		return err
	}
	_, err := d.Create(ctx, t, obj, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
