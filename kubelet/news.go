package kubelet

import (
	"context"
	"reflect"
	"sync"

	corev1 "k8s.io/api/core/v1"
)

// news is what a worker is told from outside. It is safe for concurrent use.
type news struct {
	mu        sync.Mutex
	pod       *corev1.Pod   // newest known
	gone      bool          // no longer in the API
	changed   bool          // since the worker last took it
	released  bool          // nothing of it runs any more
	idle      chan struct{} // closed with released, or when the worker ends
	eviction  *Eviction
	interrupt context.CancelFunc
}

// receive takes a newer state of the pod and reports whether the worker has to look at it. When
// what the worker does has to be given up for it, that is interrupted.
func (n *news) receive(pod *corev1.Pod, gone bool) (relevant bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	before := n.pod
	n.pod, n.gone = pod, n.gone || gone
	relevant = gone || relevantChange(before, pod)
	n.changed = n.changed || relevant
	hurry := mustHurry(before, pod) || gone && before.DeletionTimestamp == nil
	if hurry && n.interrupt != nil {
		n.interrupt()
	}
	return relevant
}

// take returns the newest state of the pod.
func (n *news) take() (pod *corev1.Pod, gone, changed bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	pod, gone, changed = n.pod, n.gone, n.changed
	n.changed = false
	return pod, gone, changed
}

// newest returns the newest state of the pod, without taking note of it.
func (n *news) newest() *corev1.Pod {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.pod
}

// isGone reports whether the pod was taken away, for good.
func (n *news) isGone() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.gone
}

// touch makes the worker look at its pod although nothing of it has changed.
func (n *news) touch() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.changed = true
}

// interruptWith says how to interrupt the worker; nil while it does nothing.
func (n *news) interruptWith(cancel context.CancelFunc) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.interrupt = cancel
}

// release notes that nothing of the pod runs any more.
func (n *news) release() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.released {
		n.released = true
		close(n.idle)
	}
}

// evict asks for the end of the pod, unless it is ending already, and interrupts what is under way.
func (n *news) evict(e Eviction) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.eviction == nil && !n.released {
		n.eviction = &e
		if n.interrupt != nil {
			n.interrupt()
		}
	}
}

// evicted returns what evict was told.
func (n *news) evicted() *Eviction {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.eviction
}

// usesResources reports whether the pod counts against the node's resources.
func (n *news) usesResources() (*corev1.Pod, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.pod, !n.released && !n.gone && !isTerminal(n.pod.Status.Phase)
}

// relevantChange reports whether a change of a pod can ask for something to be done. Most changes
// are the worker's own statuses coming back.
func relevantChange(before, after *corev1.Pod) bool {
	return before.Generation != after.Generation ||
		mustHurry(before, after) ||
		isTerminal(before.Status.Phase) != isTerminal(after.Status.Phase) ||
		othersChanged(before.Status.Conditions, after.Status.Conditions) ||
		!reflect.DeepEqual(before.Labels, after.Labels) ||
		!reflect.DeepEqual(before.Annotations, after.Annotations)
}

// mustHurry reports whether what is under way for a pod has to be given up: it is to end, or
// earlier than it was.
func mustHurry(before, after *corev1.Pod) bool {
	if after.DeletionTimestamp == nil {
		return false
	}
	return before.DeletionTimestamp == nil || gracePeriod(after) < gracePeriod(before)
}
