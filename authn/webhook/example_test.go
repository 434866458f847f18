package webhook_test

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/keelson-dev/keelson/authn/webhook"
)

// A kubelet asks through its client; here a function answers.
func Example() {
	v := webhook.New(webhook.ReviewerFunc(func(_ context.Context, r *authenticationv1.TokenReview) (*authenticationv1.TokenReview, error) {
		r.Status = authenticationv1.TokenReviewStatus{Authenticated: r.Spec.Token == "secret", User: authenticationv1.UserInfo{Username: "jane"}}
		return r, nil
	}), webhook.Options{})
	id, err := v.Verify(context.Background(), "secret")
	fmt.Println(id.Name, err)
	_, err = v.Verify(context.Background(), "guess")
	fmt.Println(err)
	// Output:
	// jane <nil>
	// no credentials
}
