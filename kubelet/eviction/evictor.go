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
)

// Node is what an Evictor does at a kubelet.
type Node interface {
	// Pods are those that may be evicted: admitted, and not over. They are shared.
	Pods() []*corev1.Pod
	// Evict makes a pod's status what Eviction.Status makes of it, for good, ends its containers
	// within the grace and returns when nothing of it runs any more. A pod that is not there is
	// no error.
	Evict(ctx context.Context, e Eviction) error
}

// Source tells what a node and its pods use.
type Source interface {
	Summary(ctx context.Context) (*v1alpha1.Summary, error)
}

// Reclaimer throws away what no pod needs.
type Reclaimer interface {
	// ReclaimContainers removes all containers that have ended and nobody will look at again.
	ReclaimContainers(ctx context.Context) error
	// ReclaimImages removes all images that no container uses.
	ReclaimImages(ctx context.Context) error
}

// settle is how long the node gets after an eviction until somebody looks again.
const settle = time.Second

// Options of an Evictor. All may be left at their zero values.
type Options struct {
	// Thresholds are what Parse returned; nil is Parse(Default()), none is empty.
	Thresholds []Threshold
	// Transition is how long a condition lasts after the last time that a threshold was met: 5 min.
	Transition time.Duration
	// MaxGrace is how many seconds pods get at most to end when a soft threshold is met.
	MaxGrace int64
	// Period is how often an Evictor looks: 10 s. Patience is how long it waits for an evicted
	// pod to end before it looks again: 30 s.
	Period, Patience time.Duration
	// Layout tells what shares a filesystem; nil is that all do.
	Layout func(ctx context.Context) (Layout, error)
	// Reclaimer, if any, is asked before pods are evicted.
	Reclaimer Reclaimer
	// Recorder takes the events; nil drops them. Node is what events about the node regard.
	Recorder events.Recorder
	Node     corev1.ObjectReference
	// Changed is called when the node's conditions have changed, and Evicted with the signal of
	// each eviction. They must be quick.
	Changed func()
	Evicted func(signal string)
	// Logger is told what happens; nil discards.
	Logger *slog.Logger
}

// Evictor looks at a node regularly and acts. Make one with New.
type Evictor struct {
	node    Node
	source  Source
	options Options
	log     *slog.Logger

	mu         sync.Mutex
	conditions []corev1.NodeConditionType

	// Of the goroutine of Run alone:
	core   *Core // nil before the layout is known
	layout Layout
}

// New makes an Evictor, which does nothing before Run.
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

// Conditions are the pressures that the node is under, in the order memory, disk, process ids.
func (e *Evictor) Conditions() []corev1.NodeConditionType {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.conditions)
}

// Admit says whether the node takes a pod under the pressure that it is under; the message says why
// it does not, the reason being Reason.
func (e *Evictor) Admit(pod *corev1.Pod) (message string, ok bool) {
	return Admit(pod, e.Conditions())
}

// Run looks regularly until the context ends, and returns nil then. After an eviction it looks again
// a second after the pod is gone: one pod at a time, until enough is free.
func (e *Evictor) Run(ctx context.Context) error {
	for {
		evicted, err := e.look(ctx)
		if err != nil && ctx.Err() == nil {
			e.log.Warn("looking for what runs short failed", "error", err)
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

// look looks once, and tells whether a pod was evicted and has ended.
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
		if Critical(pod) {
			e.log.Warn("a critical pod is not evicted", "pod", pod.Namespace+"/"+pod.Name)
			continue
		}
		return e.evict(ctx, Evict(pod, stats, most, observations, e.options.MaxGrace))
	}
	e.log.Warn("there is no pod to evict", "signal", most.Signal)
	return false, ctx.Err()
}

// tell makes conditions known.
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

// limitStorage evicts the pods that take more local storage than they may.
func (e *Evictor) limitStorage(ctx context.Context, pods []*corev1.Pod, stats Stats) (evicted bool, err error) {
	for _, pod := range pods {
		eviction, over := LocalStorage(pod, stats[string(pod.UID)], e.layout)
		if !over || Critical(pod) {
			continue
		}
		done, failed := e.evict(ctx, eviction)
		evicted = evicted || done
		err = errors.Join(err, failed)
	}
	return evicted, err
}

// reclaim throws away what is not needed, and tells whether that was enough.
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

// reclaimable is what lies on the filesystem that a signal is about.
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

// evict evicts a pod and waits for its end, if not for ever.
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
