package scheduler

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/scheduler/internal/retry"
)

// Writer is what a Scheduler writes through: the status of pods, and deletions of victims.
type Writer interface {
	client.Patcher
	client.Deleter
}

// evictions are the preemptions that are under way. Their pods are not tried again meanwhile.
type evictions struct {
	of    map[types.UID]*eviction   // by the pod for which they make room
	going map[types.UID][]*eviction // by victim, until its end is seen
}

// eviction removes the victims of one pod.
type eviction struct {
	pod  *corev1.Pod
	by   string // the Preemptor
	node string // where the victims are
	// working: not all victims have been asked to go.
	working bool
	// going is how many victims have not been seen to go.
	going int
}

// victim is a pod to remove.
type victim struct {
	*corev1.Pod
	deleted bool // or it was gone already
}

// begin holds a pod until the eviction has ended.
func (e *evictions) begin(pod *corev1.Pod) *eviction {
	if e.of == nil {
		e.of, e.going = map[types.UID]*eviction{}, map[types.UID][]*eviction{}
	}
	v := &eviction{pod: pod, working: true}
	e.of[pod.UID] = v
	return v
}

// evicting is the gate of pods whose victims are being removed. It is no plugin's name: a pod that only a preemptor has refused,
// as a plugin with both roles does, is helped by events meanwhile.
const evicting = "(preemption)"

// gate returns evicting if victims are being removed for the pod, or "".
func (e *evictions) gate(pod *corev1.Pod) string {
	if e.of[pod.UID] != nil {
		return evicting
	}
	return ""
}

// evictionEnds lets the pod be tried again if its victims have gone or are on their way.
func (s *Scheduler) evictionEnds(v *eviction, now time.Time) {
	if v.working || v.going > 0 || s.evictions.of[v.pod.UID] != v {
		return
	}
	delete(s.evictions.of, v.pod.UID)
	if latest := s.pending[nameOf(v.pod)]; latest != nil && latest.UID == v.pod.UID {
		s.queue.Release(latest, now)
	}
}

// victimGoes records that a pod is seen to go.
func (s *Scheduler) victimGoes(uid types.UID, now time.Time) {
	waiting := s.evictions.going[uid]
	delete(s.evictions.going, uid)
	for _, v := range waiting {
		v.going--
		s.evictionEnds(v, now)
	}
}

// evict has the victims of a nomination removed, after the pod's previous write, without blocking other pods.
func (s *Scheduler) evict(ctx context.Context, v *eviction, n *Nomination, w *writes) {
	var victims []*victim
	if n != nil {
		v.node = n.Node
		for _, pod := range n.Victims {
			if pod.DeletionTimestamp == nil {
				victims = append(victims, &victim{Pod: pod})
			}
		}
	}
	if len(victims) == 0 {
		s.locked(func(now time.Time) {
			v.working = false
			s.evictionEnds(v, now)
		})
		return
	}
	w.evict(s.o.Settle > 0, func(earlier <-chan struct{}, done func()) {
		w.following(v.pod.UID, func(before <-chan struct{}) {
			defer done()
			<-earlier
			<-before
			err := s.removeAll(ctx, v, victims, w)
			if err != nil && ctx.Err() == nil {
				s.o.Logger.Error("preempting pods failed", "pod", nameOf(v.pod), "node", v.node, "err", err)
			}
			s.locked(func(now time.Time) { s.evicted(v, victims, err, now) })
		})
	})
}

// evicted records that all victims were asked to go, or not.
func (s *Scheduler) evicted(v *eviction, victims []*victim, err error, now time.Time) {
	v.working = false
	if err != nil {
		if s.evictions.of[v.pod.UID] == v {
			delete(s.evictions.of, v.pod.UID)
		}
		if latest := s.pending[nameOf(v.pod)]; latest != nil && latest.UID == v.pod.UID {
			s.queue.Retry(latest, now) // no event may come
		}
		return
	}
	for _, victim := range victims {
		if victim.deleted && s.stays(victim.Pod) {
			s.evictions.going[victim.UID] = append(s.evictions.going[victim.UID], v)
			v.going++
		}
	}
	s.evictionEnds(v, now)
}

// stays reports whether a pod, as far as is known, is on its node and not about to go.
func (s *Scheduler) stays(victim *corev1.Pod) bool {
	latest := s.state.pod(victim)
	return latest != nil && latest.DeletionTimestamp == nil
}

// pod returns the present state of a pod on a node, or nil.
func (s *State) pod(pod *corev1.Pod) *corev1.Pod {
	nodes := s.nodes
	i, known := find(nodes, pod.Spec.NodeName)
	if !known {
		nodes = s.orphans
		i, known = find(nodes, pod.Spec.NodeName)
	}
	if !known {
		return nil
	}
	if j := nodes[i].index(pod); j >= 0 {
		return nodes[i].Pods[j].Pod
	}
	return nil
}

// removeAll removes the victims, several at a time and the last one alone, as upstream. The first error ends it.
func (s *Scheduler) removeAll(ctx context.Context, v *eviction, victims []*victim, w *writes) error {
	s.clearNominations(ctx, v, w)
	last := len(victims) - 1
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var next atomic.Int64
	var all sync.WaitGroup
	for range min(last, s.o.Writes) {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(last) && ctx.Err() == nil; i = next.Add(1) - 1 {
				if err := s.remove(ctx, v, victims[i], w); err != nil {
					stop(err)
				}
			}
		})
	}
	all.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return s.remove(ctx, v, victims[last], w)
}

// clearNominations takes their nominations from the pods of lower priority that count on the node.
func (s *Scheduler) clearNominations(ctx context.Context, v *eviction, w *writes) {
	var lower []*corev1.Pod
	s.mu.Lock()
	for _, p := range s.state.nominated[v.node].pods {
		if corev1helpers.PodPriority(p) < corev1helpers.PodPriority(v.pod) && p.Status.NominatedNodeName != "" {
			lower = append(lower, p)
		}
	}
	s.mu.Unlock()
	for _, p := range lower {
		if w.take(ctx, w.slots) {
			s.patch(ctx, p, map[string]any{"nominatedNodeName": nil})
			<-w.slots
		}
	}
}

// remove removes one victim: it takes its node from it, or deletes it.
func (s *Scheduler) remove(ctx context.Context, v *eviction, victim *victim, w *writes) error {
	message := fmt.Sprintf("Preempted by pod %v on node %v", v.pod.UID, v.node)
	switch s.unplace(v, victim.Pod) {
	case elsewhere:
		return nil
	case unplaced:
		message += " (in kube-scheduler memory)."
	default:
		if !w.take(ctx, w.slots) {
			return ctx.Err()
		}
		err := s.delete(ctx, v, victim.Pod)
		<-w.slots
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			victim.deleted = true // a conflict is with another pod of that name
			return nil
		}
		if err != nil {
			return fmt.Errorf("preempting pod %v: %w", nameOf(victim.Pod), err)
		}
		victim.deleted = true
	}
	related := reference(v.pod)
	s.events.Record(events.Event{
		Regarding: reference(victim.Pod), Related: &related,
		Type: corev1.EventTypeNormal, Reason: "Preempted", Action: "Preempting", Message: message, Reporter: s.reporter(v.pod),
	})
	return nil
}

// whereabouts is what becomes of a victim that may not be bound yet.
type whereabouts int

const (
	bound     whereabouts = iota // to the node, or about to be: it must be deleted
	unplaced                     // its binding was stopped, and it will be tried again
	elsewhere                    // it has left the node by itself
)

// unplace stops the binding of a victim if that is possible.
func (s *Scheduler) unplace(v *eviction, victim *corev1.Pod) whereabouts {
	s.mu.Lock()
	defer s.mu.Unlock()
	assumed := s.assumed[victim.UID]
	switch {
	case assumed == nil:
		if latest := s.pending[nameOf(victim)]; latest != nil && latest.UID == victim.UID {
			return elsewhere
		}
		return bound
	case assumed.Spec.NodeName != v.node:
		return elsewhere
	case s.bindings[victim.UID].preempt(v.by):
		return unplaced
	}
	return bound
}

// preempt stops a binding that waits for permits or runs PreBinders, and reports whether it did. The caller holds
// the scheduler's mu.
func (b *binding) preempt(by string) bool {
	switch {
	case b == nil || b.settled:
		return false
	case b.preempted != nil:
		return true
	case b.waits:
		b.preempted = errors.New("preempted")
		b.cancelWait()
	case b.stop != nil && len(b.preBinders) > 0:
		b.preempted = errors.New("preempted by " + by)
		b.stop(b.preempted)
	default:
		return false
	}
	return true
}

// delete deletes a victim, after a condition that says why.
func (s *Scheduler) delete(ctx context.Context, v *eviction, victim *corev1.Pod) error {
	if c := condition(victim, corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler,
		Message: v.pod.Spec.SchedulerName + ": preempting to accommodate a higher priority pod",
	}, time.Now()); c != nil {
		err := s.patchObject(ctx, victim, map[string]any{
			"metadata": map[string]any{"uid": victim.UID},
			"status":   map[string]any{"conditions": []corev1.PodCondition{*c}},
		})
		if err != nil {
			return err
		}
	}
	uid := victim.UID
	return retry.Do(ctx, retry.Unwell, func() error {
		return s.write.Delete(ctx, client.Target{
			Resource:  corev1.SchemeGroupVersion.WithResource("pods"),
			Namespace: victim.Namespace, Name: victim.Name,
		}, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	})
}
