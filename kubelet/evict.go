package kubelet

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/kubelet/decision"
)

// Eviction describes how the node ends a pod for its own protection. The pod fails, whatever its restart policy.
type Eviction struct {
	// Reason and Message are set in the pod's status.
	Reason, Message string
	// Grace is the maximum time, in seconds, that the containers get to exit by themselves.
	Grace int64
	// Condition, if not nil, is added to the pod's status.
	Condition *corev1.PodCondition
}

// Evict ends a pod and returns when none of its containers runs any more, or with the context's error. It succeeds for
// a pod that the kubelet does not have or that has ended.
func (k *Kubelet) Evict(ctx context.Context, uid types.UID, e Eviction) error {
	w, known := k.worker(uid)
	if !known {
		return nil
	}
	w.inbox.evict(e)
	w.poke()
	select {
	case <-w.inbox.idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// obeyEviction starts terminating a pod that is to be evicted.
func (w *worker) obeyEviction() {
	e := w.inbox.evicted()
	if e == nil || w.stage != decision.Running {
		return
	}
	w.stage = decision.Terminating
	w.status.Phase, w.status.Reason, w.status.Message = corev1.PodFailed, e.Reason, e.Message
}

// Known reports whether the kubelet knows all its pods. Until then, a pod that it does not know may still exist.
func (k *Kubelet) Known() bool {
	k.pods.mu.Lock()
	defer k.pods.mu.Unlock()
	return k.pods.known
}

// Gone reports whether a pod no longer exists and has been cleaned up.
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

// Live reports whether a pod uses resources of the node, or may once the kubelet gets to it.
func (k *Kubelet) Live(uid types.UID) bool {
	w, known := k.worker(uid)
	if !known {
		return !k.Gone(uid)
	}
	_, using := w.inbox.usesResources()
	return using
}

// Ended reports whether no container of a pod runs or will run again. The pod itself may still exist.
func (k *Kubelet) Ended(uid types.UID) bool {
	w, known := k.worker(uid)
	if !known {
		return k.Gone(uid)
	}
	select {
	case <-w.inbox.idle:
		return true
	default:
		return false
	}
}

// Active returns the pods that may be evicted: those that were admitted and have not ended. The caller owns them.
func (k *Kubelet) Active() []*corev1.Pod {
	var list []*corev1.Pod
	for _, pod := range k.Pods() {
		if !k.Ended(pod.UID) && pod.DeletionTimestamp == nil && !decision.Terminal(pod.Status.Phase) {
			list = append(list, pod)
		}
	}
	return list
}
