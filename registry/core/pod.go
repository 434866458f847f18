package core

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/podspec"
	"github.com/keelson-dev/keelson/registry"
)

// pods is the kind Pod with the subresources status, ephemeralcontainers, resize, binding,
// eviction, log, exec, attach, portforward and proxy.
func pods() registry.Kind {
	return registry.Definition[*corev1.Pod]{
		Names: registry.Names{
			Kind: "Pod", Plural: "pods", Singular: "pod", Short: []string{"po"}, Categories: []string{"all"},
		},
		GroupVersion: corev1.SchemeGroupVersion,
		Namespaced:   true,
		New:          func() *corev1.Pod { return &corev1.Pod{} },
		NewList:      func() runtime.Object { return &corev1.PodList{} },
		Rules: registry.Rules[*corev1.Pod]{
			Default:        podspec.DefaultPod,
			PrepareCreate:  preparePodCreate,
			PrepareUpdate:  preparePodUpdate,
			Validate:       podspec.ValidateCreate,
			ValidateUpdate: podspec.ValidateUpdate,
			Deletion:       registry.Deletion[*corev1.Pod]{Grace: podGrace, ReturnsObject: true},
		},
		Fields: podFields,
		Sub: registry.Subresources[*corev1.Pod]{
			Views: map[string]registry.View[*corev1.Pod]{
				"status": {
					PrepareUpdate: preparePodStatus, ValidateUpdate: podspec.ValidateStatusUpdate,
					Resets: []string{"spec", "metadata.deletionTimestamp", "metadata.ownerReferences"},
				},
				// Upstream does not declare what these two reset.
				"ephemeralcontainers": {
					PrepareUpdate: prepareEphemeralContainers, ValidateUpdate: podspec.ValidateEphemeralContainersUpdate,
					Resets: []string{},
				},
				"resize": {
					PrepareUpdate: preparePodResize, ValidateUpdate: podspec.ValidateResize,
					Resets: []string{},
				},
			},
			Actions:  map[string]registry.Action{"binding": binding(), "eviction": eviction()},
			Connects: podConnects(),
		},
		Columns: podColumns(),
	}.Kind()
}

func podFields(pod *corev1.Pod) fields.Set {
	set := fields.Set{
		"spec.nodeName":            pod.Spec.NodeName,
		"spec.restartPolicy":       string(pod.Spec.RestartPolicy),
		"spec.schedulerName":       pod.Spec.SchedulerName,
		"spec.serviceAccountName":  pod.Spec.ServiceAccountName,
		"spec.hostNetwork":         strconv.FormatBool(pod.Spec.HostNetwork),
		"status.phase":             string(pod.Status.Phase),
		"status.podIP":             "",
		"status.nominatedNodeName": pod.Status.NominatedNodeName,
	}
	if len(pod.Status.PodIPs) > 0 {
		set["status.podIP"] = pod.Status.PodIPs[0].IP
	}
	return set
}

// podGrace returns the grace period of a pod in seconds. Only a pod that runs on a node needs one; a negative
// request means at once, but after its node has released it.
func podGrace(pod *corev1.Pod, asked *int64) int64 {
	if pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		return 0
	}
	var grace int64
	switch {
	case asked != nil:
		grace = *asked
	case pod.Spec.TerminationGracePeriodSeconds != nil:
		grace = *pod.Spec.TerminationGracePeriodSeconds
	}
	if grace < 0 {
		return 1
	}
	return grace
}
