package podspec

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/keelson-dev/keelson/internal/boundedquantity"
)

func isHugePage(name corev1.ResourceName) bool {
	return strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// divisibleByPage reports whether q is a multiple of the page size in name.
func divisibleByPage(name corev1.ResourceName, q resource.Quantity) bool {
	page, err := boundedquantity.Parse(strings.TrimPrefix(string(name), corev1.ResourceHugePagesPrefix))
	if err != nil || page.Sign() <= 0 || page.MilliValue()%1000 != 0 || page.Value() == 0 {
		return false
	}
	return q.Value()%page.Value() == 0
}

// native resources are those of Kubernetes itself: without a domain, or in *kubernetes.io.
func native(name corev1.ResourceName) bool {
	return !strings.Contains(string(name), "/") || strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix)
}

// extended resources are those in other domains, such as example.com/gpu.
func extended(name corev1.ResourceName) bool {
	return !native(name) && !strings.HasPrefix(string(name), corev1.DefaultResourceRequestsPrefix) &&
		len(validation.IsQualifiedName(corev1.DefaultResourceRequestsPrefix+string(name))) == 0
}

// overcommittable resources may have a limit above their request.
func overcommittable(name corev1.ResourceName) bool { return native(name) && !isHugePage(name) }

func standardContainerResource(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
		return true
	}
	return isHugePage(name)
}

// standardResource reports whether the API defines a name without a domain, even if only for quotas.
func standardResource(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourceStorage, corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory, corev1.ResourceRequestsStorage,
		corev1.ResourceRequestsEphemeralStorage, corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory,
		corev1.ResourceLimitsEphemeralStorage:
		return true
	}
	return standardContainerResource(name) || objectCount(name) ||
		strings.HasPrefix(string(name), corev1.ResourceRequestsHugePagesPrefix)
}

// objectCount reports whether a resource counts objects in a quota.
func objectCount(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourcePods, corev1.ResourceQuotas, corev1.ResourceServices, corev1.ResourceReplicationControllers,
		corev1.ResourceSecrets, corev1.ResourceConfigMaps, corev1.ResourcePersistentVolumeClaims,
		corev1.ResourceServicesNodePorts, corev1.ResourceServicesLoadBalancers:
		return true
	}
	return false
}

// countable resources come in whole numbers.
func countable(name corev1.ResourceName) bool { return objectCount(name) || extended(name) }
