package kubelet

import (
	"encoding/json"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/kubelet/decision"
)

// resizeRetry is how long after an attempt resizes that have to wait are tried again, if nothing else causes that.
const resizeRetry = 3 * time.Minute

// resizes are the pods that request other resources than they were given. Only the goroutine of Run uses them.
type resizes struct {
	wishes map[types.UID]*wish
	due    bool // attempt at the end of the batch of changes
	timer  *time.Timer
}

// wish is a pod's request for other resources.
type wish struct {
	pod     *corev1.Pod          // its newest state
	waiting bool                 // for its turn; not if it is infeasible
	pending *corev1.PodCondition // why it has to wait, if that was decided
}

func newResizes() resizes {
	timer := time.NewTimer(resizeRetry)
	timer.Stop()
	return resizes{wishes: map[types.UID]*wish{}, timer: timer}
}

// changed returns the next state of a pod with the resources that it was given, and notes if it requests others.
func (k *Kubelet) changed(pod *corev1.Pod, w *worker) *corev1.Pod {
	given := w.inbox.newest()
	next := decision.Hold(pod, given)
	if k.resizes.anyWaits() && (decision.Frees(given, next) || decision.Terminal(pod.Status.Phase) && !decision.Terminal(given.Status.Phase)) {
		k.resizes.due = true
	}
	old := k.resizes.wishes[pod.UID]
	switch {
	case next == pod:
		if old != nil { // it was withdrawn
			delete(k.resizes.wishes, pod.UID)
			w.inbox.wait(nil)
		}
	case old == nil || !decision.SameResources(&old.pod.Spec, &pod.Spec):
		k.resizes.wish(pod, old)
	default:
		old.pod = pod
	}
	return next
}

// wish notes that a pod requests other resources than it was given.
func (r *resizes) wish(pod *corev1.Pod, old *wish) {
	next := &wish{pod: pod, waiting: true}
	if old != nil {
		next.pending = old.pending
	}
	r.wishes[pod.UID] = next
	r.due = true
}

// forget drops a pod that is gone, which may leave room for others.
func (r *resizes) forget(uid types.UID) {
	delete(r.wishes, uid)
	r.due = r.due || r.anyWaits()
}

func (r *resizes) anyWaits() bool {
	for _, w := range r.wishes {
		if w.waiting {
			return true
		}
	}
	return false
}

// recall returns a pod that is new to this kubelet with the resources that an earlier one gave it, and notes if it
// requests others.
func (k *Kubelet) recall(pod *corev1.Pod) *corev1.Pod {
	given := decision.HeldBefore(pod)
	if a, _, ok := k.options.Host.Memory.Allocation(pod.UID); ok {
		given = a.Apply(pod)
	}
	if given != pod && pod.DeletionTimestamp == nil && !decision.Terminal(pod.Status.Phase) {
		k.resizes.wish(pod, &wish{pending: conditionOf(pod, corev1.PodResizePending)})
	}
	return given
}

// conditionOf returns a condition of a pod, or nil.
func conditionOf(pod *corev1.Pod, t corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == t {
			return c
		}
	}
	return nil
}

// grantResizes gives pods the resources that they request, as far as there is room, in the order of decision.Wish.
func (k *Kubelet) grantResizes() {
	k.resizes.due = false
	k.resizes.timer.Stop()
	type candidate struct {
		decision.Wish
		*wish
		*worker
	}
	var list []candidate
	for uid, wish := range k.resizes.wishes {
		w, known := k.worker(uid)
		if !known || !wish.waiting {
			continue
		}
		c := candidate{decision.Wish{Wanted: wish.pod, Given: w.inbox.newest()}, wish, w}
		if wish.pending != nil {
			c.Since = wish.pending.LastTransitionTime.Time
		}
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b candidate) int { return a.Compare(b.Wish) })
	for _, c := range list {
		k.grant(c.wish, c.worker)
	}
	if k.resizes.anyWaits() {
		k.resizes.timer.Reset(resizeRetry)
	}
}

// grant gives a pod the resources that it requests, or says why it has to wait.
func (k *Kubelet) grant(wish *wish, w *worker) {
	pod := wish.pod
	if !w.inbox.resizable() {
		return
	}
	refusal := &Refusal{corev1.PodReasonInfeasible, decision.MessageResize}
	if w.resizer != nil {
		refusal = k.refusal(pod, w.inbox.newest())
	}
	if refusal != nil {
		reason, event := corev1.PodReasonDeferred, "ResizeDeferred"
		if refusal.Reason == corev1.PodReasonInfeasible {
			reason, event = corev1.PodReasonInfeasible, "ResizeInfeasible"
			wish.waiting = false
		}
		old := wish.pending
		wish.pending = decision.ResizeCondition(corev1.PodResizePending, old, decision.Waiting{Reason: reason, Message: refusal.Message}, pod.Generation, time.Now())
		w.inbox.wait(wish.pending)
		if old == nil || old.Reason != reason || old.ObservedGeneration != pod.Generation {
			k.resizeEvent(pod, corev1.EventTypeWarning, event, resizeSaid{"Pod resize " + reason, pod.Generation, refusal.Message})
		}
		w.poke()
		return
	}
	if err := k.options.Host.Memory.Resize(pod); err != nil {
		k.log.Warn("the checkpoint of a resize was not written", "pod", pod.Namespace+"/"+pod.Name, "error", err)
	}
	delete(k.resizes.wishes, pod.UID)
	w.inbox.grant(pod)
	k.resizeEvent(pod, corev1.EventTypeNormal, "ResizeStarted", resizeSaid{"Pod resize started", pod.Generation, ""})
	w.poke()
}

// resizeSaid is the content of an event about a resize.
type resizeSaid struct {
	what       string
	generation int64
	problem    string
}

// resizeEvent records an event about the resources in a pod's spec.
func (r recorder) resizeEvent(pod *corev1.Pod, eventType, reason string, said resizeSaid) {
	type container struct {
		Name      string                      `json:"name"`
		Resources corev1.ResourceRequirements `json:"resources"`
	}
	var summary struct {
		InitContainers []container `json:"initContainers,omitempty"`
		Containers     []container `json:"containers,omitempty"`
		Generation     int64       `json:"generation"`
		Error          string      `json:"error,omitempty"`
	}
	for _, c := range pod.Spec.InitContainers {
		summary.InitContainers = append(summary.InitContainers, container{c.Name, c.Resources})
	}
	for _, c := range pod.Spec.Containers {
		summary.Containers = append(summary.Containers, container{c.Name, c.Resources})
	}
	summary.Generation, summary.Error = said.generation, said.problem
	message := said.what
	if text, err := json.Marshal(summary); err == nil {
		message += ": " + string(text)
	}
	r.podEvent(pod, eventType, reason, "%s", message)
}

// refusal says why the node does not admit a pod, or does not give it the resources of its spec instead of those that it was
// given; nil if it does.
func (k *Kubelet) refusal(pod, given *corev1.Pod) *Refusal {
	admitters := k.options.Host.Admitters
	if given != nil {
		admitters = nil
		for _, a := range k.options.Host.Admitters {
			allocator, ok := a.(Allocator)
			if !ok {
				admitters = append(admitters, a)
				continue
			}
			if refusal := allocator.AdmitResize(given, pod); refusal != nil {
				return refusal
			}
		}
	}
	for _, a := range admitters {
		if refusal := a.Admit(pod); refusal != nil {
			return refusal
		}
	}
	if plugins := k.options.Host.Devices.Plugins; plugins != nil && given == nil {
		if refusal := plugins.Admit(pod); refusal != nil {
			return refusal
		}
	}
	others := slices.DeleteFunc(k.active(), func(other *corev1.Pod) bool { return other.UID == pod.UID })
	node := k.node.current()
	return admit(pod, others, node, k.withDevices(fillResources(k.options.Allocatable, node.Status.Allocatable)))
}
