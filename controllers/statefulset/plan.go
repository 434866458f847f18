package statefulset

import (
	"cmp"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/keelson-dev/keelson/controllers/internal/pods"
)

// version is a revision of the set and the template that it holds.
type version struct {
	name     string
	template *corev1.PodTemplateSpec
}

// world is what a reconciliation decides upon.
type world struct {
	set             *appsv1.StatefulSet
	current, update version
	collisions      int32
	pods            []*corev1.Pod
	// claim returns a claim in the namespace of the set, or nil.
	claim func(name string) *corev1.PersistentVolumeClaim
	now   time.Time
}

// action is what is done to a pod.
type action int

const (
	create action = iota // its claims, and then the pod
	update               // its identity, its volumes, and the owners of its claims
	remove               // delete it
	claims               // create those that it lacks, and set their owners
	retain               // set the owners of its claims
)

type step struct {
	action action
	pod    *corev1.Pod
}

// plan has phases. Within a phase each pod has its steps, in order, or none; pods follow one another in an ordered set and
// are independent otherwise.
type plan struct {
	phases [][][]step
	// settled means that a rolling update may follow.
	settled bool
}

// creates reports whether the plan may create something.
func (p plan) creates() bool {
	return slices.ContainsFunc(slices.Concat(slices.Concat(p.phases...)...), func(s step) bool { return s.action == create || s.action == claims })
}

func (w *world) ordered() bool { return w.set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement }

// arrange returns the pods of the set by ordinal, with new ones in place of those missing, and the pods beyond its size,
// the highest ordinal first. Pods without ordinal are in neither.
func (w *world) arrange() (members, condemned []*corev1.Pod) {
	first := start(w.set)
	members = make([]*corev1.Pod, replicas(w.set))
	for _, pod := range w.pods {
		switch n := ordinal(pod); {
		case inRange(w.set, pod):
			members[n-first] = pod
		case n >= 0:
			condemned = append(condemned, pod)
		}
	}
	for i, pod := range members {
		if pod == nil {
			members[i] = w.newPod(first + i)
		}
	}
	slices.SortStableFunc(condemned, func(a, b *corev1.Pod) int { return cmp.Compare(ordinal(b), ordinal(a)) })
	return members, condemned
}

// plan returns what to do, apart from the rolling update: an ordered set does one thing at a time.
func (w *world) plan(members, condemned []*corev1.Pod) plan {
	var p plan
	first := w.firstUnavailable(condemned)
	for _, phase := range []struct {
		pods   []*corev1.Pod
		decide func(*corev1.Pod) (steps []step, blocks bool)
	}{
		{members, w.member},
		{condemned, w.retained},
		{condemned, func(pod *corev1.Pod) ([]step, bool) { return w.condemned(pod, first) }},
	} {
		var work [][]step
		blocked := false
		for _, pod := range phase.pods {
			steps, blocks := phase.decide(pod)
			work = append(work, steps)
			if blocked = blocks && w.ordered(); blocked {
				break
			}
		}
		p.phases = append(p.phases, work)
		if blocked {
			return p
		}
	}
	p.settled = true
	return p
}

// firstUnavailable returns the unavailable pod with the lowest ordinal among those beyond the size of the set, or nil.
func (w *world) firstUnavailable(condemned []*corev1.Pod) *corev1.Pod {
	for _, pod := range slices.Backward(condemned) {
		if unavailable(w.set, pod, w.now) {
			return pod
		}
	}
	return nil
}

// member decides what to do for a pod that the set should have, and whether an ordered set does nothing beyond that.
func (w *world) member(pod *corev1.Pod) (steps []step, blocks bool) {
	switch {
	case pods.Terminal(pod):
		// It is created again when it is gone, whether it failed or not: pods that are stopped by force may have succeeded.
		if pod.DeletionTimestamp == nil {
			steps = []step{{remove, pod}}
		}
		return steps, true
	case !exists(pod):
		if w.blockedByClaim(pod) {
			return nil, true
		}
		return []step{{create, pod}}, true
	}
	disowned := w.disowned(pod)
	if pod.Status.Phase == corev1.PodPending && (disowned || w.lacksClaims(pod)) {
		steps, disowned = append(steps, step{claims, pod}), false
	}
	if w.ordered() && (!runningAndReady(pod) || unavailable(w.set, pod, w.now)) {
		return steps, true
	}
	if !identified(w.set, pod) || !mounted(w.set, pod) || disowned {
		steps = append(steps, step{update, pod})
	}
	return steps, false
}

// retained decides whether the claims of a pod beyond the size of the set should have other owners.
func (w *world) retained(pod *corev1.Pod) (steps []step, blocks bool) {
	if w.disowned(pod) {
		steps = []step{{retain, pod}}
	}
	return steps, false
}

// condemned decides whether to delete a pod beyond the size of the set. An ordered set, whose members are available by
// then, waits until the pod is available, unless it is the first that is not.
func (w *world) condemned(pod, firstUnavailable *corev1.Pod) (steps []step, blocks bool) {
	healthy := runningAndReady(pod) && pods.Available(pod, w.set.Spec.MinReadySeconds, w.now)
	if pod.DeletionTimestamp != nil || w.ordered() && !healthy && pod != firstUnavailable {
		return nil, true
	}
	return []step{{remove, pod}}, true
}

// lacksClaims reports whether a claim of the pod is missing or is being deleted.
func (w *world) lacksClaims(pod *corev1.Pod) bool {
	return slices.ContainsFunc(claimsOf(w.set, pod), func(c claim) bool {
		there := w.claim(c.Name)
		return there == nil || there.DeletionTimestamp != nil
	})
}

// disowned reports whether a claim of the pod has not the owners it should have.
func (w *world) disowned(pod *corev1.Pod) bool {
	return slices.ContainsFunc(claimsOf(w.set, pod), func(c claim) bool {
		there := w.claim(c.Name)
		if there == nil {
			return false
		}
		_, wrong := owners(there, w.set, pod)
		return wrong
	})
}

// blockedByClaim reports whether a claim of the pod belongs to its predecessor, with which it is about to go.
func (w *world) blockedByClaim(pod *corev1.Pod) bool {
	if _, whenScaled := retention(w.set); !whenScaled {
		return false
	}
	return slices.ContainsFunc(claimsOf(w.set, pod), func(c claim) bool {
		there := w.claim(c.Name)
		return there != nil && outdated(there, pod, pods.Kind())
	})
}

// victims returns the pods that a rolling update deletes next, in this order.
func (w *world) victims(members []*corev1.Pod) ([]*corev1.Pod, error) {
	budget, err := maxUnavailable(w.set)
	if err != nil {
		return nil, err
	}
	gone := func(pod *corev1.Pod) bool { return unavailable(w.set, pod, w.now) }
	old := func(pod *corev1.Pod) bool { return pod.DeletionTimestamp == nil && revisionOf(pod) != w.update.name }
	for _, pod := range members {
		if gone(pod) {
			budget--
		}
	}
	var broken, rest []*corev1.Pod
	for i, pod := range slices.Backward(members) {
		switch {
		case i < partition(w.set) || !old(pod):
		case gone(pod) && !w.ordered():
			broken = append(broken, pod) // to delete these makes no more pods unavailable
		default:
			rest = append(rest, pod)
		}
	}
	return append(broken, rest[:max(0, min(budget, len(rest)))]...), nil
}

// maxUnavailable is how many pods may be unavailable in a rolling update: at least 1.
func maxUnavailable(set *appsv1.StatefulSet) (int, error) {
	rolling := set.Spec.UpdateStrategy.RollingUpdate
	if rolling == nil || rolling.MaxUnavailable == nil {
		return 1, nil
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(rolling.MaxUnavailable, replicas(set), false)
	return max(1, n), err
}
