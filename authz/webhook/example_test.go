package webhook_test

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/authz/webhook"
)

// A kubelet asks through its client; here a function answers.
func Example() {
	z := webhook.New(webhook.ReviewerFunc(func(_ context.Context, r *authorizationv1.SubjectAccessReview) (*authorizationv1.SubjectAccessReview, error) {
		r.Status.Allowed = r.Spec.User == "jane"
		return r, nil
	}), webhook.Options{})
	for _, name := range []string{"jane", "joe"} {
		decision, err := z.Authorize(context.Background(), authz.Attributes{
			User: &authn.Identity{Name: name}, Verb: "get", Version: "v1", Resource: "nodes", Subresource: "stats", Name: "node", ResourceRequest: true,
		})
		fmt.Println(name, decision.Verdict == authz.Allow, err)
	}
	// Output:
	// jane true <nil>
	// joe false <nil>
}
