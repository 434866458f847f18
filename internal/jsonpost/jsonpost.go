// Package jsonpost posts JSON documents to a webhook's URL, as upstream's webhooks for authentication and authorization do.
//
// What may pass is tried again up to four times, with growing pauses: statuses 429, 500 and 504, any answer with a Retry-After header,
// and connections that break. Answers are bounded in size.
package jsonpost

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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

const (
	// delay is the pause before a document is posted again, growth by how much each pause is longer than the one before, and
	// attempts is how often it is posted.
	delay    = 500 * time.Millisecond
	growth   = 1.5
	attempts = 5
	// maxAnswer is the maximum size of an answer in bytes, and maxQuoted is how much of it an error quotes.
	maxAnswer = 1 << 20
	maxQuoted = 256
)

// Longest is how long a review takes at most if each attempt takes at most timeout.
func Longest(timeout time.Duration) time.Duration {
	longest, pause := timeout, delay
	for range attempts - 1 {
		longest += pause + timeout
		pause = time.Duration(growth * float64(pause))
	}
	return longest
}

// Client posts to one URL. Make one with New. It is safe for concurrent use.
type Client struct {
	client *http.Client
	url    string
}

// New returns a client of config.Host, a URL, whose path is taken as it is.
func New(config *rest.Config) (*Client, error) {
	at, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, err
	}
	url := config.Host
	if at.Path == "/" || at.Path == "" {
		url = at.String() // which has a scheme, too
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	return &Client{client, url}, nil
}

// Post posts a document and decodes the answer, which must be of a kind.
func (c *Client) Post(ctx context.Context, kind metav1.TypeMeta, document, answer any) error {
	body, err := json.Marshal(document)
	if err != nil {
		return err
	}
	pause := delay
	for attempt := 1; ; attempt++ {
		again, err := c.post(ctx, body, kind, answer)
		if err == nil || !again || attempt == attempts {
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
		return temporary || response.Header.Get("Retry-After") != "", fmt.Errorf("the webhook answers %s: %q", response.Status, data[:min(len(data), maxQuoted)])
	case len(data) > maxAnswer:
		return false, fmt.Errorf("the webhook's answer is larger than %d bytes", maxAnswer)
	}
	var is metav1.TypeMeta
	if err := json.Unmarshal(data, &is); err != nil {
		return false, fmt.Errorf("the webhook's answer: %w", err)
	}
	if is != kind {
		return false, fmt.Errorf("the webhook's answer is %s %s, not %s %s", is.APIVersion, is.Kind, kind.APIVersion, kind.Kind)
	}
	if err := json.Unmarshal(data, answer); err != nil {
		return false, fmt.Errorf("the webhook's answer: %w", err)
	}
	return false, nil
}
