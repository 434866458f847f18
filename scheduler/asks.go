package scheduler

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/keelson-dev/keelson/scheduler/queue"
)

// try is an attempt to find a node for a pod.
type try struct {
	item *queue.Item
	pod  *corev1.Pod // its latest state

	// plugins are the Winnowers and Raters that must be asked. The rest is for attempts that have any, and guarded by the
	// scheduler's mu.
	plugins []string
	order   uint64
	stop    context.CancelFunc // ends the asking
	answers *answers
	// helped are events since the question that may help the pod in case the named plugin refuses it.
	helped map[string]Event
	failed *failure // when preemption for the pod has been decided
}

// asks are the attempts for which programs elsewhere are asked, so that they take several steps of Run. Each program is
// asked about one pod at a time, until it is decided: it must know of the one before.
type asks struct {
	of      map[types.UID]*try
	busy    map[string]bool   // the plugins that are asked
	waiting map[string][]*try // until theirs are not, by the plugins, the first in order
	ready   []*try            // those that go on
	count   uint64
}

// inOrder puts the most important pod first, and then the one that came first.
func inOrder(a, b *try) int {
	return cmp.Or(cmp.Compare(corev1helpers.PodPriority(b.pod), corev1helpers.PodPriority(a.pod)), cmp.Compare(a.order, b.order))
}

func (t *try) group() string { return strings.Join(t.plugins, "\n") }

// add has a new attempt wait for its plugins.
func (a *asks) add(t *try) {
	if a.of == nil {
		a.of, a.busy, a.waiting = map[types.UID]*try{}, map[string]bool{}, map[string][]*try{}
	}
	a.count++
	t.order = a.count
	a.of[t.pod.UID] = t
	waiting := a.waiting[t.group()]
	i, _ := slices.BinarySearchFunc(waiting, t, inOrder)
	a.waiting[t.group()] = slices.Insert(waiting, i, t)
}

// next returns an attempt that can go on, or nil.
func (a *asks) next() *try {
	if len(a.ready) > 0 {
		first := slices.MinFunc(a.ready, func(a, b *try) int { return cmp.Compare(a.order, b.order) })
		a.ready = slices.DeleteFunc(a.ready, func(t *try) bool { return t == first })
		return first
	}
	if len(a.waiting) == 0 {
		return nil
	}
	var first []*try // of each group
	for _, waiting := range a.waiting {
		first = append(first, waiting[0])
	}
	slices.SortFunc(first, inOrder)
	taken := maps.Clone(a.busy)
	for _, t := range first {
		if !slices.ContainsFunc(t.plugins, func(name string) bool { return taken[name] }) {
			a.leave(t)
			for _, name := range t.plugins {
				a.busy[name] = true
			}
			return t
		}
		for _, name := range t.plugins { // nobody overtakes it
			taken[name] = true
		}
	}
	return nil
}

// leave removes an attempt from those that wait.
func (a *asks) leave(t *try) {
	left := slices.DeleteFunc(a.waiting[t.group()], func(other *try) bool { return other == t })
	if a.waiting[t.group()] = left; len(left) == 0 {
		delete(a.waiting, t.group())
	}
}

// wait returns how many wait.
func (a *asks) wait() (n int) {
	for _, waiting := range a.waiting {
		n += len(waiting)
	}
	return n
}

// release lets others ask the plugins of an attempt.
func (a *asks) release(t *try) {
	for _, name := range t.plugins {
		delete(a.busy, name)
	}
}

// end ends an attempt that claimed its plugins, but does not release them.
func (a *asks) end(t *try) {
	if len(t.plugins) > 0 && a.of[t.pod.UID] == t {
		delete(a.of, t.pod.UID)
	}
}

// drop ends the attempt for a pod that has gone, or has a node.
func (a *asks) drop(uid types.UID) {
	t := a.of[uid]
	if t == nil {
		return
	}
	delete(a.of, uid)
	a.leave(t)
	if t.stop != nil {
		t.stop()
	}
}

// next returns the attempt to go on with, or nil. The caller holds the lock.
func (s *Scheduler) next(now time.Time) *try {
	for {
		for t := s.asks.next(); t != nil; t = s.asks.next() {
			if t.failed != nil || s.renew(t) {
				return t
			}
			s.asks.release(t)
		}
		item := s.queue.Pop(now)
		if item == nil {
			return nil
		}
		t := &try{item: item, pod: item.Pod, plugins: s.of(item.Pod).planner.plugins.asked(item.Pod)}
		if len(t.plugins) == 0 {
			return t
		}
		s.asks.add(t)
	}
}

// renew gives an attempt the latest state of its pod, and reports whether the attempt goes on.
func (s *Scheduler) renew(t *try) bool {
	if s.asks.of[t.pod.UID] != t {
		return false
	}
	t.pod = s.pending[nameOf(t.pod)]
	if t.answers != nil && !onlyVerdict(t.answers.pod, t.pod) {
		t.answers = nil // of another pod
	}
	return true
}

// ask has the plugins of an attempt asked what its evaluation needs to know. The caller holds the lock.
func (s *Scheduler) ask(ctx context.Context, t *try, e *evaluation, w *writes) {
	q := question{e.pod, slices.Clone(e.nodes), e.askAll}
	roles := e.plugins
	ctx, t.stop = context.WithCancel(ctx)
	t.helped = nil
	w.all.Go(func() {
		a := roles.ask(ctx, q)
		s.locked(func(time.Time) {
			t.stop()
			t.stop, t.answers = nil, a
			s.asks.ready = append(s.asks.ready, t)
		})
	})
}

// noteForAsked records an event for the pods that plugins are asked about.
func (s *Scheduler) noteForAsked(e Event) {
	for _, t := range s.asks.of {
		for _, name := range t.plugins {
			if (t.stop != nil || t.answers != nil) && s.of(t.pod).profile.MayHelp(t.pod, []string{name}, e) {
				if t.helped == nil {
					t.helped = map[string]Event{}
				}
				t.helped[name] = e
			}
		}
	}
}

// failure is an attempt that found no node.
type failure struct {
	pod        *corev1.Pod
	err        error
	decision   Decision
	nomination *Nomination
	eviction   *eviction // nil if nobody may make room
}

// preempt calls the preemptors.
func (f *failure) preempt(ctx context.Context, plugins *followers, t *Trial) {
	fit, _ := preemptible(f.err)
	f.nomination, fit.Preemption = plugins.preempt(ctx, t)
	f.eviction.by, f.decision.Preemption = t.name, f.nomination
}

// fail has a pod without a node wait, and tries to make room for it. The caller holds the lock; fail releases it.
func (s *Scheduler) fail(ctx context.Context, t *try, e *evaluation, w *writes) {
	pod, now, by, p := e.pod, time.Now(), refusedBy(e.err), s.of(e.pod)
	f := &failure{pod: pod, err: e.err, nomination: &Nomination{}}
	if s.o.OnDecision != nil {
		f.decision = e.decision()
	}
	s.queue.Return(t.item, pod, by, now)
	s.state.Nominate(pod, "")
	_, unfit := preemptible(e.err)
	preempt := unfit && len(p.plugins.preemptors) > 0
	if preempt {
		f.eviction = s.evictions.begin(pod)
	}
	for _, name := range by {
		if e, ok := t.helped[name]; ok {
			s.queue.Update(pod, e, now)
		}
	}
	if preempt && len(t.plugins) > 0 {
		detached := p.detached()
		s.mu.Unlock()
		w.all.Go(func() { s.preemptLater(ctx, t, f, detached) })
		return
	}
	s.asks.release(t)
	s.mu.Unlock()
	if preempt {
		f.preempt(ctx, &p.plugins, p.planner.trial())
	}
	s.failed(ctx, f, w)
}

// preemptLater calls the preemptors that may ask programs elsewhere.
func (s *Scheduler) preemptLater(ctx context.Context, t *try, f *failure, e *evaluation) {
	var err error
	if e.checks, err = e.prepare(nil); err != nil {
		fit, _ := preemptible(f.err)
		f.nomination, fit.Preemption = nil, err.Error()
	} else {
		f.preempt(ctx, &s.of(f.pod).plugins, &Trial{e: e})
	}
	s.locked(func(time.Time) {
		t.failed = f
		s.asks.ready = append(s.asks.ready, t)
	})
}

// preempted goes on after preemptLater.
func (s *Scheduler) preempted(ctx context.Context, t *try, w *writes) {
	f := t.failed
	s.mu.Lock()
	s.asks.release(t)
	latest := s.pending[nameOf(f.pod)]
	s.mu.Unlock()
	if latest == nil || latest.UID != f.pod.UID {
		s.evict(ctx, f.eviction, nil, w) // nothing is in its way any more
		return
	}
	s.failed(ctx, f, w)
}

// failed applies and reports a failure.
func (s *Scheduler) failed(ctx context.Context, f *failure, w *writes) {
	if f.eviction != nil {
		s.nominate(f.pod, f.nomination)
	}
	s.decided(f.decision)
	w.start(ctx, f.pod.UID, func() { s.report(ctx, f.pod, f.err, f.nomination) })
	if f.eviction != nil {
		s.evict(ctx, f.eviction, f.nomination, w)
	}
}

// detached returns the planner's last attempt for another goroutine, without its checks.
func (r *running) detached() *evaluation {
	e := &r.planner.e
	return &evaluation{
		plugins: r.profile.roles(), pod: e.pod, snapshot: e.snapshot, chosen: -1, err: e.err,
		refused: refused{slices.Clone(e.refusedBy), slices.Clone(e.refusals), e.looked},
	}
}
