package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/internal/pause"
	"github.com/keelson-dev/keelson/scheduler/queue"
)

// Sources are what a Scheduler reads.
type Sources struct {
	Pods  *informer.Informer[*corev1.Pod]
	Nodes *informer.Informer[*corev1.Node]
}

// Writer is what a Scheduler writes through: it creates the binding subresource of pods and
// patches their status. A client.Client is one.
type Writer interface {
	client.Creator
	client.Patcher
}

// Options of a Scheduler. The zero value is ready to use.
type Options struct {
	// Writes is how many bindings and status patches are under way at once; 0 means 16. With 1
	// pods are bound in the order in which they were scheduled.
	Writes int
	// Settle is how long the scheduler waits after something happened before it looks at the
	// queue, so that it sees what happens at the same moment together. In a synctest bubble any
	// positive value makes what it sees independent of the order in which goroutines ran.
	Settle time.Duration
	// InitialBackoff and MaxBackoff are how long a pod waits after its first and its later
	// failures; 0 means 1 s and 10 s.
	InitialBackoff, MaxBackoff time.Duration
	// OnDecision, when set, gets every decision, from one goroutine and in order, after the
	// decision was taken in and before it is written. It must be quick.
	OnDecision func(Decision)
	// Logger is told about failing writes; nil discards.
	Logger *slog.Logger
}

// Scheduler gives the pods of its profile nodes, as upstream's kube-scheduler does. Make one
// with New.
type Scheduler struct {
	profile Profile
	in      Sources
	write   Writer
	events  events.Recorder
	o       Options
	log     *slog.Logger
	kinds   EventKind     // that may help any pod
	wake    chan struct{} // holds one token while the queue may have changed

	mu      sync.Mutex // guards the rest
	state   State
	queue   *queue.Queue[Event]
	planner *Planner
	// pending are the latest states of the profile's pods that have no node.
	pending map[types.NamespacedName]*corev1.Pod
	// assumed are the pods, with their nodes, whose binding was not seen in Sources yet.
	assumed map[types.UID]*corev1.Pod
}

// New makes a scheduler that follows its sources and does nothing until Run. It fails with
// ErrProfile.
func New(in Sources, p Profile, w Writer, r events.Recorder, o Options) (*Scheduler, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if o.Writes <= 0 {
		o.Writes = 16
	}
	log := o.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	s := &Scheduler{
		profile: p, in: in, write: w, events: r, o: o, log: log,
		kinds: p.events(), wake: make(chan struct{}, 1),
		pending: map[types.NamespacedName]*corev1.Pod{}, assumed: map[types.UID]*corev1.Pod{},
	}
	s.planner = NewPlanner(&s.profile)
	s.queue = queue.New(time.Now(), queue.Options[Event]{
		InitialBackoff: o.InitialBackoff, MaxBackoff: o.MaxBackoff,
		Gate: func(pod *corev1.Pod) string {
			name, _ := s.profile.Held(pod)
			return name
		},
		MayHelp: s.profile.MayHelp,
	})
	in.Pods.AddHandler(informer.Handler[*corev1.Pod]{Added: s.podAdded, Updated: s.podUpdated, Deleted: s.podDeleted})
	in.Nodes.AddHandler(informer.Handler[*corev1.Node]{Added: s.nodeAdded, Updated: s.nodeUpdated, Deleted: s.nodeDeleted})
	return s, nil
}

// Run schedules pods until the context ends, and returns nil then, when all its writes have
// returned. Somebody else runs the sources. It is called once.
func (s *Scheduler) Run(ctx context.Context) error {
	for _, synced := range []func(context.Context) error{s.in.Nodes.WaitSynced, s.in.Pods.WaitSynced} {
		if err := synced(ctx); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("scheduler: waiting for its sources: %w", err)
		}
	}
	w := newWrites(s.o.Writes)
	defer w.all.Wait()
	for ctx.Err() == nil {
		_ = pause.For(ctx, s.o.Settle)
		for s.attempt(ctx, w) && ctx.Err() == nil {
		}
		s.rest(ctx)
	}
	return nil
}

// rest waits until there may be something to do.
func (s *Scheduler) rest(ctx context.Context) {
	s.mu.Lock()
	next, ok := s.queue.Next(time.Now())
	s.mu.Unlock()
	var alarm <-chan time.Time
	if ok {
		timer := time.NewTimer(time.Until(next))
		defer timer.Stop()
		alarm = timer.C
	}
	select {
	case <-ctx.Done():
	case <-alarm:
	case <-s.wake:
	}
}

// attempt takes one pod from the queue and finds it a node. It returns false when there is none
// to try now.
func (s *Scheduler) attempt(ctx context.Context, w *writes) bool {
	s.mu.Lock()
	now := time.Now()
	item := s.queue.Pop(now)
	if item == nil {
		s.mu.Unlock()
		return false
	}
	pod := item.Pod
	if pod.DeletionTimestamp != nil {
		s.mu.Unlock()
		s.record(pod, corev1.EventTypeWarning, "FailedScheduling", "Scheduling",
			fmt.Sprintf("skip schedule deleting pod: %v/%v", pod.Namespace, pod.Name))
		return true
	}
	e := s.planner.evaluate(pod, s.state.Snapshot())
	err, node := e.err, ""
	if err == nil {
		node = e.nodes[e.chosen].Name
		s.assume(pod, node)
	} else {
		s.queue.Return(item, pod, refusedBy(err), now)
	}
	var decision Decision
	if s.o.OnDecision != nil {
		decision = e.decision()
	}
	s.mu.Unlock()

	if s.o.OnDecision != nil {
		s.o.OnDecision(decision)
	}
	w.start(ctx, pod.UID, func() {
		if err != nil {
			s.report(ctx, pod, err)
			return
		}
		s.bind(ctx, item, pod, node)
	})
	return true
}

// refusedBy are the predicates that a failed attempt blames; none when it was an error, or
// when there are no nodes: then the pod is tried again with back-off.
func refusedBy(err error) []string {
	var fit *FitError
	if errors.As(err, &fit) {
		return fit.RefusedBy
	}
	return nil
}

// assume counts a pod as bound before it is.
func (s *Scheduler) assume(pod *corev1.Pod, node string) {
	bound := *pod // all that differs is the node
	bound.Spec.NodeName = node
	s.state.SetPod(&bound)
	s.assumed[pod.UID] = &bound
}

// forget undoes assume, and says whether there was anything to undo.
func (s *Scheduler) forget(uid types.UID, now time.Time) bool {
	bound := s.assumed[uid]
	if bound == nil {
		return false
	}
	delete(s.assumed, uid)
	s.state.RemovePod(bound)
	s.tell(Event{Kind: AssignedPodDeleted, OldPod: bound}, now)
	return true
}

// tell has the queue look whether an event helps any pod.
func (s *Scheduler) tell(e Event, now time.Time) {
	if s.kinds&e.Kind != 0 {
		s.queue.Event(e, now)
	}
}

// Counts are how many of the profile's pods wait, and for what.
func (s *Scheduler) Counts() queue.Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queue.Counts()
}

// Explain says what the scheduler would decide about a pod now, whether or not the pod waits
// for it. What is decided in fact may differ, because other pods come first.
func (s *Scheduler) Explain(pod *corev1.Pod) Decision {
	return s.profile.Schedule(pod, s.Snapshot())
}

// Snapshot is what the scheduler takes the cluster for, with the pods that it has found nodes
// for but not seen bound. It serves to ask a Profile what it would decide, and why.
func (s *Scheduler) Snapshot() *Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.Snapshot()
}
