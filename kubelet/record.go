package kubelet

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/events"
)

// podEvent records an event about a pod.
func (k *Kubelet) podEvent(pod *corev1.Pod, eventType, reason, format string, args ...any) {
	k.recorder.Record(events.Event{
		Regarding: podReference(pod), Type: eventType, Reason: reason, Message: fmt.Sprintf(format, args...),
	})
}

// subject is the container that an event is about; the id may be empty.
type subject struct {
	pod      *corev1.Pod
	name, id string
}

// containerEvent records an event about one container of a pod. The container's id is kept out
// of the message, so that the same event on another instance counts as the same.
func (k *Kubelet) containerEvent(s subject, eventType, reason, message string) {
	ref := podReference(s.pod)
	if _, kind, ok := findContainer(s.pod, s.name); ok {
		ref.FieldPath = fieldPath(kind, s.name)
	}
	if s.id != "" {
		message = strings.ReplaceAll(message, s.id, s.name)
	}
	k.recorder.Record(events.Event{Regarding: ref, Type: eventType, Reason: reason, Message: message})
}

// nodeEvent records an event about the node. By old custom its reference carries the node's name
// as its UID.
func (k *Kubelet) nodeEvent(reason, message string) {
	k.recorder.Record(events.Event{
		Regarding: corev1.ObjectReference{Kind: "Node", Name: k.name, UID: types.UID(k.name)},
		Type:      corev1.EventTypeNormal, Reason: reason, Message: message,
	})
}

func podReference(pod *corev1.Pod) corev1.ObjectReference {
	return corev1.ObjectReference{
		APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
		ResourceVersion: pod.ResourceVersion,
	}
}

func fieldPath(k kind, name string) string {
	switch k {
	case initial:
		return "spec.initContainers{" + name + "}"
	case ephemeral:
		return "spec.ephemeralContainers{" + name + "}"
	default:
		return "spec.containers{" + name + "}"
	}
}
