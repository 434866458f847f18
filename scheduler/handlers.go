package scheduler

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
)

// locked runs f with the lock and wakes Run.
func (s *Scheduler) locked(f func(now time.Time)) {
	s.mu.Lock()
	f(time.Now())
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// finished pods use nothing of their node any more: they count as deleted.
func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// of returns the profile of a pod, nil if that is another scheduler's.
func (s *Scheduler) of(pod *corev1.Pod) *running { return s.profiles.of[pod.Spec.SchedulerName] }

func nameOf(pod *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}

func (s *Scheduler) podAdded(pod *corev1.Pod) {
	s.locked(func(now time.Time) { s.podCame(pod, now) })
}

func (s *Scheduler) podUpdated(old, pod *corev1.Pod) {
	s.locked(func(now time.Time) {
		switch {
		case finished(old):
			if !finished(pod) {
				s.podCame(pod, now)
			}
		case finished(pod):
			s.podWent(pod, now)
		default:
			s.podChanged(old, pod, now)
		}
	})
}

func (s *Scheduler) podDeleted(pod *corev1.Pod) {
	s.locked(func(now time.Time) { s.podWent(pod, now) })
}

func (s *Scheduler) podCame(pod *corev1.Pod, now time.Time) {
	switch {
	case finished(pod):
	case pod.Spec.NodeName != "":
		s.podBound(pod, now)
	case s.of(pod) != nil:
		s.pending[nameOf(pod)] = pod
		s.queue.Add(pod, now)
		s.state.Nominate(pod, pod.Status.NominatedNodeName)
	}
}

// podBound handles a pod that has a node now, from this scheduler or another.
func (s *Scheduler) podBound(pod *corev1.Pod, now time.Time) {
	if bound := s.assumed[pod.UID]; bound != nil {
		delete(s.assumed, pod.UID)
		if bound.Spec.NodeName != pod.Spec.NodeName {
			s.state.RemovePod(bound)
		}
	}
	s.bindings[pod.UID].cancelWait()
	s.bindings[pod.UID].cancel()
	s.unqueue(pod)
	s.state.SetPod(pod)
	s.tell(Event{Kind: AssignedPodAdded, Pod: pod}, now)
}

// unqueue drops a pod from those that wait for a node.
func (s *Scheduler) unqueue(pod *corev1.Pod) {
	delete(s.pending, nameOf(pod))
	s.queue.Delete(pod)
	s.asks.drop(pod.UID)
}

func (s *Scheduler) podChanged(old, pod *corev1.Pod, now time.Time) {
	if pod.DeletionTimestamp != nil {
		defer s.victimGoes(pod.UID, now)
	}
	switch {
	case old.Spec.NodeName != "":
		s.state.SetPod(pod)
		s.tell(Event{Kind: AssignedPodUpdated, Change: PodChange(old, pod), OldPod: old, Pod: pod}, now)
	case pod.Spec.NodeName != "":
		s.podBound(pod, now)
	case s.of(pod) != nil:
		s.pending[nameOf(pod)] = pod
		if s.assumed[pod.UID] != nil {
			if pod.DeletionTimestamp != nil && old.DeletionTimestamp == nil {
				if !s.bindings[pod.UID].cancelWait() {
					s.forget(pod.UID, now, true) // the binding will fail
				}
			}
			if b := s.bindings[pod.UID]; b != nil && !onlyVerdict(old, pod) {
				s.noteEvent(b, Event{Kind: PodUpdated, Change: PodChange(old, pod), OldPod: old, Pod: pod})
			}
			return
		}
		if s.asks.of[pod.UID] != nil { // it will be looked at again in any case
			s.renominated(old, pod, now)
			return
		}
		e := Event{Kind: PodUpdated, Change: PodChange(old, pod), OldPod: old, Pod: pod}
		if onlyVerdict(old, pod) {
			e.Kind = 0
		}
		s.queue.Update(pod, e, now)
		s.renominated(old, pod, now)
	}
}

// onlyVerdict reports whether nothing changed except what a scheduler writes when a pod does not fit. That is
// no reason to retry it.
func onlyVerdict(old, pod *corev1.Pod) bool {
	without := func(p *corev1.Pod) *corev1.Pod {
		c := *p
		c.ResourceVersion, c.ManagedFields, c.Status.NominatedNodeName, c.Status.Conditions = "", nil, "", nil
		for _, condition := range p.Status.Conditions {
			if condition.Type != corev1.PodScheduled {
				c.Status.Conditions = append(c.Status.Conditions, condition)
			}
		}
		return &c
	}
	return equality.Semantic.DeepEqual(without(old), without(pod))
}

func (s *Scheduler) podWent(pod *corev1.Pod, now time.Time) {
	s.unqueue(pod)
	s.bindings[pod.UID].cancel()
	forgotten := s.bindings[pod.UID].cancelWait() || s.forget(pod.UID, now, true)
	defer s.victimGoes(pod.UID, now)
	if !forgotten && s.state.RemovePod(pod) { // it may have finished before
		s.tell(Event{Kind: AssignedPodDeleted, OldPod: pod}, now)
		return
	}
	if s.state.Nominate(pod, "") && !forgotten {
		s.tell(Event{Kind: AssignedPodDeleted, OldPod: pod}, now) // others may use its node
	}
}

// nominate applies a preemptor's nomination before it is seen in the pod; nil keeps the pod's own.
func (s *Scheduler) nominate(pod *corev1.Pod, n *Nomination) {
	if n == nil {
		n = &Nomination{Node: pod.Status.NominatedNodeName}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if latest := s.pending[nameOf(pod)]; latest != nil && latest.UID == pod.UID {
		s.state.Nominate(latest, n.Node)
	}
}

// renominated applies the nomination of a pending pod. One that is not seen in the pod yet stays.
func (s *Scheduler) renominated(old, pod *corev1.Pod, now time.Time) {
	was, is := old.Status.NominatedNodeName, pod.Status.NominatedNodeName
	if was == "" && is == "" {
		return
	}
	s.state.Nominate(pod, is)
	if was != "" && was != is {
		s.tell(Event{Kind: AssignedPodDeleted, OldPod: old}, now)
	}
}

func (s *Scheduler) nodeAdded(node *corev1.Node) {
	s.locked(func(now time.Time) {
		s.state.SetNode(node)
		s.tell(Event{Kind: NodeAdded, Node: node}, now)
	})
}

func (s *Scheduler) nodeUpdated(old, node *corev1.Node) {
	s.locked(func(now time.Time) {
		s.state.SetNode(node)
		if change := NodeChange(old, node); change != 0 {
			s.tell(Event{Kind: NodeUpdated, Change: change, OldNode: old, Node: node}, now)
		}
	})
}

func (s *Scheduler) nodeDeleted(node *corev1.Node) {
	s.locked(func(now time.Time) {
		s.state.RemoveNode(node.Name)
		s.tell(Event{Kind: NodeDeleted, OldNode: node}, now)
	})
}
