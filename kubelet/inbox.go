package kubelet

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/kubelet/decision"
)

// inbox is what a worker has been told of its pod and not acted on yet. It is safe for concurrent use.
type inbox struct {
	mu        sync.Mutex
	pod       *corev1.Pod   // newest known
	gone      bool          // no longer in the API
	changed   bool          // since the worker last took it
	released  bool          // no container of it runs any more
	idle      chan struct{} // closed with released, or when the worker ends
	eviction  *Eviction
	interrupt context.CancelFunc
	// waits is the condition of a resize that was not granted. before are the resources from before one that was
	// granted since the worker last asked.
	waits  *corev1.PodCondition
	before *decision.Allocation
}

// receive takes a newer state of the pod and reports whether the worker has to act on it. It interrupts the worker if
// its current work has become pointless.
func (n *inbox) receive(pod *corev1.Pod, gone bool) (relevant bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	before := n.pod
	n.pod, n.gone = pod, n.gone || gone
	relevant = gone || decision.Relevant(before, pod)
	n.changed = n.changed || relevant
	urgent := decision.Urgent(before, pod) || gone && before.DeletionTimestamp == nil
	if urgent && n.interrupt != nil {
		n.interrupt()
	}
	return relevant
}

// wait sets why a resize is not granted; nil if none is requested.
func (n *inbox) wait(why *corev1.PodCondition) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.waits, n.changed = why, true
}

// pending returns why a resize is not granted.
func (n *inbox) pending() *corev1.PodCondition {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.waits
}

// grant gives the pod the resources in the spec of its newest state.
func (n *inbox) grant(pod *corev1.Pod) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.before == nil {
		before := decision.AllocationOf(&n.pod.Spec)
		n.before = &before
	}
	n.pod, n.waits, n.changed = pod, nil, true
}

// resizable reports whether the pod is to go on.
func (n *inbox) resizable() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.released && !n.gone && n.eviction == nil && n.pod.DeletionTimestamp == nil && !decision.Terminal(n.pod.Status.Phase)
}

// news is what a worker learns from its inbox.
type news struct {
	pod     *corev1.Pod // its newest state
	gone    bool        // no longer in the API
	changed bool        // since the worker last asked
	// before are the resources from before a resize that was granted since then, or nil.
	before *decision.Allocation
}

// take returns the newest state of the pod.
func (n *inbox) take() news {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := news{n.pod, n.gone, n.changed, n.before}
	n.changed, n.before = false, nil
	return out
}

// newest returns the newest state of the pod, without marking it as taken.
func (n *inbox) newest() *corev1.Pod {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.pod
}

// isGone reports whether the pod was removed for good.
func (n *inbox) isGone() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.gone
}

// touch makes the worker sync its pod although it has not changed.
func (n *inbox) touch() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.changed = true
}

// interruptWith sets how to interrupt the worker; nil while it is idle.
func (n *inbox) interruptWith(cancel context.CancelFunc) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.interrupt = cancel
}

// release records that no container of the pod runs any more.
func (n *inbox) release() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.released {
		n.released = true
		close(n.idle)
	}
}

// evict requests the end of the pod, unless it is already ending, and interrupts the worker.
func (n *inbox) evict(e Eviction) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.eviction == nil && !n.released {
		n.eviction = &e
		if n.interrupt != nil {
			n.interrupt()
		}
	}
}

// evicted returns the requested eviction, if any.
func (n *inbox) evicted() *Eviction {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.eviction
}

// usesResources reports whether the pod counts against the node's resources.
func (n *inbox) usesResources() (*corev1.Pod, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.pod, !n.released && !n.gone && !decision.Terminal(n.pod.Status.Phase)
}
