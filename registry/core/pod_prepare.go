package core

import (
	"context"
	"time"

	"github.com/keelson-dev/keelson/podspec/qos"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/podspec"
)

// Pods do not use registry.Parts: three views change the spec and raise the generation, and the status view
// keeps more than the spec.
func preparePodCreate(_ context.Context, pod *corev1.Pod) {
	pod.Generation = 1
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending}
	podspec.DropPod(pod, nil)
	if len(pod.Spec.SchedulingGates) > 0 {
		setPodCondition(&pod.Status, corev1.PodCondition{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonSchedulingGated,
			Message: "Scheduling is blocked due to non-empty scheduling gates",
		}, time.Now())
	}
	podspec.MergeLabelKeys(pod)
	podspec.AppArmorFromAnnotations(pod)
	podspec.DefaultPodResources(pod)
	pod.Status.QOSClass = qos.Class(pod)
}

func preparePodUpdate(_ context.Context, pod, old *corev1.Pod) {
	pod.Status = *old.Status.DeepCopy()
	keepPodResources(pod, old)
	podspec.DropPod(pod, old)
	bumpPodGeneration(pod, old)
}

// keepPodResources restores the pod-level resources for clients that do not know the field and omit it.
func keepPodResources(pod, old *corev1.Pod) {
	if pod.Spec.Resources == nil {
		pod.Spec.Resources = old.Spec.Resources.DeepCopy()
	}
}

// bumpPodGeneration raises the generation when the spec changes (KEP-5067).
func bumpPodGeneration(pod, old *corev1.Pod) {
	pod.Generation = old.Generation
	if !equality.Semantic.DeepEqual(pod.Spec, old.Spec) {
		pod.Generation++
	}
}

func preparePodStatus(_ context.Context, pod, old *corev1.Pod) {
	before := old.DeepCopy()
	pod.Spec = before.Spec
	pod.DeletionTimestamp = nil
	pod.OwnerReferences = before.OwnerReferences
	s, was := &pod.Status, &before.Status
	if s.QOSClass == "" {
		s.QOSClass = was.QOSClass
	}
	if s.ResourceClaimStatuses == nil {
		s.ResourceClaimStatuses = was.ResourceClaimStatuses
	}
	if s.ExtendedResourceClaimStatus == nil {
		s.ExtendedResourceClaimStatus = was.ExtendedResourceClaimStatus
	}
	if s.NodeAllocatableResourceClaimStatuses == nil {
		s.NodeAllocatableResourceClaimStatuses = was.NodeAllocatableResourceClaimStatuses
	}
	keepObservedGenerations(s, was)
	podspec.DropPod(pod, old)
}

// keepObservedGenerations restores the generations that a client omitted. There may be several conditions of a
// type; their order distinguishes them.
func keepObservedGenerations(s, old *corev1.PodStatus) {
	if s.ObservedGeneration == 0 {
		s.ObservedGeneration = old.ObservedGeneration
	}
	observed := map[corev1.PodConditionType][]int64{}
	for _, c := range old.Conditions {
		observed[c.Type] = append(observed[c.Type], c.ObservedGeneration)
	}
	for i := range s.Conditions {
		c := &s.Conditions[i]
		was := observed[c.Type]
		if len(was) == 0 {
			continue
		}
		observed[c.Type] = was[1:]
		if c.ObservedGeneration == 0 {
			c.ObservedGeneration = was[0]
		}
	}
}

func prepareEphemeralContainers(_ context.Context, pod, old *corev1.Pod) {
	before := old.DeepCopy()
	wanted := pod.Spec.EphemeralContainers
	pod.Spec, pod.Status = before.Spec, before.Status
	metav1.ResetObjectMetaForStatus(&pod.ObjectMeta, &before.ObjectMeta)
	pod.Spec.EphemeralContainers = wanted
	podspec.DropPod(pod, old)
	bumpPodGeneration(pod, old)
}

func preparePodResize(_ context.Context, pod, old *corev1.Pod) {
	onlyResize(pod, old.DeepCopy())
	keepPodResources(pod, old)
	podspec.DefaultPodResources(pod)
	podspec.DropPod(pod, old)
	bumpPodGeneration(pod, old)
}

// onlyResize restores everything of old except resources and resize policies. If the containers differ,
// validation refuses the update.
func onlyResize(pod, old *corev1.Pod) {
	if len(pod.Spec.Containers) != len(old.Spec.Containers) || len(pod.Spec.InitContainers) != len(old.Spec.InitContainers) {
		return
	}
	resources := pod.Spec.Resources
	containers := resized(pod.Spec.Containers, old.Spec.Containers)
	initContainers := resized(pod.Spec.InitContainers, old.Spec.InitContainers)
	pod.Spec, pod.Status = old.Spec, old.Status
	metav1.ResetObjectMetaForStatus(&pod.ObjectMeta, &old.ObjectMeta)
	pod.Spec.Resources, pod.Spec.Containers, pod.Spec.InitContainers = resources, containers, initContainers
}

// resized returns old, which it may change, with the new resources, or wanted itself if it does not have the
// same containers.
func resized(wanted, old []corev1.Container) []corev1.Container {
	for i := range wanted {
		if wanted[i].Name != old[i].Name {
			return wanted
		}
	}
	for i := range wanted {
		old[i].Resources, old[i].ResizePolicy = wanted[i].Resources, wanted[i].ResizePolicy
	}
	return old
}

// setPodCondition adds a condition or replaces the one of its type, whose transition time stays as long as the
// status does.
func setPodCondition(s *corev1.PodStatus, c corev1.PodCondition, now time.Time) {
	c.LastTransitionTime = metav1.NewTime(now)
	for i := range s.Conditions {
		if s.Conditions[i].Type != c.Type {
			continue
		}
		if s.Conditions[i].Status == c.Status {
			c.LastTransitionTime = s.Conditions[i].LastTransitionTime
		}
		s.Conditions[i] = c
		return
	}
	s.Conditions = append(s.Conditions, c)
}
