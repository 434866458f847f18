package job

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// ruling is what a failure policy says about a failed pod.
type ruling struct {
	action batchv1.PodFailurePolicyAction // empty if no rule matches
	// message says why the job fails, if it does.
	message string
}

// counts reports whether the failure counts towards the limits.
func (r ruling) counts() bool { return r.action != batchv1.PodFailurePolicyActionIgnore }

// rule returns what the first matching rule of a policy, which may be nil, says about a failed pod.
func rule(policy *batchv1.PodFailurePolicy, pod *corev1.Pod) ruling {
	if policy == nil {
		return ruling{}
	}
	for i := range policy.Rules {
		r := &policy.Rules[i]
		why := ""
		switch {
		case r.OnExitCodes != nil:
			if c := exitMatching(r.OnExitCodes, pod); c != nil {
				why = fmt.Sprintf("Container %s for pod %s/%s failed with exit code %v", c.Name, pod.Namespace, pod.Name, c.State.Terminated.ExitCode)
			}
		case r.OnPodConditions != nil:
			if c := conditionMatching(r.OnPodConditions, pod); c != nil {
				why = fmt.Sprintf("Pod %s/%s has condition %v", pod.Namespace, pod.Name, c.Type)
			}
		}
		if why == "" {
			continue
		}
		switch r.Action {
		case batchv1.PodFailurePolicyActionIgnore, batchv1.PodFailurePolicyActionFailIndex, batchv1.PodFailurePolicyActionCount:
			return ruling{action: r.Action}
		case batchv1.PodFailurePolicyActionFailJob:
			return ruling{action: r.Action, message: fmt.Sprintf("%s matching %v rule at index %d", why, r.Action, i)}
		}
	}
	return ruling{}
}

// exitMatching returns the first container that ended with an exit code, other than 0, that matches.
func exitMatching(r *batchv1.PodFailurePolicyOnExitCodesRequirement, pod *corev1.Pod) *corev1.ContainerStatus {
	for _, list := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
		for i := range list {
			end := list[i].State.Terminated
			if end == nil || end.ExitCode == 0 || r.ContainerName != nil && *r.ContainerName != list[i].Name {
				continue
			}
			among := slices.Contains(r.Values, end.ExitCode)
			if among && r.Operator == batchv1.PodFailurePolicyOnExitCodesOpIn || !among && r.Operator == batchv1.PodFailurePolicyOnExitCodesOpNotIn {
				return &list[i]
			}
		}
	}
	return nil
}

func conditionMatching(patterns []batchv1.PodFailurePolicyOnPodConditionsPattern, pod *corev1.Pod) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		if slices.Contains(patterns, batchv1.PodFailurePolicyOnPodConditionsPattern{Type: c.Type, Status: c.Status}) {
			return c
		}
	}
	return nil
}

// succeeds returns why a success policy, which may be nil, is fulfilled by the indexes that have succeeded, or "".
func succeeds(policy *batchv1.SuccessPolicy, done indexes, completions int) string {
	if policy == nil || len(done) == 0 {
		return ""
	}
	for i, r := range policy.Rules {
		met := false
		switch {
		case r.SucceededIndexes != nil:
			if required := parseIndexes(*r.SucceededIndexes, completions); len(required) > 0 {
				n := done.common(required)
				met = n == required.count() || r.SucceededCount != nil && n >= int(*r.SucceededCount)
			}
		case r.SucceededCount != nil:
			met = done.count() >= int(*r.SucceededCount)
		}
		if met {
			return fmt.Sprintf("Matched rules at index %d", i)
		}
	}
	return ""
}
