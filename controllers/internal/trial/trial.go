// Package trial has what tests of several controllers share: a queue that records keys, a client that fails one
// request, one whose answers the test gives, a log that counts failures, one that can be read while it is written, and a
// source of stored objects that validation would refuse today.
//
// All types are safe for concurrent use.
package trial

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/informer"
)

// ErrDown is the error of the failing request.
var ErrDown = errors.New("down")

// Queue records the keys added to it. The zero value is ready to use.
type Queue struct {
	mu   sync.Mutex
	keys []string
}

var _ controllers.Queue = (*Queue)(nil)

// Add implements controllers.Queue.
func (q *Queue) Add(k controllers.Key) { q.note(k.String()) }

// AddAfter implements controllers.Queue.
func (q *Queue) AddAfter(k controllers.Key, d time.Duration) { q.note(fmt.Sprintf("%s+%v", k, d)) }

func (q *Queue) note(key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.keys = append(q.keys, key)
}

// Take returns the keys since the last Take, sorted and without duplicates; delayed keys have "+" and the delay.
func (q *Queue) Take() string {
	q.mu.Lock()
	defer q.mu.Unlock()
	slices.Sort(q.keys)
	out := strings.Join(slices.Compact(q.keys), " ")
	q.keys = nil
	return out
}

// Stored is a source whose lists have more Objects: some that were stored under older rules, and that the server would
// refuse today. They do not change.
type Stored[T informer.Object] struct {
	informer.Source[T]
	Objects []T
}

// List implements informer.Source.
func (s Stored[T]) List(ctx context.Context) ([]T, string, error) {
	all, version, err := s.Source.List(ctx)
	all = append(all, s.Objects...)
	slices.SortFunc(all, func(a, b T) int {
		return cmp.Or(strings.Compare(a.GetNamespace(), b.GetNamespace()), strings.Compare(a.GetName(), b.GetName()))
	})
	return all, version, err
}

// Client is a client whose request number Fail (from 1) fails with ErrDown and is not carried out.
type Client struct {
	client.Client
	Fail int

	mu     sync.Mutex
	count  int
	failed string
}

// Count returns the number of requests.
func (c *Client) Count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count
}

// Failed returns the failed request, or "".
func (c *Client) Failed() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed
}

func (c *Client) next(verb string, t client.Target) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count++
	if c.count != c.Fail {
		return nil
	}
	c.failed = fmt.Sprintf("%s %s/%s %s/%s", verb, t.Resource.Resource, t.Subresource, t.Namespace, t.Name)
	return ErrDown
}

// Get implements client.Getter.
func (c *Client) Get(ctx context.Context, t client.Target) (runtime.Object, error) {
	if err := c.next("get", t); err != nil {
		return nil, err
	}
	return c.Client.Get(ctx, t)
}

// List implements client.Lister.
func (c *Client) List(ctx context.Context, t client.Target, o metav1.ListOptions) (runtime.Object, error) {
	if err := c.next("list", t); err != nil {
		return nil, err
	}
	return c.Client.List(ctx, t, o)
}

// Create implements client.Creator.
func (c *Client) Create(ctx context.Context, t client.Target, obj runtime.Object, o metav1.CreateOptions) (runtime.Object, error) {
	if err := c.next("create", t); err != nil {
		return nil, err
	}
	return c.Client.Create(ctx, t, obj, o)
}

// Update implements client.Updater.
func (c *Client) Update(ctx context.Context, t client.Target, obj runtime.Object, o metav1.UpdateOptions) (runtime.Object, error) {
	if err := c.next("update", t); err != nil {
		return nil, err
	}
	return c.Client.Update(ctx, t, obj, o)
}

// Patch implements client.Patcher.
func (c *Client) Patch(ctx context.Context, t client.Target, p client.Patch, o metav1.PatchOptions) (runtime.Object, error) {
	if err := c.next("patch", t); err != nil {
		return nil, err
	}
	return c.Client.Patch(ctx, t, p, o)
}

// Delete implements client.Deleter.
func (c *Client) Delete(ctx context.Context, t client.Target, o metav1.DeleteOptions) error {
	if err := c.next("delete", t); err != nil {
		return err
	}
	return c.Client.Delete(ctx, t, o)
}

// Log counts the failed reconciliations that a Loop logs.
type Log struct {
	slog.Handler
	mu sync.Mutex
	n  int
}

// NewLog returns a Log.
func NewLog() *Log { return &Log{Handler: slog.DiscardHandler} }

// Enabled implements slog.Handler.
func (l *Log) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

// WithAttrs implements slog.Handler.
func (l *Log) WithAttrs([]slog.Attr) slog.Handler { return l }

// Handle implements slog.Handler.
func (l *Log) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.Attrs(func(a slog.Attr) bool {
		if err, ok := a.Value.Any().(error); ok && errors.Is(err, ErrDown) {
			l.n++
		}
		return true
	})
	return nil
}

// Count returns the number of failures with ErrDown.
func (l *Log) Count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n
}

// Text collects what a logger writes. The zero value is ready to use.
type Text struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements io.Writer.
func (x *Text) Write(p []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.text.Write(p)
}

// String returns what was written since the last Reset.
func (x *Text) String() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.text.String()
}

// Reset drops what was written.
func (x *Text) Reset() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.text.Reset()
}

// T is the part of *testing.T that is needed here.
type T interface {
	Helper()
	Errorf(format string, args ...any)
}

// EveryFailure runs a scenario undisturbed, then once for each of its requests with that one failing. Every run must
// end in the same state, which EveryFailure returns. The failure must be an error of one reconciliation, logged by a
// loop with the Log's logger, unless swallowed, if given, says that the controller ignores it.
func EveryFailure(t T, swallowed func(request string) bool, scenario func(*Client, *slog.Logger) string) {
	t.Helper()
	faultless := &Client{}
	want := scenario(faultless, slog.New(slog.DiscardHandler))
	for n := 1; n <= faultless.Count(); n++ {
		c, log := &Client{Fail: n}, NewLog()
		got := scenario(c, slog.New(log))
		if got != want {
			t.Errorf("after the failure of request %d (%s):\n got %s\nwant %s", n, c.Failed(), got, want)
		}
		if c.Failed() != "" && log.Count() != 1 && (swallowed == nil || !swallowed(c.Failed())) {
			t.Errorf("the failure of request %d (%s) was reported %d times", n, c.Failed(), log.Count())
		}
	}
}
