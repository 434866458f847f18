// Package critical says which pods are critical to a cluster or a node: it has the system's priority classes, which an
// API server creates, and the kubelet's criteria.
//
// Everything here is a pure function of its arguments.
package critical

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/podspec/origin"
)

// Limits of priorities.
const (
	// SystemPrefix starts the names that are reserved for system priority classes.
	SystemPrefix = "system-"
	// HighestUserPriority is the highest value of a class that is not a system class.
	HighestUserPriority int32 = 1_000_000_000
	// SystemPriority is the lowest priority of a system pod.
	SystemPriority int32 = 2 * HighestUserPriority
)

// The system's priority classes.
const (
	// ClusterClass is for pods that a cluster needs on some node.
	ClusterClass = SystemPrefix + "cluster-critical"
	// NodeClass is for pods that a node needs and that cannot move.
	NodeClass = SystemPrefix + "node-critical"
)

// Class is a system priority class.
type Class struct {
	Name        string
	Value       int32  // the priority of its pods
	Description string // upstream's text
}

// Classes returns the priority classes that exist in every cluster.
func Classes() []Class {
	return []Class{
		{NodeClass, SystemPriority + 1000, "Used for system critical pods that must not be moved from their current node."},
		{ClusterClass, SystemPriority, "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary."},
	}
}

// Pod reports whether a pod is critical: a static pod, a mirror pod, or a pod with a system priority. Critical pods are
// not evicted, and are admitted to a node that is short of a resource.
func Pod(pod *corev1.Pod) bool {
	return !origin.FromAPI(pod) || origin.Mirror(pod) || pod.Spec.Priority != nil && *pod.Spec.Priority >= SystemPriority
}

// ForNode reports whether a pod is critical to its node: the kernel kills such pods last when memory runs out.
func ForNode(pod *corev1.Pod) bool {
	return pod.Spec.PriorityClassName == NodeClass && Pod(pod)
}
