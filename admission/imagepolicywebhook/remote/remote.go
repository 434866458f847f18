package remote

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/api/imagepolicy/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/admission/imagepolicywebhook"
	"github.com/keelson-dev/keelson/internal/jsonpost"
)

// DefaultRetryDelay is the default of Options.RetryDelay.
const DefaultRetryDelay = jsonpost.DefaultDelay

// answer is what errors call what the backend answers.
const answer = "the answer of the image policy backend"

// Options are the options of a Backend. The zero value is valid.
type Options struct {
	// RetryDelay is the first pause before a review is posted again; 0 means DefaultRetryDelay.
	RetryDelay time.Duration
}

// Backend is a backend that is reached over HTTPS. Make one with New.
type Backend struct{ client *jsonpost.Client }

var _ imagepolicywebhook.Reviewer = (*Backend)(nil)

// New returns the backend at config.Host, a URL, which must be one of HTTPS.
func New(config *rest.Config, o Options) (*Backend, error) {
	at, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, err
	}
	if at.Scheme != "https" {
		return nil, fmt.Errorf("the image policy backend %q must be a URL of HTTPS", config.Host)
	}
	client, err := jsonpost.New(config, jsonpost.Options{Delay: o.RetryDelay, Answer: answer})
	if err != nil {
		return nil, err
	}
	return &Backend{client}, nil
}

// Review implements imagepolicywebhook.Reviewer.
func (b *Backend) Review(ctx context.Context, review *v1alpha1.ImageReview) (v1alpha1.ImageReviewStatus, error) {
	var reviewed v1alpha1.ImageReview
	asked := *review
	asked.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "ImageReview"}
	err := b.client.Post(ctx, metav1.TypeMeta{}, &asked, &reviewed)
	if refused := (*jsonpost.StatusError)(nil); errors.As(err, &refused) {
		return reviewed.Status, fmt.Errorf("Error contacting webhook: %d", refused.Code) //nolint:staticcheck // upstream's words
	}
	if err != nil {
		return reviewed.Status, err
	}
	if is := reviewed.GroupVersionKind(); is != v1alpha1.SchemeGroupVersion.WithKind("ImageReview") {
		return reviewed.Status, fmt.Errorf("%s is %v, not an ImageReview", answer, is)
	}
	return reviewed.Status, nil
}
