package shutdown

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/internal/pause"
)

// What pods are told: the reason and message of those that end, and of those that are not admitted.
const (
	Reason          = "Terminated"
	Message         = "Pod was terminated in response to imminent node shutdown."
	RejectedReason  = "NodeShutdown"
	RejectedMessage = "Pod was rejected as the node is shutting down."
)

// ErrShuttingDown is why a node is not ready.
var ErrShuttingDown = errors.New("node is shutting down")

// reopenDelay is how long after a failure the inhibitor is opened again.
const reopenDelay = time.Second

// Inhibitor is what tells of shutdowns of the machine and can delay them, such as systemd-logind.
type Inhibitor interface {
	// Open begins a session in which a shutdown can be delayed for the given time.
	Open(ctx context.Context, delay time.Duration) (Session, error)
}

// Session is one connection to an Inhibitor, used by one goroutine at a time.
type Session interface {
	// Next blocks until a shutdown is about to happen (true) or was cancelled (false).
	Next(ctx context.Context) (shutdown bool, err error)
	// Hold delays shutdowns from now on, or lets one go on.
	Hold(hold bool) error
	// Close ends the session and whatever it delays.
	Close()
}

// Pods are the pods of a node.
type Pods interface {
	// Active returns the pods that have not ended.
	Active() []*corev1.Pod
	// End ends a pod, with a grace period of at most so many seconds, and returns when none of its containers runs.
	End(ctx context.Context, pod *corev1.Pod, grace int64, why corev1.PodCondition) error
}

// Options configures a Manager.
type Options struct {
	// Recorder receives an event about Node for each shutdown and each cancellation; nil drops them.
	Recorder events.Recorder
	Node     corev1.ObjectReference // what the events are about
	// Changed, if set, is called when the node's readiness has changed.
	Changed func()
	// Logger records failures; nil discards them.
	Logger *slog.Logger
}

// Manager ends a node's pods before the machine goes down. Make one with New.
type Manager struct {
	pods      Pods
	inhibitor Inhibitor
	groups    []Group
	options   Options

	mu   sync.Mutex
	down bool
}

// New makes a manager that gives groups of pods these grace periods. It does nothing until Run.
func New(pods Pods, inhibitor Inhibitor, groups []Group, o Options) (*Manager, error) {
	if pods == nil || inhibitor == nil || len(groups) == 0 {
		return nil, errors.New("a graceful shutdown needs pods, an inhibitor and grace periods")
	}
	for _, g := range groups {
		if g.Grace < 0 || g.Grace%time.Second != 0 {
			return nil, errors.New("a grace period of a shutdown is not in whole seconds")
		}
	}
	if o.Recorder == nil {
		o.Recorder = events.Func(func(events.Event) {})
	}
	if o.Changed == nil {
		o.Changed = func() {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Manager{pods: pods, inhibitor: inhibitor, groups: groups, options: o}, nil
}

// Problem returns ErrShuttingDown while the node is shutting down, and nil otherwise.
func (m *Manager) Problem() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.down {
		return ErrShuttingDown
	}
	return nil
}

// Run watches for shutdowns until the context ends, and then returns nil.
func (m *Manager) Run(ctx context.Context) error {
	total := time.Duration(0)
	for _, g := range m.groups {
		total += g.Grace
	}
	for ctx.Err() == nil {
		if err := m.session(ctx, total); ctx.Err() == nil {
			m.options.Logger.Warn("watching for shutdowns of the machine failed", "error", err)
		}
		_ = pause.For(ctx, reopenDelay) // the loop checks the context
	}
	return nil
}

// session watches for shutdowns until that fails.
func (m *Manager) session(ctx context.Context, delay time.Duration) error {
	s, err := m.inhibitor.Open(ctx, delay)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.Hold(true); err != nil {
		return err
	}
	for {
		down, err := s.Next(ctx)
		if err != nil {
			return err
		}
		m.set(down)
		if !down {
			if err := s.Hold(true); err != nil {
				return err
			}
			continue
		}
		m.end(ctx)
		if err := s.Hold(false); err != nil {
			return err
		}
	}
}

// set records that a shutdown is about to happen, or was cancelled.
func (m *Manager) set(down bool) {
	m.mu.Lock()
	m.down = down
	m.mu.Unlock()
	message := "Shutdown manager detected shutdown cancellation"
	if down {
		message = "Shutdown manager detected shutdown event"
	}
	m.options.Recorder.Record(events.Event{Regarding: m.options.Node, Type: corev1.EventTypeNormal, Reason: RejectedReason, Message: message})
	m.options.Changed()
}

// end ends all pods, one group after the other, each of which has its grace period.
func (m *Manager) end(ctx context.Context) {
	for _, turn := range Order(m.groups, m.pods.Active()) {
		limited, cancel := context.WithTimeout(ctx, turn.Grace)
		var group sync.WaitGroup
		for _, pod := range turn.Pods {
			group.Go(func() {
				why := corev1.PodCondition{
					Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, ObservedGeneration: pod.Generation,
					Reason: corev1.PodReasonTerminationByKubelet, Message: Message,
					LastTransitionTime: metav1.NewTime(time.Now().Truncate(time.Second).UTC()),
				}
				if err := m.pods.End(limited, pod, turn.grace(pod), why); err != nil && ctx.Err() == nil {
					m.options.Logger.Warn("a pod has not ended before the shutdown", "pod", pod.Namespace+"/"+pod.Name, "error", err)
				}
			})
		}
		group.Wait()
		cancel()
	}
}
