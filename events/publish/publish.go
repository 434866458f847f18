package publish

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/events"
)

// Client is what a Publisher needs of an API server.
type Client interface {
	client.Creator
	client.Patcher
}

// Options of a Publisher. The zero value is ready to use, but does not name the sender.
type Options struct {
	// Component is the reporter, such as "deployment-controller" or "kubelet": the source's component and the reporting
	// controller.
	Component string
	// Host is where it runs, such as the node of a kubelet: the source's host and, in core/v1,
	// the reporting instance. In events.k8s.io/v1 the instance is Component-Host.
	Host string
	// Queue is how many events may wait to be written; 0 means 1000.
	Queue int
	// Grace is how long Run keeps writing queued events after its context has ended; 0 means a second, and a negative
	// one drops the queue.
	Grace time.Duration
	// Logger logs events that could not be written; nil discards.
	Logger *slog.Logger
}

// The bounds of retrying, upstream's.
const (
	tries      = 12
	retryDelay = 10 * time.Second
)

// Publisher is an events.Recorder over an API server. Make one with New or NewSeries.
type Publisher struct {
	client  Client
	style   style
	options Options
	log     *slog.Logger
	queue   chan observed
	dropped atomic.Int64
}

var _ events.Recorder = (*Publisher)(nil)

// observed is an event with its time.
type observed struct {
	events.Event
	at time.Time
}

// style decides what to write. It is used by one goroutine.
type style interface {
	// take returns what to write for an event, or nil when nothing needs to be.
	take(o observed) *write
	// tick returns what is due at a time, with what is to be done after it was written.
	tick(now time.Time) []*write
	// every is how often to call tick; 0 is never.
	every() time.Duration
}

// write is one request to the server.
type write struct {
	resource schema.GroupVersionResource
	// event is the whole object; patch, if set, is tried first: the fields to merge into the object of that name.
	event interface {
		runtime.Object
		metav1.Object
	}
	patch any
	// retryExists says that if an event of that name exists by now, it can be patched.
	retryExists bool
}

// New makes a Publisher of core/v1 events. It writes nothing until Run.
func New(c Client, options Options) *Publisher { return newPublisher(c, newCounts(options), options) }

// NewSeries makes a Publisher of events.k8s.io/v1 events. It writes nothing until Run.
func NewSeries(c Client, options Options) *Publisher {
	return newPublisher(c, newSeries(options), options)
}

func newPublisher(c Client, s style, options Options) *Publisher {
	if options.Queue <= 0 {
		options.Queue = 1000
	}
	if options.Grace == 0 {
		options.Grace = time.Second
	}
	log := options.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Publisher{client: c, style: s, options: options, log: log, queue: make(chan observed, options.Queue)}
}

// Record implements events.Recorder. The event's time is now.
func (p *Publisher) Record(e events.Event) {
	if e.Type != corev1.EventTypeNormal && e.Type != corev1.EventTypeWarning {
		p.drop(slog.LevelWarn, "unknown event type", e, fmt.Errorf("type %q", e.Type))
		return
	}
	select {
	case p.queue <- observed{e, time.Now()}:
	default:
		p.drop(slog.LevelWarn, "too many queued events", e, nil)
	}
}

// Dropped returns how many events were given up: refused by the server, too many, or too late. It does not include
// events that were counted into another one, nor rate-limited ones.
func (p *Publisher) Dropped() int64 { return p.dropped.Load() }

func (p *Publisher) drop(level slog.Level, why string, e events.Event, err error) {
	p.dropped.Add(1)
	p.log.Log(context.Background(), level, "event dropped", "why", why, "err", err,
		"kind", e.Regarding.Kind, "namespace", e.Regarding.Namespace, "name", e.Regarding.Name, "reason", e.Reason, "message", e.Message)
}

// Run writes events until the context ends, then tries each queued event once, for at most Options.Grace. It returns
// nil.
func (p *Publisher) Run(ctx context.Context) error {
	var ticks <-chan time.Time
	if d := p.style.every(); d > 0 {
		ticker := time.NewTicker(d)
		defer ticker.Stop()
		ticks = ticker.C
	}
	for {
		select {
		case <-ctx.Done():
			p.flush(ctx)
			return nil
		case now := <-ticks:
			for _, w := range p.style.tick(now) {
				if err := p.attempt(ctx, w, 1); err != nil && ctx.Err() == nil {
					p.log.Warn("count of an event not written", "namespace", w.event.GetNamespace(), "name", w.event.GetName(), "err", err)
				}
			}
		case o := <-p.queue:
			if ctx.Err() != nil {
				p.flush(ctx, o)
				return nil
			}
			p.publish(ctx, o, tries)
		}
	}
}

// flush writes events already taken from the queue and those in it, without retrying.
func (p *Publisher) flush(ctx context.Context, taken ...observed) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.options.Grace)
	defer cancel()
	for waiting := len(p.queue); waiting > 0; waiting-- { // later ones are too late
		taken = append(taken, <-p.queue)
	}
	for _, o := range taken {
		if err := ctx.Err(); err != nil {
			p.drop(slog.LevelDebug, "shutting down", o.Event, err)
			continue
		}
		p.publish(ctx, o, 1)
	}
}

func (p *Publisher) publish(ctx context.Context, o observed, tries int) {
	w := p.style.take(o)
	if w == nil {
		return
	}
	if err := p.attempt(ctx, w, tries); err != nil {
		level := slog.LevelWarn
		if ctx.Err() != nil || apierrors.IsAlreadyExists(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			level = slog.LevelDebug // as upstream: it is not actionable
		}
		p.drop(level, "not written", o.Event, err)
	}
}

// attempt writes w, with retries if the server cannot be reached.
func (p *Publisher) attempt(ctx context.Context, w *write, tries int) error {
	for n := 1; ; n++ {
		again, err := p.send(ctx, w)
		if err == nil || !again || n == tries || ctx.Err() != nil {
			return err
		}
		p.log.Warn("event not written, trying again", "err", err, "retry", retryDelay)
		timer := time.NewTimer(retryDelay)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
	}
}

// send writes w once and reports whether an error is worth a retry.
func (p *Publisher) send(ctx context.Context, w *write) (again bool, err error) {
	t := client.Target{Resource: w.resource, Namespace: w.event.GetNamespace(), Name: w.event.GetName()}
	if w.patch != nil {
		data, err := json.Marshal(w.patch)
		if err != nil {
			return false, err
		}
		_, err = p.client.Patch(ctx, t, client.Patch{Type: types.StrategicMergePatchType, Data: data}, metav1.PatchOptions{})
		if !apierrors.IsNotFound(err) {
			return unanswered(err), err
		}
		// It expired on the server: create it again.
	}
	_, err = p.client.Create(ctx, t, w.event, metav1.CreateOptions{})
	return unanswered(err) || w.retryExists && apierrors.IsAlreadyExists(err), err
}

// unanswered reports whether an error concerns the connection, rather than being the server's answer.
func unanswered(err error) bool {
	var answer apierrors.APIStatus
	return !errors.As(err, &answer)
}

// nameOf makes the name of an event about an object: the object's name and the nanosecond, as upstream does. In virtual
// time many events share a nanosecond, so it is moved by up to a millisecond by a hash of the content, which is the
// same in every run.
func nameOf(o observed, options Options) string {
	h := fnv.New32a()
	for _, s := range []string{options.Component, options.Host, o.Type, o.Reason, o.Action, o.Message} {
		_, _ = h.Write([]byte(s))
		_, _ = h.Write([]byte{0})
	}
	nanos := o.at.UnixNano() + int64(h.Sum32()%uint32(time.Millisecond))
	name := fmt.Sprintf("%s.%x", o.Regarding.Name, nanos)
	if len(validation.NameIsDNSSubdomain(name, false)) == 0 {
		return name
	}
	// Names of some kinds, such as roles, are not valid for events.
	h64 := fnv.New64a()
	_, _ = h64.Write([]byte(o.Regarding.Name))
	return fmt.Sprintf("%x.%x", h64.Sum64(), nanos)
}

// namespaceOf is the namespace of an event about an object: the object's, or default for cluster-scoped ones.
func namespaceOf(about corev1.ObjectReference) string {
	if about.Namespace == "" {
		return metav1.NamespaceDefault
	}
	return about.Namespace
}
