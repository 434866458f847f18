// Package remote sends reviews of package webhook to a server that verifies tokens, as kube-apiserver does by its
// --authentication-token-webhook-config-file: it posts TokenReviews in JSON to the URL in a kubeconfig file, with retries. A Reviewer is
// safe for concurrent use.
package remote

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/authn/webhook"
	"github.com/keelson-dev/keelson/internal/jsonpost"
)

// Reviewer is a server that verifies tokens. Make one with New.
type Reviewer struct {
	client *jsonpost.Client
	kind   metav1.TypeMeta
}

var _ webhook.Reviewer = (*Reviewer)(nil)

// New returns the server at config.Host, a URL. It speaks a version of authentication.k8s.io: v1 or v1beta1, which differ in name only.
func New(config *rest.Config, version string) (*Reviewer, error) {
	if version != "v1" && version != "v1beta1" {
		return nil, fmt.Errorf("unsupported authentication webhook version %q, supported versions are %q, %q", version, "v1", "v1beta1")
	}
	client, err := jsonpost.New(config, jsonpost.Options{})
	if err != nil {
		return nil, err
	}
	return &Reviewer{client, metav1.TypeMeta{APIVersion: "authentication.k8s.io/" + version, Kind: "TokenReview"}}, nil
}

// Review implements webhook.Reviewer.
func (r *Reviewer) Review(ctx context.Context, review *authenticationv1.TokenReview) (*authenticationv1.TokenReview, error) {
	asked, answer := *review, &authenticationv1.TokenReview{}
	asked.TypeMeta = r.kind
	if err := r.client.Post(ctx, r.kind, &asked, answer); err != nil {
		return nil, err
	}
	return answer, nil
}

// Longest is how long a review takes at most, with all attempts, if each attempt takes at most timeout: for webhook.Options.Timeout.
func Longest(timeout time.Duration) time.Duration { return jsonpost.Longest(timeout) }
