package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"syscall"
	"time"

	"k8s.io/api/imagepolicy/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/admission/imagepolicywebhook"
)

const (
	// DefaultRetryDelay is the default of Options.RetryDelay.
	DefaultRetryDelay = 500 * time.Millisecond
	// attempts is how often a review is posted, and growth by how much each pause is longer than the one before.
	attempts = 5
	growth   = 1.5
	// maxAnswer is the maximum size of an answer in bytes.
	maxAnswer = 1 << 20
)

// Options are the options of a Backend. The zero value is valid.
type Options struct {
	// RetryDelay is the first pause before a review is posted again; 0 means DefaultRetryDelay.
	RetryDelay time.Duration
}

// Backend is a backend that is reached over HTTPS. Make one with New.
type Backend struct {
	client  *http.Client
	url     string
	options Options
}

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
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	if o.RetryDelay == 0 {
		o.RetryDelay = DefaultRetryDelay
	}
	return &Backend{client, config.Host, o}, nil
}

// Review implements imagepolicywebhook.Reviewer.
func (b *Backend) Review(ctx context.Context, review *v1alpha1.ImageReview) (v1alpha1.ImageReviewStatus, error) {
	var answer v1alpha1.ImageReview
	asked := *review
	asked.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "ImageReview"}
	body, err := json.Marshal(&asked)
	if err != nil {
		return answer.Status, err
	}
	pause := b.options.RetryDelay
	for attempt := 1; ; attempt++ {
		again, err := b.post(ctx, body, &answer)
		if err == nil || !again || attempt == attempts {
			return answer.Status, err
		}
		t := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			t.Stop()
			return answer.Status, err
		case <-t.C:
		}
		pause = time.Duration(growth * float64(pause))
	}
}

// post posts a review once. If that fails, again reports whether it may work later.
func (b *Backend) post(ctx context.Context, body []byte, into *v1alpha1.ImageReview) (again bool, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, b.url, bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json")
	response, err := b.client.Do(r)
	if err != nil {
		return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF), err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch code := response.StatusCode; {
	case err != nil:
		return true, err
	case code/100 != 2:
		temporary := code == http.StatusTooManyRequests || code == http.StatusInternalServerError || code == http.StatusGatewayTimeout
		return temporary || response.Header.Get("Retry-After") != "", fmt.Errorf("Error contacting webhook: %d", code) //nolint:staticcheck // upstream's words
	case len(data) > maxAnswer:
		return false, fmt.Errorf("the answer of the image policy backend is larger than %d bytes", maxAnswer)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return false, fmt.Errorf("the answer of the image policy backend: %w", err)
	}
	if is := into.GroupVersionKind(); is != v1alpha1.SchemeGroupVersion.WithKind("ImageReview") {
		return false, fmt.Errorf("the answer of the image policy backend is %v, not an ImageReview", is)
	}
	return false, nil
}
