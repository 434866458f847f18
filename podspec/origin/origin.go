// Package origin says where a pod comes from: the API, or a manifest on a node, which makes it a static pod that the API
// shows as a mirror pod. A kubelet runs and reports pods by it; an API server and a kubelet count critical pods by it.
//
// Everything here is a pure function of its arguments.
package origin

import corev1 "k8s.io/api/core/v1"

const (
	// Annotation names the source of a pod that a kubelet runs. The API has no pods with it but mirror pods and those
	// whose author wrote it.
	Annotation = "kubernetes.io/config.source"

	// HashAnnotation is of the manifest of a static pod; its mirror carries the value in MirrorAnnotation.
	HashAnnotation = "kubernetes.io/config.hash"

	// SeenAnnotation is when a kubelet first read the manifest of a static pod.
	SeenAnnotation = "kubernetes.io/config.seen"

	// MirrorAnnotation marks a mirror pod.
	MirrorAnnotation = corev1.MirrorPodAnnotationKey
)

// The values of Annotation.
const (
	API  = "api"
	File = "file"
)

// FromAPI reports whether a pod comes from the API, as one without Annotation does.
func FromAPI(pod *corev1.Pod) bool {
	source, said := pod.Annotations[Annotation]
	return !said || source == API
}

// Mirror reports whether a pod only represents a static one.
func Mirror(pod *corev1.Pod) bool {
	_, is := pod.Annotations[MirrorAnnotation]
	return is
}

// Static reports whether a pod comes from elsewhere than the API and does not only represent one that does.
func Static(pod *corev1.Pod) bool { return !FromAPI(pod) && !Mirror(pod) }
