package scheduler

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// preemption returns the message about preemption when no Preemptor returned one. It says that there is none to
// users who would expect it: for a pod of a priority above 0 that would fit if others were removed.
func (e *evaluation) preemption() string {
	if policy := e.pod.Spec.PreemptionPolicy; policy != nil && *policy == corev1.PreemptNever {
		return "preemption: not eligible due to preemptionPolicy=Never."
	}
	room := e.wholeRefusal == nil && slices.ContainsFunc(e.refusals, func(r *Refusal) bool { return !r.Unresolvable })
	if priority := e.pod.Spec.Priority; room && priority != nil && *priority > 0 {
		return "preemption: not supported by this scheduler."
	}
	return ""
}
