package plugins

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/signature"
)

// Undecided keeps pods waiting that require something which no predicate decides about yet, so that nothing is
// silently ignored: required pod affinity and anti-affinity, topology spread constraints with DoNotSchedule, and
// resource claims. It replaces upstream's InterPodAffinity, PodTopologySpread and DynamicResources and shrinks as
// they are added. For a missing object that cannot exist
// here, its messages are upstream's.
//
// It considers the pod alone: running pods with required anti-affinity of their own keep no other pod away.
// Since none passes this predicate, only another scheduler can have placed them.
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

// undecided returns why the pod must wait, in the order of upstream's plugins.
func undecided(pod *corev1.Pod) *scheduler.Refusal {
	reasons := undecidedPlacement(&pod.Spec)
	if claim := missingResourceClaim(pod); claim != "" {
		reasons = append(reasons, claim)
	}
	if len(reasons) == 0 {
		return nil
	}
	return &scheduler.Refusal{Reasons: reasons, Unresolvable: true}
}

// missingResourceClaim names the first resource claim of the pod, or the template of which nothing creates a claim here.
func missingResourceClaim(pod *corev1.Pod) string {
	if len(pod.Spec.ResourceClaims) == 0 {
		return ""
	}
	if name := pod.Spec.ResourceClaims[0].ResourceClaimName; name != nil {
		return fmt.Sprintf("pod requires resourceclaim %q, which this scheduler does not support", *name)
	}
	return fmt.Sprintf("pod requires a resourceclaim for %q, which this scheduler does not support", pod.Spec.ResourceClaims[0].Name)
}

// undecidedPlacement returns what the pod requires about the placement of other pods.
func undecidedPlacement(spec *corev1.PodSpec) []string {
	var reasons []string
	requires := func(what string) {
		reasons = append(reasons, "pod requires "+what+", which this scheduler does not support")
	}
	if a := spec.Affinity; a != nil {
		if a.PodAffinity != nil && len(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 {
			requires("pod affinity")
		}
		if a.PodAntiAffinity != nil && len(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 {
			requires("pod anti-affinity")
		}
	}
	for _, c := range spec.TopologySpreadConstraints {
		if c.WhenUnsatisfiable == corev1.DoNotSchedule {
			requires("topology spread (" + c.TopologyKey + ")")
		}
	}
	return reasons
}
