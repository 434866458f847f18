package rbac

import (
	"context"
	"errors"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/registry"
)

// Escalation checks whether the writer of a role or a binding, which the context identifies, may grant its
// permissions. An error refuses the write; one with a method
//
//	MissingRole() (resource, name string)
//
// means that the role of a binding does not exist. Package authz/rbac has an implementation.
type Escalation interface {
	// CheckRole checks the write of a Role or, without a namespace, of a ClusterRole. name is empty in a
	// create; aggregates means that the role has, or had, an aggregation rule.
	CheckRole(ctx context.Context, namespace, name string, rules []rbacv1.PolicyRule, aggregates bool) error
	// CheckBinding checks the write of a binding of a role; namespace is empty for a ClusterRoleBinding.
	CheckBinding(ctx context.Context, namespace string, role rbacv1.RoleRef) error
}

// Kinds returns the kinds of the group in discovery order. Without an Escalation, whoever may write roles and
// bindings may write any.
func Kinds(e Escalation) []registry.Kind {
	return []registry.Kind{clusterRoleBindings(e), clusterRoles(e), roleBindings(e), roles(e)}
}

func roles(e Escalation) registry.Kind {
	return registry.Definition[*rbacv1.Role]{
		Names:        registry.Names{Kind: "Role", Plural: "roles", Singular: "role"},
		GroupVersion: rbacv1.SchemeGroupVersion,
		Namespaced:   true,
		New:          func() *rbacv1.Role { return &rbacv1.Role{} },
		NewList:      func() runtime.Object { return &rbacv1.RoleList{} },
		Rules: registry.Rules[*rbacv1.Role]{
			Validate:       validateRole,
			ValidateUpdate: validateRoleUpdate,
			ValidateName:   validateName,
			Guard:          guardRole(e),
			CreateOnUpdate: true,
		},
	}.Kind()
}

func clusterRoles(e Escalation) registry.Kind {
	return registry.Definition[*rbacv1.ClusterRole]{
		Names:        registry.Names{Kind: "ClusterRole", Plural: "clusterroles", Singular: "clusterrole"},
		GroupVersion: rbacv1.SchemeGroupVersion,
		New:          func() *rbacv1.ClusterRole { return &rbacv1.ClusterRole{} },
		NewList:      func() runtime.Object { return &rbacv1.ClusterRoleList{} },
		Rules: registry.Rules[*rbacv1.ClusterRole]{
			Validate:       validateClusterRole,
			ValidateUpdate: validateClusterRoleUpdate,
			ValidateName:   validateName,
			Guard:          guardClusterRole(e),
			CreateOnUpdate: true,
		},
	}.Kind()
}

func roleBindings(e Escalation) registry.Kind {
	return registry.Definition[*rbacv1.RoleBinding]{
		Names:        registry.Names{Kind: "RoleBinding", Plural: "rolebindings", Singular: "rolebinding"},
		GroupVersion: rbacv1.SchemeGroupVersion,
		Namespaced:   true,
		New:          func() *rbacv1.RoleBinding { return &rbacv1.RoleBinding{} },
		NewList:      func() runtime.Object { return &rbacv1.RoleBindingList{} },
		Rules: registry.Rules[*rbacv1.RoleBinding]{
			Default:        func(b *rbacv1.RoleBinding) { defaultBinding(&b.RoleRef, b.Subjects) },
			Validate:       validateRoleBinding,
			ValidateUpdate: validateRoleBindingUpdate,
			ValidateName:   validateName,
			Guard:          guardRoleBinding(e),
			CreateOnUpdate: true,
		},
		Columns: roleBindingColumns(),
	}.Kind()
}

func clusterRoleBindings(e Escalation) registry.Kind {
	return registry.Definition[*rbacv1.ClusterRoleBinding]{
		Names:        registry.Names{Kind: "ClusterRoleBinding", Plural: "clusterrolebindings", Singular: "clusterrolebinding"},
		GroupVersion: rbacv1.SchemeGroupVersion,
		New:          func() *rbacv1.ClusterRoleBinding { return &rbacv1.ClusterRoleBinding{} },
		NewList:      func() runtime.Object { return &rbacv1.ClusterRoleBindingList{} },
		Rules: registry.Rules[*rbacv1.ClusterRoleBinding]{
			Default:        func(b *rbacv1.ClusterRoleBinding) { defaultBinding(&b.RoleRef, b.Subjects) },
			Validate:       validateClusterRoleBinding,
			ValidateUpdate: validateClusterRoleBindingUpdate,
			ValidateName:   validateName,
			Guard:          guardClusterRoleBinding(e),
			CreateOnUpdate: true,
		},
		Columns: clusterRoleBindingColumns(),
	}.Kind()
}

func defaultBinding(ref *rbacv1.RoleRef, subjects []rbacv1.Subject) {
	if ref.APIGroup == "" {
		ref.APIGroup = rbacv1.GroupName
	}
	for i := range subjects {
		s := &subjects[i]
		if s.APIGroup == "" && (s.Kind == rbacv1.UserKind || s.Kind == rbacv1.GroupKind) {
			s.APIGroup = rbacv1.GroupName
		}
	}
}

// validateName accepts any path segment: upstream's roles have colons.
func validateName(name string, _ bool) []string { return content.IsPathSegmentName(name) }

// refused translates an error of an Escalation for the client.
func refused(err error, resource, name string) error {
	if err == nil {
		return nil
	}
	var missing interface {
		error
		MissingRole() (resource, name string)
	}
	if errors.As(err, &missing) {
		resource, name = missing.MissingRole()
		return &registry.Error{Err: registry.ErrNotFound, Resource: groupResource(resource), Name: name}
	}
	return &registry.Error{Err: registry.ErrForbidden, Resource: groupResource(resource), Name: name, Message: err.Error()}
}

func groupResource(resource string) schema.GroupResource {
	return schema.GroupResource{Group: rbacv1.GroupName, Resource: resource}
}
