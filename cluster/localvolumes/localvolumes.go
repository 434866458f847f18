// Package localvolumes gives clusters persistent volumes in directories of their nodes: a storage class, which is the
// default, and the component that provisions for it (package controllers/localprovisioner), under a service account of its
// own. A volume is made once the scheduler has chosen the node of the first pod that uses the claim.
//
// A class of that name that exists already is left as it is, as is its absence while the component is disabled.
package localvolumes

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz/rbac"
	"github.com/keelson-dev/keelson/authz/rbac/bootstrap"
	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/component"
	"github.com/keelson-dev/keelson/controllers/localprovisioner"
	"github.com/keelson-dev/keelson/lifecycle"
	"github.com/keelson-dev/keelson/registry/direct"
)

// Class is the name of the storage class, and Name that of the extension and of the component.
const (
	Class = "local"
	Name  = "local-provisioner"
)

const namespace, role = "kube-system", "keelson:local-provisioner"

// Options configures the volumes. The zero value is ready to use.
type Options struct {
	// Directories have the volumes; nil has them in name only, which is right for simulated nodes.
	Directories localprovisioner.Directories
	// Optional makes a class that is not the default.
	Optional bool
}

// Extension returns the extension that creates the class and the component's role.
func Extension(o Options) cluster.Extension {
	return cluster.Extension{Name: Name, New: func(p *cluster.ExtensionParts) (cluster.Extended, error) {
		return &extended{server: direct.New(p.Registry, direct.Options{Identity: p.Identity}), optional: o.Optional}, nil
	}}
}

// Component returns the component that provisions. It needs the extension.
func Component(o Options) cluster.Component {
	dirs := o.Directories
	if dirs == nil {
		dirs = &localprovisioner.Names{}
	}
	return cluster.Component{
		Name: Name, Source: localprovisioner.Provisioner, Identity: authn.ServiceAccountIdentity(namespace, Name),
		New: func(p *component.Parts) (lifecycle.Runnable, error) {
			in := localprovisioner.Sources{
				Claims:  component.Informer[*corev1.PersistentVolumeClaim](p.Informers, corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims")),
				Volumes: component.Informer[*corev1.PersistentVolume](p.Informers, corev1.SchemeGroupVersion.WithResource("persistentvolumes")),
				Classes: component.Informer[*storagev1.StorageClass](p.Informers, storagev1.SchemeGroupVersion.WithResource("storageclasses")),
				Nodes:   component.Informer[*corev1.Node](p.Informers, corev1.SchemeGroupVersion.WithResource("nodes")),
			}
			if err := p.Informers.Err(); err != nil {
				return nil, err
			}
			return p.Loop(localprovisioner.New(in, dirs, p.Client, p.Recorder)), nil
		},
	}
}

// extended is the extension of one cluster.
type extended struct {
	server   *direct.Client
	optional bool
}

// Prepare implements cluster.Extended.
func (e *extended) Prepare(ctx context.Context) error {
	if err := bootstrap.Ensure(ctx, e.server, policy()); err != nil {
		return err
	}
	class := storageClass()
	if e.optional {
		class.Annotations = nil
	}
	at := client.Target{Resource: storagev1.SchemeGroupVersion.WithResource("storageclasses")}
	_, err := e.server.Create(ctx, at, class, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// Run implements cluster.Extended.
func (*extended) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func storageClass() *storagev1.StorageClass {
	mode, reclaim := storagev1.VolumeBindingWaitForFirstConsumer, corev1.PersistentVolumeReclaimDelete
	return &storagev1.StorageClass{
		ObjectMeta:  metav1.ObjectMeta{Name: Class, Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}},
		Provisioner: localprovisioner.Provisioner, VolumeBindingMode: &mode, ReclaimPolicy: &reclaim,
	}
}

// policy is what the component may do.
func policy() rbac.Policy {
	on := func(group, resource string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
	}
	return rbac.Policy{
		ClusterRoles: []*rbacv1.ClusterRole{{ObjectMeta: metav1.ObjectMeta{Name: role}, Rules: []rbacv1.PolicyRule{
			on("", "persistentvolumes", "get", "list", "watch", "create", "patch", "delete"),
			on("", "persistentvolumeclaims", "get", "list", "watch", "patch"),
			on("", "nodes", "get", "list", "watch"),
			on("", "events", "create", "patch", "update"),
			on("storage.k8s.io", "storageclasses", "get", "list", "watch"),
		}}},
		ClusterRoleBindings: []*rbacv1.ClusterRoleBinding{{
			ObjectMeta: metav1.ObjectMeta{Name: role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: Name}},
		}},
	}
}
