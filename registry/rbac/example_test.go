package rbac_test

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/authn"
	authzrbac "github.com/keelson-dev/keelson/authz/rbac"
	"github.com/keelson-dev/keelson/authz/rbac/bootstrap"
	"github.com/keelson-dev/keelson/registry/rbac"
)

// A server's kinds are guarded by the current rules; here, those of the default policy.
func ExampleKinds() {
	rules := authzrbac.New(bootstrap.Policy().Sources())
	for _, kind := range rbac.Kinds(authzrbac.NewEscalation(rules, rules)) {
		fmt.Println(kind.Plural, kind.Namespaced)
		if kind.Plural == "clusterrolebindings" {
			ctx := authn.NewContext(context.Background(), &authn.Identity{Name: "mallory"})
			err := kind.Rules.Guard(ctx, &rbacv1.ClusterRoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: "mine"},
				RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:kube-dns"},
			}, nil)
			fmt.Println(err)
		}
	}
	// Output:
	// clusterrolebindings false
	// clusterrolebindings.rbac.authorization.k8s.io "mine": forbidden: user "mallory" (groups=[]) is attempting to grant RBAC permissions not currently held:
	// {APIGroups:[""], Resources:["endpoints"], Verbs:["list" "watch"]}
	// {APIGroups:[""], Resources:["services"], Verbs:["list" "watch"]}
	// clusterroles false
	// rolebindings true
	// roles true
}
