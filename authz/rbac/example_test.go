package rbac_test

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/authz/rbac"
	"github.com/keelson-dev/keelson/authz/rbac/bootstrap"
)

// Who may do what under the default policy and one more binding, and why not.
func Example() {
	policy := bootstrap.Policy()
	policy.RoleBindings = append(policy.RoleBindings, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "developers"},
		Subjects:   []rbacv1.Subject{{Kind: "Group", Name: "dev"}},
		RoleRef:    rbacv1.RoleRef{Kind: "ClusterRole", Name: "view"},
	})
	z := rbac.New(policy.Sources())

	ask := authz.Attributes{
		User: &authn.Identity{Name: "ann", Groups: []string{"dev"}},
		Verb: "list", Resource: "pods", Namespace: "shop", ResourceRequest: true,
	}
	d, _ := z.Authorize(context.Background(), ask)
	fmt.Println(d.Why(ask))

	ask.Resource = "secrets"
	why, _ := z.Explain(context.Background(), ask)
	fmt.Println(why)

	who, _ := z.WhoCan(context.Background(), ask)
	for _, subject := range who[:2] {
		fmt.Println(subject.Kind, subject.Name)
	}
	// Output:
	// RBAC: allowed by RoleBinding "developers/shop" of ClusterRole "view" to Group "dev"
	// not allowed
	//   RoleBinding "developers/shop" of ClusterRole "view" by Group "dev": no rule allows it
	// Group system:masters
	// ServiceAccount generic-garbage-collector
}
