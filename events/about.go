package events

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// About refers to an object of the given kind, which decoded objects often do not carry.
func About(kind schema.GroupVersionKind, obj metav1.Object) corev1.ObjectReference {
	version, name := kind.ToAPIVersionAndKind()
	return corev1.ObjectReference{
		APIVersion: version, Kind: name,
		Namespace: obj.GetNamespace(), Name: obj.GetName(),
		UID: obj.GetUID(), ResourceVersion: obj.GetResourceVersion(),
	}
}

// Discard is a Recorder that drops everything.
func Discard() Recorder { return Func(func(Event) {}) }
