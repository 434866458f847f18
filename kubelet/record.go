package kubelet

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/kubelet/decision"
)

// recorder records what happens to pods.
type recorder struct{ events events.Recorder }

// podEvent records an event about a pod.
func (r recorder) podEvent(pod *corev1.Pod, eventType, reason, format string, args ...any) {
	r.events.Record(events.Event{
		Regarding: podReference(pod), Type: eventType, Reason: reason, Message: fmt.Sprintf(format, args...),
	})
}

// subject is the container that an event is about; the ID may be empty.
type subject struct {
	pod      *corev1.Pod
	name, id string
}

// containerEvent records an event about one container of a pod. The message leaves out the container's ID, so that the
// same event on another instance is aggregated with it.
func (r recorder) containerEvent(s subject, eventType, reason, message string) {
	ref := podReference(s.pod)
	if _, kind, ok := decision.Container(s.pod, s.name); ok {
		ref.FieldPath = fieldPath(kind, s.name)
	}
	if s.id != "" {
		message = strings.ReplaceAll(message, s.id, s.name)
	}
	r.events.Record(events.Event{Regarding: ref, Type: eventType, Reason: reason, Message: message})
}

// nodeEvent records an event about the node. By convention, its reference has the node's name as its UID.
func (k *Kubelet) nodeEvent(reason, message string) {
	k.recorder.events.Record(events.Event{
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

func fieldPath(k decision.Kind, name string) string {
	switch k {
	case decision.Initial:
		return "spec.initContainers{" + name + "}"
	case decision.Ephemeral:
		return "spec.ephemeralContainers{" + name + "}"
	default:
		return "spec.containers{" + name + "}"
	}
}
