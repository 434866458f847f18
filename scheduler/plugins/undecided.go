package plugins

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/signature"
)

// Undecided keeps pods waiting that require resource claims, about which no predicate decides yet, so that nothing is
// silently ignored. It stands in for upstream's DynamicResources.
type Undecided struct{}

// Name returns "Undecided".
func (Undecided) Name() string { return "Undecided" }

// Check refuses every node for such a pod.
func (Undecided) Check(pod *corev1.Pod, _ *scheduler.NodeInfo) *scheduler.Refusal {
	return undecided(pod)
}

// Prepare refuses such a pod as a whole.
func (Undecided) Prepare(pod *corev1.Pod, _ *scheduler.Snapshot) (scheduler.Prepared, error) {
	refusal := undecided(pod)
	return scheduler.Prepared{Skip: refusal == nil, Refusal: refusal}, nil
}

// Signature appends the reasons.
func (Undecided) Signature(b []byte, pod *corev1.Pod) ([]byte, bool) {
	if refusal := undecided(pod); refusal != nil {
		for _, reason := range refusal.Reasons {
			b = signature.String(b, reason)
		}
	}
	return b, true
}

// Events returns none: these requirements of a pod are immutable.
func (Undecided) Events() scheduler.EventKind { return 0 }

// MayHelp is always false.
func (Undecided) MayHelp(*corev1.Pod, scheduler.Event) bool { return false }

// undecided returns why the pod must wait: its first resource claim, or the template of which nothing creates a claim
// here.
func undecided(pod *corev1.Pod) *scheduler.Refusal {
	if len(pod.Spec.ResourceClaims) == 0 {
		return nil
	}
	claim := pod.Spec.ResourceClaims[0]
	reason := fmt.Sprintf("pod requires a resourceclaim for %q, which this scheduler does not support", claim.Name)
	if name := claim.ResourceClaimName; name != nil {
		reason = fmt.Sprintf("pod requires resourceclaim %q, which this scheduler does not support", *name)
	}
	return &scheduler.Refusal{Reasons: []string{reason}, Unresolvable: true}
}
