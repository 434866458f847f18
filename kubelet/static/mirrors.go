package static

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/podspec/origin"
)

const (
	// retryDelay is how long to wait after a failed request.
	retryDelay = 10 * time.Second
	// busyDelay is how long to wait while the mirror's pod is still terminating.
	busyDelay = time.Second
)

// Sources are the informers of Mirrors.
type Sources struct {
	// Static holds the static pods, Pods those in the API, at least the node's own.
	Static, Pods *informer.Informer[*corev1.Pod]
	// Nodes holds at least the node.
	Nodes *informer.Informer[*corev1.Node]
}

// MirrorOptions configures Mirrors. The zero value is valid.
type MirrorOptions struct {
	// Busy reports whether containers of a static pod still run although the pod is gone; its mirror stays until they
	// have ended. Nil means that none do.
	Busy func(namespace, name string) bool
	// Logger records failed requests; nil discards them.
	Logger *slog.Logger
}

// Mirrors maintains a mirror pod in the API for every static pod of a node. Make one with NewMirrors.
type Mirrors struct {
	sources Sources
	client  Client
	node    string
	options MirrorOptions

	wake chan struct{} // holds one token while there are keys to reconcile

	mu      sync.Mutex
	waiting map[podKey]time.Time // when to reconcile it
	made    map[podKey]making    // mirrors that were created and not observed yet
}

// making is the creation of a mirror: its UID and time.
type making struct {
	uid types.UID
	at  time.Time
}

type podKey struct{ namespace, name string }

// NewMirrors makes a Mirrors for a node; the client must act as the node's own user. It does nothing until Run; the
// caller runs the sources.
func NewMirrors(in Sources, c Client, node string, o MirrorOptions) (*Mirrors, error) {
	if in.Static == nil || in.Pods == nil || in.Nodes == nil || c == nil || node == "" {
		return nil, errors.New("mirror pods need static pods, pods, nodes, a client and a node")
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	m := &Mirrors{
		sources: in, client: c, node: node, options: o,
		wake: make(chan struct{}, 1), waiting: map[podKey]time.Time{}, made: map[podKey]making{},
	}
	look := informer.Handler[*corev1.Pod]{
		Added:   m.look,
		Updated: func(_, pod *corev1.Pod) { m.look(pod) },
		Deleted: m.look,
	}
	in.Static.AddHandler(look)
	in.Pods.AddHandler(look)
	// A node of the same name that is another one is added, too. One that is leaving gets no mirrors, and keeps those
	// that it has.
	in.Nodes.AddHandler(informer.Handler[*corev1.Node]{Added: m.lookAtAll})
	return m, nil
}

// look schedules a static pod or mirror for reconciliation. Other pods are ignored.
func (m *Mirrors) look(pod *corev1.Pod) {
	if pod.Spec.NodeName != m.node || origin.FromAPI(pod) && !origin.Mirror(pod) {
		return
	}
	key := podKey{pod.Namespace, pod.Name}
	m.mu.Lock()
	if m.made[key].uid == pod.UID {
		delete(m.made, key)
	}
	m.mu.Unlock()
	m.at(key, time.Time{})
}

func (m *Mirrors) lookAtAll(node *corev1.Node) {
	if node.Name == m.node {
		for _, pod := range m.sources.Static.List("") {
			m.look(pod)
		}
	}
}

// at schedules a pod for a time.
func (m *Mirrors) at(key podKey, when time.Time) {
	m.mu.Lock()
	if before, ok := m.waiting[key]; !ok || when.Before(before) {
		m.waiting[key] = when
	}
	m.mu.Unlock()
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// Run maintains the mirrors until the context ends, and then returns nil. It fails if a source has stopped.
func (m *Mirrors) Run(ctx context.Context) error {
	for _, synced := range []func(context.Context) error{
		m.sources.Static.WaitSynced, m.sources.Pods.WaitSynced, m.sources.Nodes.WaitSynced,
	} {
		if err := synced(ctx); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("mirroring static pods: %w", err)
		}
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-m.wake:
		case <-timer.C:
		}
		for _, key := range m.due(time.Now()) {
			m.reconcile(ctx, key)
		}
		if next, ok := m.next(); ok {
			timer.Reset(time.Until(next))
		}
	}
}

// due takes the pods that are due.
func (m *Mirrors) due(now time.Time) []podKey {
	m.mu.Lock()
	defer m.mu.Unlock()
	var keys []podKey
	for key, when := range m.waiting {
		if !when.After(now) {
			keys = append(keys, key)
			delete(m.waiting, key)
		}
	}
	return keys
}

// next is when the next pod is due.
func (m *Mirrors) next() (time.Time, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var next time.Time
	for _, when := range m.waiting {
		if next.IsZero() || when.Before(next) {
			next = when
		}
	}
	return next, len(m.waiting) > 0
}

// reconcile reconciles one pod's mirror.
func (m *Mirrors) reconcile(ctx context.Context, key podKey) {
	var node *corev1.Node
	if n, ok := m.sources.Nodes.Get("", m.node); ok {
		node = n
	}
	pod := get(m.sources.Static, key)
	mirror := get(m.sources.Pods, key)
	if mirror != nil && mirror.Spec.NodeName != m.node {
		return // another node's
	}
	if pod == nil && mirror != nil && m.options.Busy != nil && m.options.Busy(key.namespace, key.name) {
		m.at(key, time.Now().Add(busyDelay))
		return
	}
	if m.unseen(key, mirror) {
		m.at(key, time.Now().Add(retryDelay))
		return
	}
	made, err := Reconcile(ctx, m.client, pod, mirror, node)
	if err != nil && ctx.Err() == nil {
		m.options.Logger.Warn("reconciling a static pod's mirror failed", "error", err)
		m.at(key, time.Now().Add(retryDelay))
	}
	if made != nil {
		m.mu.Lock()
		m.made[key] = making{made.UID, time.Now()}
		m.mu.Unlock()
	}
}

// unseen reports whether the cache does not yet reflect what was done about a mirror.
func (m *Mirrors) unseen(key podKey, mirror *corev1.Pod) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	made, ok := m.made[key]
	if !ok {
		return false
	}
	if mirror != nil && mirror.UID == made.uid || time.Since(made.at) >= retryDelay {
		delete(m.made, key) // observed, or observed and gone before it was recorded here
		return false
	}
	return true
}

func get(from *informer.Informer[*corev1.Pod], key podKey) *corev1.Pod {
	if pod, ok := from.Get(key.namespace, key.name); ok {
		return pod
	}
	return nil
}
