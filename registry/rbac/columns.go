package rbac

import (
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/registry"
)

// Roles and cluster roles have upstream's default columns.

func roleBindingColumns() registry.Columns[*rbacv1.RoleBinding] {
	return registry.Columns[*rbacv1.RoleBinding]{
		Definitions: bindingColumns("roleBinding", rbacv1.RoleBinding{}.SwaggerDoc()["roleRef"]),
		Cells: func(b *rbacv1.RoleBinding, now time.Time) []any {
			return bindingCells(&b.ObjectMeta, b.RoleRef, b.Subjects, now)
		},
	}
}

func clusterRoleBindingColumns() registry.Columns[*rbacv1.ClusterRoleBinding] {
	return registry.Columns[*rbacv1.ClusterRoleBinding]{
		Definitions: bindingColumns("clusterRoleBinding", rbacv1.ClusterRoleBinding{}.SwaggerDoc()["roleRef"]),
		Cells: func(b *rbacv1.ClusterRoleBinding, now time.Time) []any {
			return bindingCells(&b.ObjectMeta, b.RoleRef, b.Subjects, now)
		},
	}
}

func bindingColumns(kind, role string) []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{
		registry.NameColumn(),
		// Upstream shows the text of v1beta1, which is one sentence shorter.
		registry.TextColumn("Role", strings.TrimSuffix(role, " This field is immutable.")),
		registry.AgeColumn(),
		registry.WideColumn("Users", "Users in the "+kind),
		registry.WideColumn("Groups", "Groups in the "+kind),
		registry.WideColumn("ServiceAccounts", "ServiceAccounts in the "+kind),
	}
}

func bindingCells(m *metav1.ObjectMeta, role rbacv1.RoleRef, subjects []rbacv1.Subject, now time.Time) []any {
	var users, groups, accounts []string
	for _, s := range subjects {
		switch s.Kind {
		case rbacv1.UserKind:
			users = append(users, s.Name)
		case rbacv1.GroupKind:
			groups = append(groups, s.Name)
		case rbacv1.ServiceAccountKind:
			accounts = append(accounts, s.Namespace+"/"+s.Name)
		}
	}
	return []any{
		m.Name, role.Kind + "/" + role.Name, registry.Age(m.CreationTimestamp, now),
		strings.Join(users, ", "), strings.Join(groups, ", "), strings.Join(accounts, ", "),
	}
}
