package bootstrap

import (
	"context"
	"errors"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/authz/rbac"
	"github.com/keelson-dev/keelson/client"
)

// Access is the client that Ensure needs, for a user who may grant everything.
//
//nolint:interfacebloat // composed of the narrow ones that it asks for
type Access interface {
	client.Getter
	client.Creator
	client.Updater
	client.Deleter
}

// attempts is how often Ensure tries an object when other writers interfere.
const attempts = 5

// Ensure updates a cluster to policy: it creates missing objects and adds to existing ones (see ReconcileClusterRole).
// It does as much as it can and fails with every failure joined.
func Ensure(ctx context.Context, a Access, policy rbac.Policy) error {
	var failures []error
	for _, s := range steps(policy) {
		if err := s.run(ctx, a); err != nil {
			failures = append(failures, fmt.Errorf("unable to reconcile %s %s: %w", s.target.Resource.Resource, s.target.Name, err))
		}
	}
	return errors.Join(failures...)
}

// step is one object of a policy.
type step struct {
	target    client.Target
	want      runtime.Object
	reconcile func(have runtime.Object) (runtime.Object, Change, error)
}

// steps puts roles before the bindings that refer to them.
func steps(p rbac.Policy) []step {
	var all []step
	for _, o := range p.ClusterRoles {
		all = append(all, newStep("clusterroles", o, ReconcileClusterRole))
	}
	for _, o := range p.ClusterRoleBindings {
		all = append(all, newStep("clusterrolebindings", o, ReconcileClusterRoleBinding))
	}
	for _, o := range p.Roles {
		all = append(all, newStep("roles", o, ReconcileRole))
	}
	for _, o := range p.RoleBindings {
		all = append(all, newStep("rolebindings", o, ReconcileRoleBinding))
	}
	return all
}

func newStep[T interface {
	runtime.Object
	metav1.Object
}](resource string, want T, reconcile func(have, want T) (T, Change)) step {
	return step{
		target: client.Target{Resource: rbacv1.SchemeGroupVersion.WithResource(resource), Namespace: want.GetNamespace(), Name: want.GetName()},
		want:   want,
		reconcile: func(obj runtime.Object) (runtime.Object, Change, error) {
			have, ok := obj.(T)
			if !ok {
				return nil, Nothing, fmt.Errorf("got a %T", obj)
			}
			next, change := reconcile(have, want)
			return next, change, nil
		},
	}
}

func (s step) run(ctx context.Context, a Access) error {
	var err error
	for range attempts {
		err = s.once(ctx, a)
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return err
}

func (s step) once(ctx context.Context, a Access) error {
	have, err := a.Get(ctx, s.target)
	if apierrors.IsNotFound(err) {
		return s.create(ctx, a)
	}
	if err != nil {
		return err
	}
	next, change, err := s.reconcile(have)
	switch {
	case err != nil || change == Nothing:
		return err
	case change == Update:
		_, err = a.Update(ctx, s.target, next, metav1.UpdateOptions{})
		return err
	}
	if err := a.Delete(ctx, s.target, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	return s.create(ctx, a)
}

func (s step) create(ctx context.Context, a Access) error {
	target := s.target
	target.Name = ""
	_, err := a.Create(ctx, target, s.want, metav1.CreateOptions{})
	return err
}
