package eviction

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/internal/pause"
	"github.com/keelson-dev/keelson/podspec/critical"
)

// Node is what an Evictor needs from a kubelet.
type Node interface {
	// Pods returns the pods that may be evicted: those that were admitted and have not ended. They are shared.
	Pods() []*corev1.Pod
	// Evict changes a pod's status for good as Eviction.Status does, stops its containers within the grace period, and
	// returns when none of them runs any more. A missing pod is not an error.
	Evict(ctx context.Context, e Eviction) error
}

// Source reports what a node and its pods use.
type Source interface {
	Summary(ctx context.Context) (*v1alpha1.Summary, error)
}

// Reclaimer removes what no pod needs.
type Reclaimer interface {
	// ReclaimContainers removes all dead containers that are no longer needed.
	ReclaimContainers(ctx context.Context) error
	// ReclaimImages removes all images that no container uses.
	ReclaimImages(ctx context.Context) error
}

// settle is how long the node gets after an eviction before the next look.
const settle = time.Second

// Options configures an Evictor. All fields are optional.
type Options struct {
	// Thresholds come from Parse; nil is Parse(Default()), an empty slice is none.
	Thresholds []Threshold
	// Transition is how long a condition lasts after its thresholds were last met; 5 min by default.
	Transition time.Duration
	// MaxGrace is the maximum grace period of pods, in seconds, when a soft threshold is met.
	MaxGrace int64
	// Period is how often an Evictor looks; 10 s by default. Patience is how long it waits for an evicted pod to end
	// before it looks again; 30 s by default.
	Period, Patience time.Duration
	// Layout returns what shares a filesystem; nil means that everything does.
	Layout func(ctx context.Context) (Layout, error)
	// Reclaimer, if set, is tried before pods are evicted.
	Reclaimer Reclaimer
	// Recorder takes the events; nil drops them. Node is the subject of events about the node.
	Recorder events.Recorder
	Node     corev1.ObjectReference
	// Changed is called when the node's conditions have changed, and Evicted with the signal of
	// each eviction. They must be quick.
	Changed func()
	Evicted func(signal string)
	// Logger records what happens; nil discards it.
	Logger *slog.Logger
}

// Evictor checks a node regularly and acts. Make one with New.
type Evictor struct {
	node    Node
	source  Source
	options Options
	log     *slog.Logger

	mu         sync.Mutex
	conditions []corev1.NodeConditionType

	// Only used by Run's goroutine:
	core   *Core // nil until the layout is known
	layout Layout
}

// New makes an Evictor, which does nothing until Run.
func New(node Node, source Source, o Options) (*Evictor, error) {
	if node == nil || source == nil {
		return nil, errors.New("eviction needs a node and a source of statistics")
	}
	if o.Thresholds == nil {
		var err error
		if o.Thresholds, err = Parse(Default()); err != nil {
			return nil, err
		}
	}
	o.Transition = cmp.Or(o.Transition, 5*time.Minute)
	o.Period = cmp.Or(o.Period, 10*time.Second)
	o.Patience = cmp.Or(o.Patience, 30*time.Second)
	if o.Recorder == nil {
		o.Recorder = events.Discard()
	}
	if o.Layout == nil {
		o.Layout = func(context.Context) (Layout, error) { return Layout{}, nil }
	}
	if o.Changed == nil {
		o.Changed = func() {}
	}
	if o.Evicted == nil {
		o.Evicted = func(string) {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Evictor{node: node, source: source, options: o, log: o.Logger}, nil
}

// Conditions returns the node's current pressures, in the order memory, disk, process IDs.
func (e *Evictor) Conditions() []corev1.NodeConditionType {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.conditions)
}

// Admit reports whether the node accepts a pod under its current pressures; if not, the message says why, and the
// reason is Reason.
func (e *Evictor) Admit(pod *corev1.Pod) (message string, ok bool) {
	return Admit(pod, e.Conditions())
}

// Run checks the node regularly until the context ends, and then returns nil. After an eviction it checks again a
// second after the pod is gone: one pod at a time, until enough is free.
func (e *Evictor) Run(ctx context.Context) error {
	for {
		evicted, err := e.look(ctx)
		if err != nil && ctx.Err() == nil {
			e.log.Warn("detecting pressure failed", "error", err)
		}
		wait := e.options.Period
		if evicted && err == nil {
			wait = min(wait, settle)
		}
		if err := pause.For(ctx, wait); err != nil {
			return nil //nolint:nilerr // the context has ended
		}
	}
}

// look checks once, and reports whether a pod was evicted and has ended.
func (e *Evictor) look(ctx context.Context) (evicted bool, err error) {
	if e.core == nil {
		if e.layout, err = e.options.Layout(ctx); err != nil {
			return false, fmt.Errorf("looking at filesystems: %w", err)
		}
		e.core = NewCore(ForLayout(e.options.Thresholds, e.layout), e.options.Transition)
	}
	pods := e.node.Pods()
	summary, err := e.source.Summary(ctx)
	if err != nil {
		return false, err
	}
	observations := Observe(summary)
	urgent := e.core.Look(time.Now(), observations)
	e.tell(e.core.Conditions())
	stats := StatsOf(summary)
	if some, err := e.limitStorage(ctx, pods, stats); some || err != nil {
		return some, err
	}
	if len(urgent) == 0 {
		return false, nil
	}
	most := urgent[0]
	e.log.Info("attempting to reclaim", "signal", most.Signal)
	e.options.Recorder.Record(events.Event{
		Regarding: e.options.Node, Type: corev1.EventTypeWarning, Reason: "EvictionThresholdMet",
		Message: fmt.Sprintf("Attempting to reclaim %s", most.Signal.resource()),
	})
	if e.reclaim(ctx, most.Signal) {
		return false, nil
	}
	for _, pod := range Rank(pods, stats, most.Signal, e.layout) {
		if critical.Pod(pod) {
			e.log.Warn("a critical pod is not evicted", "pod", pod.Namespace+"/"+pod.Name)
			continue
		}
		return e.evict(ctx, Evict(pod, stats, most, observations, e.options.MaxGrace))
	}
	e.log.Warn("there is no pod to evict", "signal", most.Signal)
	return false, ctx.Err()
}

// tell publishes conditions.
func (e *Evictor) tell(conditions []corev1.NodeConditionType) {
	e.mu.Lock()
	changed := !slices.Equal(e.conditions, conditions)
	e.conditions = conditions
	e.mu.Unlock()
	if changed {
		e.log.Info("the node's pressure has changed", "conditions", conditions)
		e.options.Changed()
	}
}

// limitStorage evicts the pods that exceed their local storage limits.
func (e *Evictor) limitStorage(ctx context.Context, pods []*corev1.Pod, stats Stats) (evicted bool, err error) {
	for _, pod := range pods {
		eviction, over := LocalStorage(pod, stats[string(pod.UID)], e.layout)
		if !over || critical.Pod(pod) {
			continue
		}
		done, failed := e.evict(ctx, eviction)
		evicted = evicted || done
		err = errors.Join(err, failed)
	}
	return evicted, err
}

// reclaim removes what is not needed, and reports whether that was enough.
func (e *Evictor) reclaim(ctx context.Context, s Signal) bool {
	containers, images := e.reclaimable(s)
	if e.options.Reclaimer == nil || !containers && !images {
		return false
	}
	var err error
	if containers {
		err = e.options.Reclaimer.ReclaimContainers(ctx)
	}
	if images {
		err = errors.Join(err, e.options.Reclaimer.ReclaimImages(ctx))
	}
	if err != nil {
		e.log.Warn("reclaiming failed", "signal", s, "error", err)
	}
	summary, err := e.source.Summary(ctx)
	if err != nil {
		e.log.Warn("looking after a reclaim failed", "error", err)
		return false
	}
	return e.core.Relieved(Observe(summary))
}

// reclaimable returns what is on the filesystem of a signal.
func (e *Evictor) reclaimable(s Signal) (containers, images bool) {
	switch s.resource() {
	case corev1.ResourceMemory, pids:
		return false, false
	}
	nodeFs := s == NodeFsAvailable || s == NodeFsInodesFree
	imageFs := s == ImageFsAvailable || s == ImageFsInodesFree
	switch {
	case !e.layout.DedicatedImages:
		return true, true
	case e.layout.SplitContainers:
		return !imageFs, imageFs
	default:
		return !nodeFs, !nodeFs
	}
}

// evict evicts a pod and waits for its end, up to Patience.
func (e *Evictor) evict(ctx context.Context, eviction Eviction) (ended bool, err error) {
	pod := eviction.Pod
	e.log.Info("evicting a pod", "pod", pod.Namespace+"/"+pod.Name, "signal", eviction.Signal, "message", eviction.Message)
	e.options.Recorder.Record(events.Event{
		Regarding: events.About(corev1.SchemeGroupVersion.WithKind("Pod"), pod), Type: corev1.EventTypeWarning,
		Reason: Reason, Message: eviction.Message,
	})
	e.options.Evicted(eviction.Signal)
	limited, cancel := context.WithTimeout(ctx, e.options.Patience+time.Duration(eviction.Grace)*time.Second)
	defer cancel()
	if err := e.node.Evict(limited, eviction); err != nil {
		return false, fmt.Errorf("evicting pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return true, nil
}
