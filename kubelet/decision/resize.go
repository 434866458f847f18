package decision

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/keelson-dev/keelson/podspec/qos"
)

// MessageResize says why a runtime that cannot resize containers has none resized.
const MessageResize = "In-place pod resize is not supported on this node"

// Allocation is the resources of a pod.
type Allocation struct {
	// Pod are those of the pod as a whole; nil if its spec has none.
	Pod *corev1.ResourceRequirements
	// Containers are those of its containers, by name; those that are missing have none.
	Containers map[string]corev1.ResourceRequirements
}

// AllocationOf returns the resources in a pod's spec.
func AllocationOf(spec *corev1.PodSpec) Allocation {
	a := Allocation{Pod: spec.Resources.DeepCopy(), Containers: map[string]corev1.ResourceRequirements{}}
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			a.Containers[list[i].Name] = *list[i].Resources.DeepCopy()
		}
	}
	return a
}

// Clone returns a copy that shares nothing with a.
func (a Allocation) Clone() Allocation {
	out := Allocation{Pod: a.Pod.DeepCopy(), Containers: make(map[string]corev1.ResourceRequirements, len(a.Containers))}
	for name, r := range a.Containers {
		out.Containers[name] = *r.DeepCopy()
	}
	return out
}

// Apply returns the pod with these requests and limits: a copy, unless they are its own.
func (a Allocation) Apply(pod *corev1.Pod) *corev1.Pod {
	given := pod.DeepCopy()
	given.Spec.Resources = a.Pod.DeepCopy()
	for _, list := range [][]corev1.Container{given.Spec.InitContainers, given.Spec.Containers} {
		for i := range list {
			r := a.Containers[list[i].Name]
			list[i].Resources.Requests, list[i].Resources.Limits = r.Requests.DeepCopy(), r.Limits.DeepCopy()
		}
	}
	if SameResources(&pod.Spec, &given.Spec) {
		return pod
	}
	return given
}

// Hold returns the newest state of a pod with the resources of another state of it: those that it was given.
func Hold(pod, given *corev1.Pod) *corev1.Pod {
	if SameResources(&pod.Spec, &given.Spec) {
		return pod
	}
	held := pod.DeepCopy()
	giveResources(&held.Spec, &given.Spec)
	return held
}

// HeldBefore returns a pod that is new to this kubelet with the resources that an earlier kubelet gave it, as far as
// the API knows them: if it says that a resize is pending, these are in the containers' statuses.
func HeldBefore(pod *corev1.Pod) *corev1.Pod {
	if findCondition(pod.Status.Conditions, corev1.PodResizePending) == nil {
		return pod
	}
	given := pod.DeepCopy()
	adopt := func(containers []corev1.Container, statuses []corev1.ContainerStatus) {
		for i := range containers {
			if s := findStatus(statuses, containers[i].Name); s != nil && s.Resources != nil {
				containers[i].Resources.Requests, containers[i].Resources.Limits = s.Resources.Requests, s.Resources.Limits
			}
		}
	}
	adopt(given.Spec.InitContainers, given.Status.InitContainerStatuses)
	adopt(given.Spec.Containers, given.Status.ContainerStatuses)
	if given.Spec.Resources != nil && given.Status.Resources != nil {
		given.Spec.Resources.Requests, given.Spec.Resources.Limits = given.Status.Resources.Requests, given.Status.Resources.Limits
	}
	return Hold(pod, given)
}

// InForceBefore returns the resources that were in force in a pod's running containers when an earlier kubelet reported
// them last. Containers about which the API says nothing have those of the pod's spec.
func InForceBefore(pod *corev1.Pod) Allocation {
	a := AllocationOf(&pod.Spec)
	for _, list := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for _, s := range list {
			if _, known := a.Containers[s.Name]; known && s.State.Running != nil && s.Resources != nil {
				a.Containers[s.Name] = *s.Resources.DeepCopy()
			}
		}
	}
	return a
}

// SameResources reports whether two states of a pod request the same resources.
func SameResources(a, b *corev1.PodSpec) bool {
	same := func(a, b []corev1.Container) bool {
		for i := range min(len(a), len(b)) {
			if !equality.Semantic.DeepEqual(a[i].Resources, b[i].Resources) {
				return false
			}
		}
		return true
	}
	return same(a.Containers, b.Containers) && same(a.InitContainers, b.InitContainers) && equality.Semantic.DeepEqual(a.Resources, b.Resources)
}

// giveResources sets a pod's resources to those of another state of it, which has the same containers.
func giveResources(to, from *corev1.PodSpec) {
	set := func(to, from []corev1.Container) {
		for i := range min(len(to), len(from)) {
			to[i].Resources = *from[i].Resources.DeepCopy()
		}
	}
	set(to.Containers, from.Containers)
	set(to.InitContainers, from.InitContainers)
	to.Resources = from.Resources.DeepCopy()
}

// ResizeCondition returns a condition about a resize to the resources of a generation of a pod's spec, which replaces
// the old one, if any. Its transition time is that of its reason.
func ResizeCondition(t corev1.PodConditionType, old *corev1.PodCondition, why Waiting, generation int64, now time.Time) *corev1.PodCondition {
	at := metav1.NewTime(now.Truncate(time.Second).UTC())
	c := &corev1.PodCondition{
		Type: t, Status: corev1.ConditionTrue, Reason: why.Reason, Message: why.Message, ObservedGeneration: generation,
		LastProbeTime: at, LastTransitionTime: at,
	}
	if old != nil && old.Reason == c.Reason {
		c.LastTransitionTime = old.LastTransitionTime
	}
	return c
}

// Wish is a pod that requests other resources than it was given.
type Wish struct {
	// Wanted is its newest state; Given is the same with the resources that it has.
	Wanted, Given *corev1.Pod
	// Since is when it was first found that it has to wait; zero if that was not found yet.
	Since time.Time
}

// Compare orders wishes by when they are granted: first those that raise no request, then by the pods' priorities and
// classes of service, the highest first, then by time.
func (w Wish) Compare(other Wish) int {
	rank := func(yes bool) int {
		if yes {
			return 0
		}
		return 1
	}
	guaranteed := func(pod *corev1.Pod) bool { return qos.Class(pod) == corev1.PodQOSGuaranteed }
	priority := func(pod *corev1.Pod) int32 {
		if pod.Spec.Priority == nil {
			return 0
		}
		return *pod.Spec.Priority
	}
	return cmp.Or(
		cmp.Compare(rank(!w.raises()), rank(!other.raises())),
		cmp.Compare(priority(other.Wanted), priority(w.Wanted)),
		cmp.Compare(rank(guaranteed(w.Wanted)), rank(guaranteed(other.Wanted))),
		cmp.Compare(rank(!w.Since.IsZero()), rank(!other.Since.IsZero())),
		w.Since.Compare(other.Since),
	)
}

// raises reports whether the pod requests more CPU or memory than it has.
func (w Wish) raises() bool {
	before := resourcehelper.PodRequests(w.Given, resourcehelper.PodResourcesOptions{})
	after := resourcehelper.PodRequests(w.Wanted, resourcehelper.PodResourcesOptions{})
	return after.Cpu().Cmp(*before.Cpu()) > 0 || after.Memory().Cmp(*before.Memory()) > 0
}

// Frees reports whether a pod takes up less CPU or memory than it did, counting what it was given and what it has.
func Frees(before, after *corev1.Pod) bool {
	o := resourcehelper.PodResourcesOptions{UseStatusResources: true}
	was, is := resourcehelper.PodRequests(before, o), resourcehelper.PodRequests(after, o)
	return is.Cpu().Cmp(*was.Cpu()) < 0 || is.Memory().Cmp(*was.Memory()) < 0
}

// conditions returns the conditions about the pod's resize.
func (r Resize) conditions() []corev1.PodCondition {
	var list []corev1.PodCondition
	for _, c := range []*corev1.PodCondition{r.Pending, r.Progress} {
		if c != nil {
			list = append(list, *c)
		}
	}
	return list
}

// aboutResize reports whether a condition is about a resize.
func aboutResize(t corev1.PodConditionType) bool {
	return slices.Contains([]corev1.PodConditionType{corev1.PodResizePending, corev1.PodResizeInProgress}, t)
}
