package shutdown

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Group is the grace period of the pods from a priority up to that of the next group.
type Group struct {
	Priority int32         // the lowest of the group; pods below all groups belong to the first
	Grace    time.Duration // whole seconds
}

// systemCritical is the lowest priority of critical pods.
const systemCritical = 2 * 1_000_000_000

// Groups returns the groups for a total grace period of which the last part is reserved for critical pods; none if that
// makes no sense.
func Groups(total, critical time.Duration) []Group {
	if total <= 0 || critical < 0 || critical > total {
		return nil
	}
	return []Group{{0, total - critical}, {systemCritical, critical}}
}

// Turn is a group with its pods.
type Turn struct {
	Group
	Pods []*corev1.Pod
}

// Order sorts pods into groups, those with the lowest priority first. It leaves out groups without pods.
func Order(groups []Group, pods []*corev1.Pod) []Turn {
	groups = slices.Clone(groups)
	slices.SortStableFunc(groups, func(a, b Group) int { return cmp.Compare(a.Priority, b.Priority) })
	turns := make([]Turn, len(groups))
	for i, g := range groups {
		turns[i].Group = g
	}
	for _, pod := range pods {
		priority := int32(0)
		if pod.Spec.Priority != nil {
			priority = *pod.Spec.Priority
		}
		at := 0
		for i, g := range groups {
			if g.Priority <= priority {
				at = i
			}
		}
		if len(turns) > 0 {
			turns[at].Pods = append(turns[at].Pods, pod)
		}
	}
	return slices.DeleteFunc(turns, func(t Turn) bool { return len(t.Pods) == 0 })
}

// grace is how many seconds a pod of the group gets.
func (g Group) grace(pod *corev1.Pod) int64 {
	seconds := int64(g.Grace / time.Second)
	if own := pod.Spec.TerminationGracePeriodSeconds; own != nil {
		return min(*own, seconds)
	}
	return seconds
}
