// Package restart says which containers of a pod are restarted after they have terminated: it evaluates the pod's
// restart policy and the container's own policy and rules (KEP-5307), and says which init containers are sidecars
// (KEP-753). An API server validates statuses by it, and a kubelet acts on it.
//
// Everything here is a pure function of its arguments and allocates nothing.
package restart

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Sidecar reports whether an init container keeps running beside the containers: the next one starts once it has
// started, and it is restarted whatever the pod's policy.
func Sidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// Policy is the restart policy of a container: its own, or else its pod's; Always if none is set. It ignores the
// container's rules, which depend on exit codes: Policy alone decides about a container that has to be stopped, or
// whose exit code is unknown.
func Policy(spec *corev1.PodSpec, c *corev1.Container) corev1.RestartPolicy {
	if c.RestartPolicy != nil {
		switch own := corev1.RestartPolicy(*c.RestartPolicy); own {
		case corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever:
			return own
		}
	}
	switch spec.RestartPolicy {
	case corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever:
		return spec.RestartPolicy
	}
	return corev1.RestartPolicyAlways
}

// After reports whether a container that exited with a code is restarted: the first of its rules that matches the code
// decides, or else its Policy. A rule that restarts all containers restarts this one, too.
func After(spec *corev1.PodSpec, c *corev1.Container, code int32) bool {
	if c.RestartPolicy != nil {
		switch rule, _ := Rule(c, code); rule.Action {
		case corev1.ContainerRestartRuleActionRestart, corev1.ContainerRestartRuleActionRestartAllContainers:
			return true
		}
	}
	switch Policy(spec, c) {
	case corev1.RestartPolicyNever:
		return false
	case corev1.RestartPolicyOnFailure:
		return code != 0
	}
	return true
}

// Rule returns the first of a container's rules that matches an exit code, if there is one.
func Rule(c *corev1.Container, code int32) (rule corev1.ContainerRestartRule, found bool) {
	for _, rule := range c.RestartPolicyRules {
		if matches(rule.ExitCodes, code) {
			return rule, true
		}
	}
	return corev1.ContainerRestartRule{}, false
}

func matches(codes *corev1.ContainerRestartRuleOnExitCodes, code int32) bool {
	if codes == nil {
		return false
	}
	switch codes.Operator {
	case corev1.ContainerRestartRuleOnExitCodesOpIn:
		return slices.Contains(codes.Values, code)
	case corev1.ContainerRestartRuleOnExitCodesOpNotIn:
		return !slices.Contains(codes.Values, code)
	}
	return false
}

// Together reports whether the exit of one of the pod's containers can restart all of them (KEP-5532), including those
// that would not be restarted otherwise.
func Together(spec *corev1.PodSpec) bool {
	for _, list := range [...][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			for _, rule := range list[i].RestartPolicyRules {
				if rule.Action == corev1.ContainerRestartRuleActionRestartAllContainers {
					return true
				}
			}
		}
	}
	return false
}
