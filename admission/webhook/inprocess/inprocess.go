package inprocess

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/admission/webhook"
	"github.com/keelson-dev/keelson/admission/webhook/internal/post"
)

// Handlers finds the handler of a webhook; nil means that it is not in this process.
type Handlers func(to *registrationv1.WebhookClientConfig) http.Handler

// Services finds handlers by the names of services.
func Services(handlers map[types.NamespacedName]http.Handler) Handlers {
	return func(to *registrationv1.WebhookClientConfig) http.Handler {
		if to.Service == nil {
			return nil
		}
		return handlers[types.NamespacedName{Namespace: to.Service.Namespace, Name: to.Service.Name}]
	}
}

// Options are the options of a Caller. The zero value is valid.
type Options struct {
	// Else calls webhooks that have no handler; without it, they cannot be called.
	Else webhook.Caller
	// MaxAnswer is the maximum size of an answer in bytes; 0 means 8 MiB.
	MaxAnswer int64
}

// Caller calls handlers. Make one with New.
type Caller struct {
	handlers Handlers
	options  Options
}

var _ webhook.Direct = (*Caller)(nil)

// New returns a Caller.
func New(handlers Handlers, o Options) *Caller {
	if o.MaxAnswer == 0 {
		o.MaxAnswer = post.DefaultMaxAnswer
	}
	return &Caller{handlers, o}
}

// Call implements webhook.Caller.
func (c *Caller) Call(ctx context.Context, to *registrationv1.WebhookClientConfig, review []byte) ([]byte, error) {
	handler := c.handlers(to)
	switch {
	case handler != nil:
	case c.options.Else != nil:
		return c.options.Else.Call(ctx, to, review)
	default:
		return nil, fmt.Errorf("%w: no handler in this process", webhook.ErrClient)
	}
	at, err := post.Target(to)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", webhook.ErrClient, err)
	}
	return post.Review(ctx, &transport{handler, c.options.MaxAnswer}, at, review, c.options.MaxAnswer)
}

// Reviewer implements webhook.Direct: a handler that is a webhook.Reviewer, as those of package handler, gets no JSON.
func (c *Caller) Reviewer(to *registrationv1.WebhookClientConfig) webhook.Reviewer {
	reviewer, _ := c.handlers(to).(webhook.Reviewer)
	return reviewer
}

// transport calls a handler.
type transport struct {
	handler http.Handler
	most    int64
}

func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	done := make(chan error, 1)
	a := &answer{header: http.Header{}, left: t.most + 1}
	in := r.WithContext(r.Context()) // a copy; its header is nobody else's
	in.Host, in.RequestURI, in.RemoteAddr = r.URL.Host, r.URL.RequestURI(), "in process"
	go func() { // whoever wrote the handler decides how long this takes
		defer func() {
			if reason := recover(); reason != nil {
				done <- fmt.Errorf("the webhook panicked: %v", reason)
			}
		}()
		t.handler.ServeHTTP(a, in)
		done <- nil
	}()
	select {
	case <-r.Context().Done():
		return nil, r.Context().Err()
	case err := <-done:
		if err != nil {
			return nil, err
		}
	}
	a.WriteHeader(http.StatusOK)
	return &http.Response{
		Status: http.StatusText(a.code), StatusCode: a.code, Request: r,
		Header: a.sent, Body: io.NopCloser(&a.body), ContentLength: int64(a.body.Len()),
	}, nil
}

// answer is what a handler writes; more than it may is dropped.
type answer struct {
	header, sent http.Header
	code         int
	body         bytes.Buffer
	left         int64
}

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(code int) {
	if a.code == 0 {
		a.code, a.sent = code, a.header.Clone()
	}
}

func (a *answer) Write(data []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	if int64(len(data)) > a.left {
		n, _ := a.body.Write(data[:a.left])
		a.left = 0
		return n, io.ErrShortWrite
	}
	a.left -= int64(len(data))
	return a.body.Write(data)
}
