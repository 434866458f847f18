package kubelet

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/keelson-dev/keelson/podspec/restart"
)

// Refusal says why a node rejects a pod. An error of Volumes.Prepare may be or wrap one: see there.
type Refusal struct{ Reason, Message string } // of the pod's status

// Error implements error.
func (r *Refusal) Error() string { return r.Message }

// admit decides whether the node can run the pod besides those it already has. The scheduler has checked this before,
// but it may have been bypassed, or its data may have been stale. Allocatable is what the node really has, whatever the
// API says.
func admit(pod *corev1.Pod, others []*corev1.Pod, node *corev1.Node, allocatable corev1.ResourceList) *Refusal {
	if want, ok := pod.Labels[corev1.LabelOSStable]; ok && want != runtime.GOOS {
		return &Refusal{"PodOSSelectorNodeLabelDoesNotMatch",
			"Failed to admit pod as the `kubernetes.io/os` label doesn't match node label"}
	}
	if os := pod.Spec.OS; os != nil && string(os.Name) != runtime.GOOS {
		return &Refusal{"PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS"}
	}
	if r := insufficient(pod, others, allocatable); r != nil {
		return r
	}
	predicate := func(name, why string) *Refusal {
		return &Refusal{name, fmt.Sprintf("Predicate %s failed: %s", name, why)}
	}
	if fits, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node); err != nil || !fits {
		return predicate("NodeAffinity", "node(s) didn't match Pod's node affinity/selector")
	}
	if pod.Spec.NodeName != "" && pod.Spec.NodeName != node.Name {
		return predicate("NodeName", "node(s) didn't match the requested node name")
	}
	if portsTaken(pod, others) {
		return predicate("NodePorts", "node(s) didn't have free ports for the requested pod ports")
	}
	for _, taint := range node.Spec.Taints {
		if taint.Effect == corev1.TaintEffectNoExecute && !tolerated(pod.Spec.Tolerations, taint) {
			return predicate("TaintToleration", "node(s) had taints that the pod didn't tolerate")
		}
	}
	return nil
}

// insufficient names the first resource that the node has too little of.
func insufficient(pod *corev1.Pod, others []*corev1.Pod, allocatable corev1.ResourceList) *Refusal {
	lacks := func(name corev1.ResourceName, requested, used, capacity int64) *Refusal {
		return &Refusal{"OutOf" + string(name), fmt.Sprintf(
			"Node didn't have enough resource: %s, requested: %d, used: %d, capacity: %d", name, requested, used, capacity)}
	}
	if room := allocatable.Pods().Value(); int64(len(others))+1 > room {
		return lacks(corev1.ResourcePods, 1, int64(len(others)), room)
	}
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	if len(requests) == 0 {
		return nil
	}
	used := map[corev1.ResourceName]int64{}
	for _, other := range others {
		for name, quantity := range resourcehelper.PodRequests(other, resourcehelper.PodResourcesOptions{UseStatusResources: true}) {
			used[name] += amount(name, quantity)
		}
	}
	for _, name := range resourceOrder(requests) {
		capacity, listed := allocatable[name]
		if !listed && isExtended(name) {
			continue // not the node's to account for
		}
		want, have := amount(name, requests[name]), amount(name, capacity)
		if want > 0 && want > have-used[name] {
			return lacks(name, want, used[name], have)
		}
	}
	return nil
}

// amount is the quantity in the scheduler's unit: thousandths of CPUs, and whole units of everything else.
func amount(name corev1.ResourceName, q resource.Quantity) int64 {
	if name == corev1.ResourceCPU {
		return q.MilliValue()
	}
	return q.Value()
}

// resourceOrder is the order in which shortages are reported: CPU, memory, ephemeral storage, then the others by name.
func resourceOrder(list corev1.ResourceList) []corev1.ResourceName {
	rank := func(name corev1.ResourceName) int {
		first := []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage}
		if i := slices.Index(first, name); i >= 0 {
			return i
		}
		return len(first)
	}
	var names []corev1.ResourceName
	for name := range list {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b corev1.ResourceName) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b))
	})
	return names
}

// isExtended reports whether a resource belongs to none of Kubernetes' own domains.
func isExtended(name corev1.ResourceName) bool {
	domain, _, qualified := strings.Cut(string(name), "/")
	return qualified && !strings.Contains(domain, "kubernetes.io") && !strings.HasPrefix(string(name), "requests.")
}

// portsTaken reports whether one of the host ports that the pod wants is in use.
func portsTaken(pod *corev1.Pod, others []*corev1.Pod) bool {
	wanted := hostPorts(pod)
	if len(wanted) == 0 {
		return false
	}
	for _, other := range others {
		for _, theirs := range hostPorts(other) {
			for _, ours := range wanted {
				sameIP := ours.HostIP == theirs.HostIP || ours.HostIP == "" || theirs.HostIP == ""
				if ours.HostPort == theirs.HostPort && ours.Protocol == theirs.Protocol && sameIP {
					return true
				}
			}
		}
	}
	return false
}

func hostPorts(pod *corev1.Pod) []corev1.ContainerPort {
	var list []corev1.ContainerPort
	add := func(c *corev1.Container) {
		for _, p := range c.Ports {
			if p.HostPort <= 0 {
				continue
			}
			if p.HostIP == "0.0.0.0" {
				p.HostIP = ""
			}
			p.Protocol = cmp.Or(p.Protocol, corev1.ProtocolTCP)
			list = append(list, p)
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
	return list
}

// tolerated reports whether a toleration covers the taint.
func tolerated(tolerations []corev1.Toleration, taint corev1.Taint) bool {
	return slices.ContainsFunc(tolerations, func(t corev1.Toleration) bool {
		if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
			return false
		}
		switch t.Operator {
		case corev1.TolerationOpExists:
			return true
		case "", corev1.TolerationOpEqual:
			return t.Key != "" && t.Value == taint.Value
		default:
			return false
		}
	})
}
