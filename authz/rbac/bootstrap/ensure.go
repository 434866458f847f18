package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"sync"

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

// atOnce bounds how many objects Ensure reconciles at the same time.
const atOnce = 32

// Ensure updates a cluster to policy: it creates missing objects and adds to existing ones (see ReconcileClusterRole), those
// of one kind at the same time: servers become ready after it, and a durable store syncs concurrent writes together.
// It does as much as it can and fails with every failure joined, in the order of the policy.
func Ensure(ctx context.Context, a Access, policy rbac.Policy) error {
	var failures []error
	for _, kind := range steps(policy) {
		failures = append(failures, runAll(ctx, a, kind)...)
	}
	return errors.Join(failures...)
}

func runAll(ctx context.Context, a Access, all []step) []error {
	failures := make([]error, len(all))
	seats := make(chan struct{}, atOnce)
	var running sync.WaitGroup
	for i, s := range all {
		seats <- struct{}{}
		running.Go(func() {
			defer func() { <-seats }()
			if err := s.run(ctx, a); err != nil {
				failures[i] = fmt.Errorf("unable to reconcile %s %s: %w", s.target.Resource.Resource, s.target.Name, err)
			}
		})
	}
	running.Wait()
	return failures
}

// step is one object of a policy.
type step struct {
	target    client.Target
	want      runtime.Object
	reconcile func(have runtime.Object) (runtime.Object, Change, error)
}

// steps are those of each kind, roles before the bindings that refer to them.
func steps(p rbac.Policy) [][]step {
	return [][]step{
		stepsOf("clusterroles", p.ClusterRoles, ReconcileClusterRole),
		stepsOf("clusterrolebindings", p.ClusterRoleBindings, ReconcileClusterRoleBinding),
		stepsOf("roles", p.Roles, ReconcileRole),
		stepsOf("rolebindings", p.RoleBindings, ReconcileRoleBinding),
	}
}

func stepsOf[T interface {
	runtime.Object
	metav1.Object
}](resource string, wanted []T, reconcile func(have, want T) (T, Change)) []step {
	all := make([]step, len(wanted))
	for i, want := range wanted {
		all[i] = newStep(resource, want, reconcile)
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
