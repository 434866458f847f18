package kubelet

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/podspec/features"
)

// unsupported rejects a pod that needs something this kubelet does not implement. The scheduler and the API server
// reject the same, but a pod may be static, or name its node itself.
func unsupported(pod *corev1.Pod, host *Host) *Refusal {
	lacking := features.Needed(&pod.Spec)
	if host.Devices.Claims == nil {
		lacking = append(lacking, unsupportedClaims(&pod.Spec)...)
	}
	if len(lacking) == 0 {
		return nil
	}
	return &Refusal{"PodFeatureUnsupported", "Pod requires node features that are not available: " + strings.Join(lacking, ", ")}
}

// unsupportedClaims returns the claims for devices.
func unsupportedClaims(spec *corev1.PodSpec) []string {
	var lacking []string
	for _, c := range spec.ResourceClaims {
		lacking = append(lacking, fmt.Sprintf("resourceClaim %q", c.Name))
	}
	return lacking
}
