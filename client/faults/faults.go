package faults

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/client"
)

// ErrLost is what becomes of a request whose answer is lost, unless its Fault names another error.
var ErrLost = errors.New("the answer was lost")

// Fault befalls the requests that it matches: all of them by default, then only those that the fields select.
type Fault struct {
	// Verb, Namespace and Name are those of the request; empty is any.
	Verb, Namespace, Name string
	// Resource is as in an RBAC rule: "pods", or "pods/status" for a subresource; empty is any of either.
	Resource string

	// Skip is how many matching requests pass before the first that is hit, Times how many are hit then: 0 is one,
	// below 0 all.
	Skip, Times int

	// Delay is how long the request waits first. A context that ends meanwhile ends it.
	Delay time.Duration
	// Err, if set, is the answer. The request is not carried out, unless it is Lost.
	Err error
	// Lost carries the request out and keeps its answer from the client.
	Lost bool
}

func (f *Fault) matches(r Request) bool {
	return (f.Verb == "" || f.Verb == r.Verb) && (f.Resource == "" || f.Resource == r.resource()) &&
		(f.Namespace == "" || f.Namespace == r.Target.Namespace) && (f.Name == "" || f.Name == r.name())
}

// Options of a Client; the zero value works.
type Options struct {
	// Before, when set, sees every request before it is carried out; an error it returns is the answer. It may call
	// the server, which then is another actor getting in first.
	Before func(Request) error
}

// Client is a client.Client with faults. Make one with New.
type Client struct {
	inner  client.Client
	before func(Request) error

	mu       sync.Mutex
	faults   []*Fault
	requests []Request
}

var _ client.Client = (*Client)(nil)

// New returns a client that hands to inner what does not go wrong.
func New(inner client.Client, o Options) *Client { return &Client{inner: inner, before: o.Before} }

// Inject adds a fault. Of several that match a request the first to be injected befalls it, until it is used up.
func (c *Client) Inject(f Fault) {
	if f.Times == 0 {
		f.Times = 1
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = append(c.faults, &f)
}

// Heal takes all faults away.
func (c *Client) Heal() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = nil
}

// Requests returns the requests so far, including those that failed, in order.
func (c *Client) Requests() []Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.requests)
}

// Writes returns those of the requests that were to change something.
func (c *Client) Writes() []Request {
	return slices.DeleteFunc(c.Requests(), func(r Request) bool { return !r.Writes() })
}

// Reset forgets the requests so far.
func (c *Client) Reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests = nil
}

// next records a request and finds what befalls it.
func (c *Client) next(r Request) Fault {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests = append(c.requests, r)
	for _, f := range c.faults {
		switch {
		case f.Times == 0 || !f.matches(r):
		case f.Skip > 0:
			f.Skip--
		default:
			if f.Times > 0 {
				f.Times--
			}
			return *f
		}
	}
	return Fault{}
}

// begin lets befall a request what comes before it is carried out. lost, if not nil, is to be the answer then.
func (c *Client) begin(ctx context.Context, r Request) (lost, err error) {
	f := c.next(r)
	if c.before != nil {
		if err := c.before(r); err != nil {
			return nil, err
		}
	}
	if f.Delay > 0 {
		wait := time.NewTimer(f.Delay)
		defer wait.Stop()
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-wait.C:
		}
	}
	switch {
	case f.Lost && f.Err == nil:
		return ErrLost, nil
	case f.Lost:
		return f.Err, nil
	}
	return nil, f.Err
}

// through makes a request as far as nothing goes wrong.
func (c *Client) through(ctx context.Context, r Request, do func() (runtime.Object, error)) (runtime.Object, error) {
	lost, err := c.begin(ctx, r)
	if err != nil {
		return nil, err
	}
	obj, err := do()
	if lost != nil {
		return nil, lost
	}
	return obj, err
}

// Get implements client.Getter.
func (c *Client) Get(ctx context.Context, t client.Target) (runtime.Object, error) {
	return c.through(ctx, Request{Verb: Get, Target: t}, func() (runtime.Object, error) { return c.inner.Get(ctx, t) })
}

// List implements client.Lister.
func (c *Client) List(ctx context.Context, t client.Target, o metav1.ListOptions) (runtime.Object, error) {
	return c.through(ctx, Request{Verb: List, Target: t}, func() (runtime.Object, error) { return c.inner.List(ctx, t, o) })
}

// Create implements client.Creator.
func (c *Client) Create(ctx context.Context, t client.Target, obj runtime.Object, o metav1.CreateOptions) (runtime.Object, error) {
	return c.through(ctx, Request{Verb: Create, Target: t, Object: obj}, func() (runtime.Object, error) { return c.inner.Create(ctx, t, obj, o) })
}

// Update implements client.Updater.
func (c *Client) Update(ctx context.Context, t client.Target, obj runtime.Object, o metav1.UpdateOptions) (runtime.Object, error) {
	return c.through(ctx, Request{Verb: Update, Target: t, Object: obj}, func() (runtime.Object, error) { return c.inner.Update(ctx, t, obj, o) })
}

// Patch implements client.Patcher.
func (c *Client) Patch(ctx context.Context, t client.Target, p client.Patch, o metav1.PatchOptions) (runtime.Object, error) {
	return c.through(ctx, Request{Verb: Patch, Target: t, Patch: p.Data}, func() (runtime.Object, error) { return c.inner.Patch(ctx, t, p, o) })
}

// Delete implements client.Deleter.
func (c *Client) Delete(ctx context.Context, t client.Target, o metav1.DeleteOptions) error {
	_, err := c.through(ctx, Request{Verb: Delete, Target: t}, func() (runtime.Object, error) { return nil, c.inner.Delete(ctx, t, o) })
	return err
}
