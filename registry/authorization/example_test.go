package authorization_test

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz/rbac"
	"github.com/keelson-dev/keelson/authz/rbac/bootstrap"
	"github.com/keelson-dev/keelson/registry/authorization"
)

// This is what `kubectl auth can-i list endpoints` asks the server.
func ExampleKinds() {
	rules := rbac.New(bootstrap.Policy().Sources())
	ctx := authn.NewContext(context.Background(), &authn.Identity{Name: "system:kube-proxy"})
	for _, kind := range authorization.Kinds(rules, rules) {
		if kind.Plural != "selfsubjectaccessreviews" {
			continue
		}
		answer, err := kind.Answer(ctx, nil, "", &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{
				ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "list", Resource: "endpoints"},
			},
		})
		status := answer.(*authorizationv1.SelfSubjectAccessReview).Status
		fmt.Println(status.Allowed, status.Reason, err)
	}
	// Output: true RBAC: allowed by ClusterRoleBinding "system:node-proxier" of ClusterRole "system:node-proxier" to User "system:kube-proxy" <nil>
}
