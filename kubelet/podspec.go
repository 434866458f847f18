package kubelet

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/cri"
)

// kind is the part a container plays in its pod.
type kind int

const (
	regular kind = iota
	initial
	ephemeral
)

// Annotations that tell static pods and their mirrors from other pods.
const (
	annotationSource = "kubernetes.io/config.source"
	annotationMirror = "kubernetes.io/config.mirror"
)

// isStatic reports whether a pod comes from elsewhere than the API.
func isStatic(pod *corev1.Pod) bool {
	source, said := pod.Annotations[annotationSource]
	return said && source != "api" && !isMirror(pod)
}

// isMirror reports whether a pod only stands for a static one, which has the UID that its
// annotation says.
func isMirror(pod *corev1.Pod) bool {
	_, is := pod.Annotations[annotationMirror]
	return is
}

// isSidecar reports whether an init container keeps running beside the others (KEP-753).
func isSidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// containersOf returns the containers of one kind.
func containersOf(pod *corev1.Pod, k kind) []corev1.Container {
	switch k {
	case initial:
		return pod.Spec.InitContainers
	case ephemeral:
		list := make([]corev1.Container, len(pod.Spec.EphemeralContainers))
		for i := range list {
			list[i] = corev1.Container(pod.Spec.EphemeralContainers[i].EphemeralContainerCommon)
		}
		return list
	default:
		return pod.Spec.Containers
	}
}

// findContainer returns the container of that name and what it is.
func findContainer(pod *corev1.Pod, name string) (*corev1.Container, kind, bool) {
	for _, k := range []kind{regular, initial, ephemeral} {
		list := containersOf(pod, k)
		if i := slices.IndexFunc(list, func(c corev1.Container) bool { return c.Name == name }); i >= 0 {
			return &list[i], k, true
		}
	}
	return nil, 0, false
}

// mayRestart reports whether a container that exited with the code is to run again, by its own
// rules first (KEP-5307), then by the pod's restart policy.
func mayRestart(pod *corev1.Pod, c *corev1.Container, exitCode int32) bool {
	policy := pod.Spec.RestartPolicy
	if c.RestartPolicy != nil {
		for _, rule := range c.RestartPolicyRules {
			if rule.Action == corev1.ContainerRestartRuleActionRestart && ruleMatches(rule, exitCode) {
				return true
			}
		}
		policy = corev1.RestartPolicy(*c.RestartPolicy)
	}
	switch policy {
	case corev1.RestartPolicyNever:
		return false
	case corev1.RestartPolicyOnFailure:
		return exitCode != 0
	default:
		return true
	}
}

func ruleMatches(rule corev1.ContainerRestartRule, exitCode int32) bool {
	if rule.ExitCodes == nil {
		return false
	}
	listed := slices.Contains(rule.ExitCodes.Values, exitCode)
	switch rule.ExitCodes.Operator {
	case corev1.ContainerRestartRuleOnExitCodesOpIn:
		return listed
	case corev1.ContainerRestartRuleOnExitCodesOpNotIn:
		return !listed
	default:
		return false
	}
}

// restartable reports whether a container may ever run again after a failure.
func restartable(pod *corev1.Pod, c *corev1.Container) bool { return mayRestart(pod, c, 1) }

// shouldRun reports whether a container that does not run is to be started.
func shouldRun(pod *corev1.Pod, c *corev1.Container, o observation) bool {
	if pod.DeletionTimestamp != nil {
		return false
	}
	latest := o.latest(c.Name)
	switch {
	case latest == nil:
		return true
	case latest.State == cri.ContainerRunning:
		return false
	case latest.State == cri.ContainerExited:
		return mayRestart(pod, c, latest.ExitCode)
	default:
		return true
	}
}

func isHostNetwork(pod *corev1.Pod) bool { return pod.Spec.HostNetwork }

func isTerminal(phase corev1.PodPhase) bool {
	return phase == corev1.PodFailed || phase == corev1.PodSucceeded
}

// describe writes a pod as kubelet messages do.
func describe(pod *corev1.Pod) string {
	return fmt.Sprintf("%s_%s(%s)", pod.Name, pod.Namespace, pod.UID)
}

// hashOf tells whether the parts of a container that cannot change while it runs have changed.
func hashOf(c *corev1.Container) string {
	data, _ := json.Marshal(map[string]string{"name": c.Name, "image": c.Image}) //nolint:errchkjson // strings marshal
	h := fnv.New32a()
	_, _ = h.Write(data)
	return strconv.FormatUint(uint64(h.Sum32()), 16)
}
