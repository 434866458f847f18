package rbac

import (
	"context"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/keelson-dev/keelson/registry"
)

func guardRole(e Escalation) func(context.Context, *rbacv1.Role, *rbacv1.Role) error {
	if e == nil {
		return nil
	}
	return func(ctx context.Context, obj, old *rbacv1.Role) error {
		if old != nil && onlyForGC(obj, old) {
			return nil
		}
		err := e.CheckRole(ctx, obj.Namespace, nameInUpdate(obj, old != nil), obj.Rules, false)
		return refused(err, "roles", obj.Name)
	}
}

func guardClusterRole(e Escalation) func(context.Context, *rbacv1.ClusterRole, *rbacv1.ClusterRole) error {
	if e == nil {
		return nil
	}
	return func(ctx context.Context, obj, old *rbacv1.ClusterRole) error {
		if old != nil && onlyForGC(obj, old) {
			return nil
		}
		err := e.CheckRole(ctx, "", nameInUpdate(obj, old != nil), obj.Rules, aggregates(obj) || aggregates(old))
		return refused(err, "clusterroles", obj.Name)
	}
}

func guardRoleBinding(e Escalation) func(context.Context, *rbacv1.RoleBinding, *rbacv1.RoleBinding) error {
	if e == nil {
		return nil
	}
	return func(ctx context.Context, obj, old *rbacv1.RoleBinding) error {
		if old != nil && onlyForGC(obj, old) {
			return nil
		}
		return refused(e.CheckBinding(ctx, obj.Namespace, obj.RoleRef), "rolebindings", obj.Name)
	}
}

func guardClusterRoleBinding(e Escalation) func(context.Context, *rbacv1.ClusterRoleBinding, *rbacv1.ClusterRoleBinding) error {
	if e == nil {
		return nil
	}
	return func(ctx context.Context, obj, old *rbacv1.ClusterRoleBinding) error {
		if old != nil && onlyForGC(obj, old) {
			return nil
		}
		return refused(e.CheckBinding(ctx, "", obj.RoleRef), "clusterrolebindings", obj.Name)
	}
}

// nameInUpdate returns the name in the request's path, which is empty in a create.
func nameInUpdate(obj registry.Object, update bool) string {
	if update {
		return obj.GetName()
	}
	return ""
}

func aggregates(role *rbacv1.ClusterRole) bool {
	return role != nil && role.AggregationRule != nil && len(role.AggregationRule.ClusterRoleSelectors) > 0
}

// onlyForGC reports whether an update changes only what the garbage collector changes in order to delete: it
// does not hold the permissions of the roles it cleans up.
func onlyForGC(obj, old registry.Object) bool {
	same := obj.DeepCopyObject().(registry.Object)
	same.SetOwnerReferences(old.GetOwnerReferences())
	same.SetFinalizers(old.GetFinalizers())
	same.SetManagedFields(old.GetManagedFields())
	same.SetResourceVersion(old.GetResourceVersion())
	return equality.Semantic.DeepEqual(same, old)
}
