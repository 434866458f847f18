package post

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	// DefaultMaxAnswer is the default of the maximum size of an answer in bytes. A patch of the largest object that can
	// be stored is well below it.
	DefaultMaxAnswer = 8 << 20
	// maxText is the maximum number of bytes of an error page that users are shown.
	maxText = 2 << 10
	// maxRetries is how often a webhook may ask to be called later.
	maxRetries = 10
	// noDeadline is the timeout of calls whose context has none.
	noDeadline = 30 * time.Second
	media      = "application/json"
)

// Review posts a review, in JSON, and returns the body of the answer, of maxAnswer bytes at most. The transport sees the
// context, which ends when the call must.
func Review(ctx context.Context, transport http.RoundTripper, to *url.URL, review []byte, maxAnswer int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, noDeadline)
	defer cancel()
	for retry := 0; ; retry++ {
		r, err := request(ctx, *to, review)
		if err != nil {
			return nil, err
		}
		// Without a http.Client, redirects are answers like others: a webhook has no say in what else the server calls.
		answer, err := transport.RoundTrip(r)
		if err != nil {
			return nil, &url.Error{Op: "Post", URL: r.URL.String(), Err: err}
		}
		body, err := read(answer, maxAnswer)
		if err != nil {
			return nil, err
		}
		after, again := retryAfter(answer)
		if !again || retry == maxRetries {
			return result(answer, body)
		}
		if err := sleep(ctx, after); err != nil {
			return nil, err
		}
	}
}

func request(ctx context.Context, to url.URL, review []byte) (*http.Request, error) {
	deadline, _ := ctx.Deadline()
	left := time.Until(deadline)
	if whole := left.Truncate(time.Second); whole != left {
		left = whole + time.Second
	}
	to.RawQuery = url.Values{"timeout": {left.String()}}.Encode()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), bytes.NewReader(review))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", media+", */*")
	r.Header.Set("Content-Type", media)
	r.Header.Set("User-Agent", "kube-apiserver-admission")
	return r, nil
}

func read(answer *http.Response, most int64) ([]byte, error) {
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, most+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("unexpected error when reading response body. Please retry. Original error: %w", err)
	case int64(len(body)) > most:
		return nil, fmt.Errorf("the response is larger than %d bytes", most)
	}
	return body, nil
}

// retryAfter tells whether, and when, a webhook wants to be called again.
func retryAfter(answer *http.Response) (time.Duration, bool) {
	if answer.StatusCode != http.StatusTooManyRequests && answer.StatusCode/100 != 5 {
		return 0, false
	}
	seconds, err := strconv.Atoi(answer.Header.Get("Retry-After"))
	return time.Duration(seconds) * time.Second, err == nil
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// result is an answer's body, or the error that it is.
func result(answer *http.Response, body []byte) ([]byte, error) {
	kind := answer.Header.Get("Content-Type")
	if kind == "" {
		kind = media
	}
	if _, _, err := mime.ParseMediaType(kind); err != nil {
		return nil, fmt.Errorf("Internal error occurred: %w", err) //nolint:staticcheck // upstream's words
	}
	if answer.StatusCode < http.StatusOK || answer.StatusCode > http.StatusPartialContent {
		return nil, failure(answer, body)
	}
	if len(body) == 0 {
		return nil, fmt.Errorf("0-length response with status code: %d and content type: %s", answer.StatusCode, kind)
	}
	return body, nil
}

// failure is the error that an answer other than a success is: the Status in it, or what its code means.
func failure(answer *http.Response, body []byte) error {
	var s metav1.Status
	if json.Unmarshal(body, &s) == nil && s.Kind == "Status" && s.APIVersion == "v1" && s.Status == metav1.StatusFailure {
		return errors.New(s.Message)
	}
	text := "unknown"
	if kind := answer.Header.Get("Content-Type"); kind == "" || strings.HasPrefix(kind, "text/") {
		text = strings.TrimSpace(string(body[:min(len(body), maxText)]))
	}
	// The text only: the Status is between server and webhook.
	return errors.New(apierrors.NewGenericServerResponse(answer.StatusCode, http.MethodPost, schema.GroupResource{}, "", text, 0, true).Error())
}
