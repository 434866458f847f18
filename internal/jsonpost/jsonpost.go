// Package jsonpost posts JSON documents to a webhook's URL, as upstream's webhooks for authentication, authorization and images do.
//
// What may pass is tried again up to four times, with growing pauses: statuses 429, 500 and 504, any answer with a Retry-After header,
// and connections that break. Answers are bounded in size.
package jsonpost

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

const (
	// DefaultDelay is the default of Options.Delay.
	DefaultDelay = 500 * time.Millisecond
	// growth is by how much each pause is longer than the one before, and attempts is how often a document is posted.
	growth   = 1.5
	attempts = 5
	// maxAnswer is the maximum size of an answer in bytes, and maxQuoted is how much of it an error quotes.
	maxAnswer = 1 << 20
	maxQuoted = 256
)

// Longest is how long a post takes at most if each attempt takes at most timeout and Options.Delay is the default.
func Longest(timeout time.Duration) time.Duration {
	longest, pause := timeout, DefaultDelay
	for range attempts - 1 {
		longest += pause + timeout
		pause = time.Duration(growth * float64(pause))
	}
	return longest
}

// StatusError says that the webhook answers with a status other than 2xx.
type StatusError struct {
	Code int
	text string
}

func (e *StatusError) Error() string { return e.text }

// Options of New. The zero value is valid.
type Options struct {
	// Delay is the pause before a document is posted again for the first time; 0 means DefaultDelay.
	Delay time.Duration
	// Answer is what errors call the answer; empty means "the webhook's answer".
	Answer string
}

// Client posts to one URL. Make one with New. It is safe for concurrent use.
type Client struct {
	client  *http.Client
	url     string
	options Options
}

// New returns a client of config.Host: a URL, or a host, which is asked at its root.
func New(config *rest.Config, o Options) (*Client, error) {
	at, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, err
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	o.Delay, o.Answer = cmp.Or(o.Delay, DefaultDelay), cmp.Or(o.Answer, "the webhook's answer")
	return &Client{client, at.String(), o}, nil
}

// Post posts a document and decodes the answer, which must be of a kind unless that is empty. If the webhook refuses, the error is a
// *StatusError.
func (c *Client) Post(ctx context.Context, kind metav1.TypeMeta, document, answer any) error {
	body, err := json.Marshal(document)
	if err != nil {
		return err
	}
	pause := c.options.Delay
	for attempt := 1; ; attempt++ {
		again, err := c.post(ctx, body, kind, answer)
		if !again || attempt == attempts {
			return err
		}
		t := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			t.Stop()
			return err
		case <-t.C:
		}
		pause = time.Duration(growth * float64(pause))
	}
}

// post posts once. If that fails, again reports whether it may work later.
func (c *Client) post(ctx context.Context, body []byte, kind metav1.TypeMeta, answer any) (again bool, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json")
	response, err := c.client.Do(r)
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
		return temporary || response.Header.Get("Retry-After") != "", &StatusError{code, fmt.Sprintf("the webhook answers %s: %q", response.Status, data[:min(len(data), maxQuoted)])}
	case len(data) > maxAnswer:
		return false, fmt.Errorf("%s is larger than %d bytes", c.options.Answer, maxAnswer)
	}
	var is metav1.TypeMeta
	if err := json.Unmarshal(data, &is); err != nil {
		return false, fmt.Errorf("%s: %w", c.options.Answer, err)
	}
	if is != kind && kind != (metav1.TypeMeta{}) {
		return false, fmt.Errorf("%s is %s %s, not %s %s", c.options.Answer, is.APIVersion, is.Kind, kind.APIVersion, kind.Kind)
	}
	if err := json.Unmarshal(data, answer); err != nil {
		return false, fmt.Errorf("%s: %w", c.options.Answer, err)
	}
	return false, nil
}
