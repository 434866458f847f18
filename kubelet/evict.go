package kubelet

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Eviction is how the node ends a pod for its own sake: the pod has failed, whatever its restart
// policy.
type Eviction struct {
	// Reason and Message become those of the pod's status.
	Reason, Message string
	// Grace is how many seconds the containers get at most to end by themselves.
	Grace int64
	// Condition, if any, becomes one of the pod's.
	Condition *corev1.PodCondition
}

// Evict ends a pod and returns when nothing of it runs any more, or with the context's error. It
// succeeds for a pod that the kubelet does not have, or that has ended.
func (k *Kubelet) Evict(ctx context.Context, uid types.UID, e Eviction) error {
	w, known := k.worker(uid)
	if !known {
		return nil
	}
	w.news.evict(e)
	w.poke()
	select {
	case <-w.news.idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// obeyEviction begins the end of a pod that is to be evicted.
func (w *worker) obeyEviction() {
	e := w.news.evicted()
	if e == nil || w.stage != running {
		return
	}
	w.stage = terminating
	w.status.Phase, w.status.Reason, w.status.Message = corev1.PodFailed, e.Reason, e.Message
}

// grace is how many seconds the pod's containers get to end by themselves.
func (w *worker) grace(pod *corev1.Pod) int64 {
	grace := gracePeriod(pod)
	if e := w.news.evicted(); e != nil {
		grace = min(grace, max(e.Grace, 1))
	}
	return grace
}

// Known reports whether the kubelet knows all its pods: before that one that it does not know need
// not be gone.
func (k *Kubelet) Known() bool {
	k.pods.mu.Lock()
	defer k.pods.mu.Unlock()
	return k.pods.known
}

// Gone reports that a pod is not there and that nobody cleans up after it any more.
func (k *Kubelet) Gone(uid types.UID) bool {
	k.pods.mu.Lock()
	defer k.pods.mu.Unlock()
	if !k.pods.known || k.pods.workers[uid] != nil {
		return false
	}
	waits := func(c podChange) bool { return c.pod.UID == uid && !c.gone }
	if slices.ContainsFunc(k.pods.queue, waits) || slices.ContainsFunc(k.pods.taken, waits) {
		return false
	}
	for _, c := range k.pods.delayed {
		if waits(c) {
			return false
		}
	}
	return true
}

// Ended reports that nothing of a pod runs or will run again, though it may still be there.
func (k *Kubelet) Ended(uid types.UID) bool {
	w, known := k.worker(uid)
	if !known {
		return k.Gone(uid)
	}
	select {
	case <-w.news.idle:
		return true
	default:
		return false
	}
}

// Active returns the pods that may be evicted: those that were admitted and have not ended. They
// are the caller's.
func (k *Kubelet) Active() []*corev1.Pod {
	var list []*corev1.Pod
	for _, pod := range k.Pods() {
		if !k.Ended(pod.UID) && pod.DeletionTimestamp == nil && !isTerminal(pod.Status.Phase) {
			list = append(list, pod)
		}
	}
	return list
}
