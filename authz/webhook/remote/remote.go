// Package remote sends reviews of package webhook to a server that decides, as kube-apiserver does by its
// --authorization-webhook-config-file: it posts SubjectAccessReviews in JSON to the URL in a kubeconfig file, with retries. A Reviewer
// is safe for concurrent use.
package remote

import (
	"context"
	"fmt"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	authorizationv1beta1 "k8s.io/api/authorization/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/authz/webhook"
	"github.com/keelson-dev/keelson/internal/jsonpost"
)

// Reviewer is a server that decides. Make one with New.
type Reviewer struct {
	client *jsonpost.Client
	kind   metav1.TypeMeta
	old    bool // v1beta1
}

var _ webhook.Reviewer = (*Reviewer)(nil)

// New returns the server at config.Host, a URL. It speaks a version of authorization.k8s.io: v1 or v1beta1. Each attempt takes at most
// config.Timeout; Longest is how long all of them take.
func New(config *rest.Config, version string) (*Reviewer, error) {
	if version != "v1" && version != "v1beta1" {
		return nil, fmt.Errorf("unsupported authorization webhook version %q, supported versions are %q, %q", version, "v1", "v1beta1")
	}
	client, err := jsonpost.New(config, jsonpost.Options{})
	if err != nil {
		return nil, err
	}
	return &Reviewer{client, metav1.TypeMeta{APIVersion: "authorization.k8s.io/" + version, Kind: "SubjectAccessReview"}, version == "v1beta1"}, nil
}

// Longest is how long a review takes at most, with all attempts, if each attempt takes at most timeout: for webhook.Options.Timeout.
func Longest(timeout time.Duration) time.Duration { return jsonpost.Longest(timeout) }

// Review implements webhook.Reviewer.
func (r *Reviewer) Review(ctx context.Context, review *authorizationv1.SubjectAccessReview) (*authorizationv1.SubjectAccessReview, error) {
	var asked any = &authorizationv1.SubjectAccessReview{TypeMeta: r.kind, Spec: review.Spec}
	if r.old {
		asked = &authorizationv1beta1.SubjectAccessReview{TypeMeta: r.kind, Spec: beta(review.Spec)}
	}
	answer := &authorizationv1.SubjectAccessReview{}
	if err := r.client.Post(ctx, r.kind, asked, &struct {
		Status *authorizationv1.SubjectAccessReviewStatus `json:"status"` // the same in both versions
	}{&answer.Status}); err != nil {
		return nil, err
	}
	return answer, nil
}

// beta converts a spec, whose groups have another name in the old version.
func beta(in authorizationv1.SubjectAccessReviewSpec) authorizationv1beta1.SubjectAccessReviewSpec {
	out := authorizationv1beta1.SubjectAccessReviewSpec{User: in.User, Groups: in.Groups, UID: in.UID}
	for name, values := range in.Extra {
		if out.Extra == nil {
			out.Extra = map[string]authorizationv1beta1.ExtraValue{}
		}
		out.Extra[name] = authorizationv1beta1.ExtraValue(values)
	}
	if r := in.ResourceAttributes; r != nil {
		out.ResourceAttributes = &authorizationv1beta1.ResourceAttributes{
			Namespace: r.Namespace, Verb: r.Verb, Group: r.Group, Version: r.Version, Resource: r.Resource, Subresource: r.Subresource, Name: r.Name,
			FieldSelector: r.FieldSelector, LabelSelector: r.LabelSelector,
		}
	}
	if n := in.NonResourceAttributes; n != nil {
		out.NonResourceAttributes = &authorizationv1beta1.NonResourceAttributes{Path: n.Path, Verb: n.Verb}
	}
	return out
}
