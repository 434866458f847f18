package scheduler

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/component-helpers/resource"
	"k8s.io/utils/ptr"

	"github.com/keelson-dev/keelson/informer"
)

// EventKind is a kind of cluster event; kinds combine to a set.
type EventKind uint16

// The kinds of events.
const (
	NodeAdded EventKind = 1 << iota
	NodeUpdated
	NodeDeleted
	// AssignedPodAdded means that a pod was bound, by any client.
	AssignedPodAdded
	AssignedPodUpdated
	// AssignedPodDeleted means that a pod freed its node, by its deletion, its end, or a failed binding.
	AssignedPodDeleted
	// PodUpdated means that the pending pod itself changed.
	PodUpdated
	// ObjectAdded, ObjectUpdated and ObjectDeleted are about other objects; see Sources.Others.
	ObjectAdded
	ObjectUpdated
	ObjectDeleted

	AllEvents = ObjectDeleted<<1 - 1
)

// Change is what changed in a node or pod; changes combine.
type Change uint16

// The distinguished changes.
const (
	NodeAllocatableChanged Change = 1 << iota
	NodeLabelsChanged
	NodeTaintsChanged // or it became schedulable
	NodeConditionsChanged
	NodeAnnotationsChanged
	PodLabelsChanged
	PodScaledDown // requests less of something
	PodScaledUp   // requests more of something
	PodTolerationsChanged
	PodGatesGone
	NodeFeaturesChanged
	PodClaimsChanged // it has other resource claims that were made for it
)

// Event is a cluster event that may let formerly refused pods pass. Objects are shared and must not be changed.
type Event struct {
	Kind EventKind
	// Change is set for NodeUpdated, AssignedPodUpdated and PodUpdated.
	Change Change
	// OldNode and Node are the node's states before and after the event, if they exist.
	OldNode, Node *corev1.Node
	// OldPod and Pod are the pod's states before and after; a deleted pod is OldPod.
	OldPod, Pod *corev1.Pod
	// OldObject and Object are the states before and after of another object, such as a
	// *corev1.PersistentVolumeClaim. A deleted one is OldObject.
	OldObject, Object informer.Object
}

// NodeChange returns the differences between two states of a node that matter to scheduling.
func NodeChange(old, updated *corev1.Node) Change {
	var c Change
	if !equality.Semantic.DeepEqual(old.Status.Allocatable, updated.Status.Allocatable) {
		c |= NodeAllocatableChanged
	}
	if !maps.Equal(old.Labels, updated.Labels) {
		c |= NodeLabelsChanged
	}
	if old.Spec.Unschedulable && !updated.Spec.Unschedulable ||
		!equality.Semantic.DeepEqual(old.Spec.Taints, updated.Spec.Taints) {
		c |= NodeTaintsChanged
	}
	if !maps.Equal(conditions(old), conditions(updated)) {
		c |= NodeConditionsChanged
	}
	if !maps.Equal(old.Annotations, updated.Annotations) {
		c |= NodeAnnotationsChanged
	}
	if !slices.Equal(old.Status.DeclaredFeatures, updated.Status.DeclaredFeatures) {
		c |= NodeFeaturesChanged
	}
	return c
}

func conditions(node *corev1.Node) map[corev1.NodeConditionType]corev1.ConditionStatus {
	statuses := make(map[corev1.NodeConditionType]corev1.ConditionStatus, len(node.Status.Conditions))
	for _, c := range node.Status.Conditions {
		statuses[c.Type] = c.Status
	}
	return statuses
}

// PodChange returns the differences between two states of a pod that matter to scheduling.
func PodChange(old, updated *corev1.Pod) Change {
	var c Change
	if !maps.Equal(old.Labels, updated.Labels) {
		c |= PodLabelsChanged
	}
	if !sameRequests(old, updated) {
		was, is := resource.PodRequests(old, statusOptions()), resource.PodRequests(updated, statusOptions())
		if lessOfAny(is, was) {
			c |= PodScaledDown
		}
		if lessOfAny(was, is) {
			c |= PodScaledUp
		}
	}
	// Tolerations can be added, but neither changed nor removed.
	if len(old.Spec.Tolerations) != len(updated.Spec.Tolerations) {
		c |= PodTolerationsChanged
	}
	if len(old.Spec.SchedulingGates) != 0 && len(updated.Spec.SchedulingGates) == 0 {
		c |= PodGatesGone
	}
	if !equality.Semantic.DeepEqual(old.Status.ResourceClaimStatuses, updated.Status.ResourceClaimStatuses) {
		c |= PodClaimsChanged
	}
	return c
}

// lessOfAny reports whether a lacks, or has less of, something in b.
func lessOfAny(a, b corev1.ResourceList) bool {
	for name, much := range b {
		little, ok := a[name]
		if !ok || little.MilliValue() < much.MilliValue() {
			return true
		}
	}
	return false
}

// sameRequests avoids summing up requests for most updates of a pod, which do not change its resources.
func sameRequests(a, b *corev1.Pod) bool {
	same := func(x, y corev1.Container) bool {
		return x.Name == y.Name && equality.Semantic.DeepEqual(x.Resources, y.Resources) &&
			ptr.Equal(x.RestartPolicy, y.RestartPolicy)
	}
	sameStatus := func(x, y corev1.ContainerStatus) bool {
		return x.Name == y.Name && equality.Semantic.DeepEqual(x.Resources, y.Resources) &&
			equality.Semantic.DeepEqual(x.AllocatedResources, y.AllocatedResources)
	}
	return slices.EqualFunc(a.Spec.Containers, b.Spec.Containers, same) &&
		slices.EqualFunc(a.Spec.InitContainers, b.Spec.InitContainers, same) &&
		equality.Semantic.DeepEqual(a.Spec.Resources, b.Spec.Resources) &&
		equality.Semantic.DeepEqual(a.Spec.Overhead, b.Spec.Overhead) &&
		slices.EqualFunc(a.Status.ContainerStatuses, b.Status.ContainerStatuses, sameStatus) &&
		slices.EqualFunc(a.Status.InitContainerStatuses, b.Status.InitContainerStatuses, sameStatus) &&
		equality.Semantic.DeepEqual(a.Status.Resources, b.Status.Resources) &&
		equality.Semantic.DeepEqual(a.Status.AllocatedResources, b.Status.AllocatedResources) &&
		resource.IsPodResizeInfeasible(a) == resource.IsPodResizeInfeasible(b)
}
