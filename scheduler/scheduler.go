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
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/internal/pause"
	"github.com/keelson-dev/keelson/scheduler/queue"
)

// Sources are the informers that a Scheduler reads.
type Sources struct {
	Pods  *informer.Informer[*corev1.Pod]
	Nodes *informer.Informer[*corev1.Node]
	// Others are what else plugins read.
	Others []Objects
}

// Objects are objects other than pods and nodes that plugins of a profile read, such as volumes.
type Objects interface {
	// Watch has tell called for each event about the objects that may let pods pass: one of the kinds ObjectAdded,
	// ObjectUpdated and ObjectDeleted. New calls Watch once; it starts nothing. When tell is called, plugins must see the
	// object's new state already. tell calls plugins, so its caller must not hold a lock that these take.
	Watch(tell func(Event))
	// WaitSynced returns nil when plugins can read all objects that exist, or else the context's error.
	WaitSynced(ctx context.Context) error
}

// Options are the options of a Scheduler. The zero value is valid.
type Options struct {
	// Writes is the maximum number of concurrent bindings and status patches; 0 means 16. With 1, pods are
	// bound in the order in which they were scheduled, except those that wait for a permit or have a PreBinder.
	Writes int
	// PreBinds is the maximum number of pods for which PreBinders run concurrently; 0 means 64.
	PreBinds int
	// Settle is how long the scheduler waits after an event before it examines the queue, so that it sees
	// simultaneous events together; it removes victims of preemption when no pod is left to try. In a synctest
	// bubble, any positive value makes the result independent of the order in which goroutines run.
	Settle time.Duration
	// InitialBackoff and MaxBackoff are how long a pod waits after its first and its later failures; 0 means 1
	// s and 10 s.
	InitialBackoff, MaxBackoff time.Duration
	// OnDecision, if set, is called with every decision, from one goroutine and in order, after the decision
	// was applied and before it is written. It must be quick. The decision includes the result of preemption,
	// but not of the plugins that run after the decision.
	OnDecision func(Decision)
	// More are further profiles, of other scheduler names. Their pods wait in the same queue.
	More []Profile
	// Logger logs failing writes; nil discards.
	Logger *slog.Logger
}

// Scheduler assigns the pods of its profiles to nodes, like upstream's kube-scheduler. Make one with New.
type Scheduler struct {
	profiles profiles
	in       Sources
	write    Writer
	events   events.Recorder
	o        Options
	wake     chan struct{} // holds one token while the queue may have changed

	mu    sync.Mutex // guards the rest
	state State
	queue *queue.Queue[Event]
	// pending are the latest states of the profiles' pods without a node.
	pending map[types.NamespacedName]*corev1.Pod
	// assumed are the pods, with their nodes, whose binding Sources have not shown yet.
	assumed map[types.UID]*corev1.Pod
	// bindings are the pods between their decision and their binding, if a plugin does anything for them in between.
	bindings map[types.UID]*binding
	// evictions are the preemptions under way.
	evictions evictions
	asks      asks
}

// profiles are those of a Scheduler.
type profiles struct {
	of    map[string]*running // by scheduler name
	first *running            // New's own
	kinds EventKind           // the events that may help any pod
}

// New returns a scheduler that follows its sources and does nothing until Run. It writes the status of pods, and
// deletes victims of preemption, through w. It fails with ErrProfile if a profile is invalid, has no Binder, or the
// scheduler name of another.
func New(in Sources, p Profile, w Writer, r events.Recorder, o Options) (*Scheduler, error) {
	all, err := runAll(append([]Profile{p}, o.More...))
	if err != nil {
		return nil, err
	}
	if o.Writes <= 0 {
		o.Writes = 16
	}
	if o.PreBinds <= 0 {
		o.PreBinds = 64
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Scheduler{
		profiles: all, in: in, write: w, events: r, o: o,
		wake:    make(chan struct{}, 1),
		pending: map[types.NamespacedName]*corev1.Pod{}, assumed: map[types.UID]*corev1.Pod{},
		bindings: map[types.UID]*binding{},
	}
	s.queue = queue.New(time.Now(), queue.Options[Event]{
		InitialBackoff: o.InitialBackoff, MaxBackoff: o.MaxBackoff,
		Gate: func(pod *corev1.Pod) string {
			if name, _ := s.of(pod).profile.Held(pod); name != "" {
				return name
			}
			return s.evictions.gate(pod)
		},
		MayHelp: s.mayHelp,
	})
	in.Pods.AddHandler(informer.Handler[*corev1.Pod]{Added: s.podAdded, Updated: s.podUpdated, Deleted: s.podDeleted})
	in.Nodes.AddHandler(informer.Handler[*corev1.Node]{Added: s.nodeAdded, Updated: s.nodeUpdated, Deleted: s.nodeDeleted})
	for _, others := range in.Others {
		others.Watch(func(e Event) { s.locked(func(now time.Time) { s.tell(e, now) }) })
	}
	return s, nil
}

// ending is how much later the context may end than those of the sources.
const ending = time.Second

// Run schedules pods until the context ends, and then returns nil, after all its writes have returned. The
// caller runs the sources. Run is called once.
func (s *Scheduler) Run(ctx context.Context) error {
	waits := []func(context.Context) error{s.in.Nodes.WaitSynced, s.in.Pods.WaitSynced}
	for _, others := range s.in.Others {
		waits = append(waits, others.WaitSynced)
	}
	for _, synced := range waits {
		if err := synced(ctx); err != nil {
			if pause.For(ctx, ending) != nil {
				return nil // the regular end, of which the source was told first
			}
			return fmt.Errorf("scheduler: waiting for its sources: %w", err)
		}
	}
	w := newWrites(s.o)
	defer w.all.Wait()
	for ctx.Err() == nil {
		_ = pause.For(ctx, s.o.Settle)
		for s.attempt(ctx, w) && ctx.Err() == nil {
		}
		w.startEvictions()
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

// attempt takes one pod from the queue, or goes on with one, and finds it a node. It returns false if there is no pod to try
// now.
func (s *Scheduler) attempt(ctx context.Context, w *writes) bool {
	s.mu.Lock()
	t := s.next(time.Now())
	switch {
	case t == nil:
		s.mu.Unlock()
		return false
	case t.failed != nil:
		s.mu.Unlock()
		s.preempted(ctx, t, w)
		return true
	case t.pod.DeletionTimestamp != nil:
		s.asks.end(t)
		s.asks.release(t)
		s.mu.Unlock()
		s.record(t.pod, corev1.EventTypeWarning, "FailedScheduling", "Scheduling",
			fmt.Sprintf("skip schedule deleting pod: %v/%v", t.pod.Namespace, t.pod.Name))
		return true
	}
	pod, p := t.pod, s.of(t.pod)
	e := p.planner.consult(pod, s.state.Snapshot(), consulting{deferred: true, answers: t.answers})
	if errors.Is(e.err, errUnanswered) {
		s.ask(ctx, t, e, w)
		s.mu.Unlock()
		return true
	}
	s.asks.end(t)
	if e.err != nil {
		s.fail(ctx, t, e, w)
		return true
	}
	var decision Decision
	if s.o.OnDecision != nil {
		decision = e.decision()
	}
	bound := &binding{item: t.item, pod: pod, node: e.nodes[e.chosen].Name}
	s.assume(pod, bound.node)
	if p.plugins.reserving(pod) {
		s.bindings[pod.UID] = bound
	}
	s.asks.release(t)
	s.mu.Unlock()
	s.decided(decision)
	if err := s.reserve(ctx, bound); err != nil {
		if latest := s.abandon(bound, err, false); latest != nil {
			w.start(ctx, pod.UID, func() { s.report(ctx, latest, err, &Nomination{}) })
		}
		return true
	}
	s.bindLater(ctx, bound, w)
	return true
}

func (s *Scheduler) decided(d Decision) {
	if s.o.OnDecision != nil {
		s.o.OnDecision(d)
	}
}

// refusedBy returns the plugins that a failed attempt blames; none if it failed with an error, or if there are
// no nodes: then the pod is retried with back-off.
func refusedBy(err error) []string {
	var fit *FitError
	if errors.As(err, &fit) {
		return fit.RefusedBy
	}
	return nil
}

// assume counts a pod as bound before it is.
func (s *Scheduler) assume(pod *corev1.Pod, node string) {
	bound := *pod // only the node differs
	bound.Spec.NodeName = node
	s.state.SetPod(&bound)
	s.assumed[pod.UID] = &bound
}

// forget undoes assume, and reports whether there was anything to undo. With tell, other pods may be retried
// for the room.
func (s *Scheduler) forget(uid types.UID, now time.Time, tell bool) bool {
	bound := s.assumed[uid]
	if bound == nil {
		return false
	}
	delete(s.assumed, uid)
	s.state.RemovePod(bound)
	if tell {
		s.tell(Event{Kind: AssignedPodDeleted, OldPod: bound}, now)
	}
	return true
}

// tell passes an event to the queue, and to bindings that may be refused.
func (s *Scheduler) tell(e Event, now time.Time) {
	if s.profiles.kinds&e.Kind == 0 {
		return
	}
	for _, b := range s.bindings {
		s.noteEvent(b, e)
	}
	s.noteForAsked(e)
	s.queue.Event(e, now)
}

// mayHelp is the queue's hint function.
func (s *Scheduler) mayHelp(pod *corev1.Pod, refusedBy []string, e Event) bool {
	if old := e.OldPod; e.Kind == AssignedPodDeleted && old.Spec.NodeName == "" &&
		(samePod(old, pod) || corev1helpers.PodPriority(old) < corev1helpers.PodPriority(pod)) {
		return false // the removed nomination never blocked this pod
	}
	if len(refusedBy) == 1 && refusedBy[0] == evicting {
		return false // it is released when its victims go
	}
	return s.of(pod).profile.MayHelp(pod, refusedBy, e)
}

// Counts returns how many of the profiles' pods wait, and for what.
func (s *Scheduler) Counts() queue.Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.queue.Counts()
	c.Active += s.asks.wait()
	return c
}

// Explain returns what the scheduler would decide about a pod now, whether or not the pod is pending. The real
// decision may differ, because other pods come first. The pods of other schedulers are explained by New's profile.
func (s *Scheduler) Explain(pod *corev1.Pod) Decision {
	p := s.of(pod)
	if p == nil {
		p = s.profiles.first
	}
	return p.profile.Schedule(pod, s.Snapshot())
}

// Snapshot returns the scheduler's view of the cluster, including pods with a node whose binding it has not
// seen yet. It serves to ask a Profile what it would decide, and why.
func (s *Scheduler) Snapshot() *Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.Snapshot()
}
