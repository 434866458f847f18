package scheduler

import (
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/component-helpers/resource"

	"github.com/keelson-dev/keelson/podspec/restart"
)

// The requests that priorities assume for a container without any, so that pods without requests do not pile up
// on one node.
const (
	DefaultMilliCPURequest int64 = 100
	DefaultMemoryRequest   int64 = 200 << 20
)

// Resources are amounts that pods request or nodes offer.
type Resources struct {
	MilliCPU int64 // thousandths of a CPU
	// Memory and EphemeralStorage are in bytes.
	Memory           int64
	EphemeralStorage int64
	// Pods is the number of pods that a node takes.
	Pods int64
	// Scalars are the amounts of extended, hugepages, attachable-volumes and other prefixed resources, without
	// zeros. The map is shared and must not be changed.
	Scalars map[corev1.ResourceName]int64
}

// ResourcesOf returns the amounts in a list, without names that scheduling does not know.
func ResourcesOf(list corev1.ResourceList) Resources {
	var r Resources
	for name, q := range list {
		switch name {
		case corev1.ResourceCPU:
			r.MilliCPU = q.MilliValue()
		case corev1.ResourceMemory:
			r.Memory = q.Value()
		case corev1.ResourceEphemeralStorage:
			r.EphemeralStorage = q.Value()
		case corev1.ResourcePods:
			r.Pods = q.Value()
		default:
			if n := q.Value(); n != 0 && isScalar(name) {
				if r.Scalars == nil {
					r.Scalars = map[corev1.ResourceName]int64{}
				}
				r.Scalars[name] = n
			}
		}
	}
	return r
}

// isScalar reports whether a resource counts although it is none of the four known by name.
func isScalar(name corev1.ResourceName) bool {
	s := string(name)
	switch {
	case strings.HasPrefix(s, corev1.ResourceHugePagesPrefix),
		strings.HasPrefix(s, corev1.ResourceAttachableVolumesPrefix),
		strings.Contains(s, corev1.ResourceDefaultNamespacePrefix):
		return true
	case !strings.Contains(s, "/"), strings.HasPrefix(s, corev1.DefaultResourceRequestsPrefix):
		return false
	}
	// An extended resource's name must remain valid with the prefix "requests.", as in quota.
	return len(validation.IsQualifiedName(corev1.DefaultResourceRequestsPrefix+s)) == 0
}

// plus returns r plus sign times o.
func (r Resources) plus(o Resources, sign int64) Resources {
	r.MilliCPU += sign * o.MilliCPU
	r.Memory += sign * o.Memory
	r.EphemeralStorage += sign * o.EphemeralStorage
	r.Pods += sign * o.Pods
	if len(o.Scalars) == 0 {
		return r
	}
	sum := maps.Clone(r.Scalars)
	if sum == nil {
		sum = make(map[corev1.ResourceName]int64, len(o.Scalars))
	}
	for name, n := range o.Scalars {
		if sum[name] += sign * n; sum[name] == 0 {
			delete(sum, name)
		}
	}
	if len(sum) == 0 {
		sum = nil
	}
	r.Scalars = sum
	return r
}

// Requests returns the requests of a pod that is not bound yet: the sum of its containers, or the largest init
// container, or the pod-level requests, and its overhead.
func Requests(pod *corev1.Pod) Resources {
	r := ResourcesOf(resource.PodRequests(pod, resource.PodResourcesOptions{}))
	r.Pods = 0
	return r
}

// statusOptions makes requests include those of in-place resizes (KEP-1287, KEP-5419).
func statusOptions() resource.PodResourcesOptions {
	return resource.PodResourcesOptions{UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true}
}

// PodInfo is a pod and what it uses of its node. It is shared and never changed.
type PodInfo struct {
	Pod      *corev1.Pod
	Requests Resources // including overhead
	// NonZeroMilliCPU and NonZeroMemory are the requests with DefaultMilliCPURequest and DefaultMemoryRequest
	// for each container without any.
	NonZeroMilliCPU, NonZeroMemory int64
	Ports                          []HostPort
	// Claims are the names of the persistent volume claims that the pod names, without those of ephemeral volumes.
	Claims []string
	// Affinity is the pod's affinity and anti-affinity to other pods, nil if it has none.
	Affinity *PodAffinity
}

// NewPodInfo returns the PodInfo of a pod.
func NewPodInfo(pod *corev1.Pod) *PodInfo {
	options := statusOptions()
	requests := resource.PodRequests(pod, options)
	affinity, _ := PodAffinityOf(pod) // what cannot be parsed keeps no other pod away
	p := &PodInfo{Pod: pod, Requests: ResourcesOf(requests), Ports: HostPorts(pod), Claims: claimsOf(pod), Affinity: affinity}
	p.Requests.Pods = 0

	whole := resource.IsPodLevelRequestsSet(pod)
	options.NonMissingContainerRequests = corev1.ResourceList{}
	if _, ok := requests[corev1.ResourceCPU]; !ok || !whole {
		options.NonMissingContainerRequests[corev1.ResourceCPU] = *apiresource.NewMilliQuantity(DefaultMilliCPURequest, apiresource.DecimalSI)
	}
	if _, ok := requests[corev1.ResourceMemory]; !ok || !whole {
		options.NonMissingContainerRequests[corev1.ResourceMemory] = *apiresource.NewQuantity(DefaultMemoryRequest, apiresource.BinarySI)
	}
	if len(options.NonMissingContainerRequests) > 0 {
		requests = resource.PodRequests(pod, options)
	}
	p.NonZeroMilliCPU = requests.Cpu().MilliValue()
	p.NonZeroMemory = requests.Memory().Value()
	return p
}

func claimsOf(pod *corev1.Pod) []string {
	var names []string
	for i := range pod.Spec.Volumes {
		if claim := pod.Spec.Volumes[i].PersistentVolumeClaim; claim != nil {
			names = append(names, claim.ClaimName)
		}
	}
	return names
}

// HostPort is a port of a node, which a pod occupies in a NodeInfo.
type HostPort struct {
	// IP is the address; 0.0.0.0 means all of them.
	IP       string
	Protocol corev1.Protocol
	Port     int32
}

// HostPorts returns the node's ports that a pod occupies throughout its life: those of its containers and of
// its sidecars.
func HostPorts(pod *corev1.Pod) []HostPort {
	var ports []HostPort
	add := func(c *corev1.Container) {
		for _, p := range c.Ports {
			if p.HostPort <= 0 {
				continue
			}
			h := HostPort{IP: p.HostIP, Protocol: p.Protocol, Port: p.HostPort}
			if h.IP == "" {
				h.IP = "0.0.0.0"
			}
			if h.Protocol == "" {
				h.Protocol = corev1.ProtocolTCP
			}
			ports = append(ports, h)
		}
	}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; restart.Sidecar(c) {
			add(c)
		}
	}
	for i := range pod.Spec.Containers {
		add(&pod.Spec.Containers[i])
	}
	return ports
}

// Conflicts reports whether two pods cannot have these ports on one node.
func (p HostPort) Conflicts(o HostPort) bool {
	return p.Port == o.Port && p.Protocol == o.Protocol && (p.IP == o.IP || p.IP == "0.0.0.0" || o.IP == "0.0.0.0")
}
