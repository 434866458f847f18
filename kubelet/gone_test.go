package kubelet

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestNoPodIsGoneOnItsWay: a pod that no worker has yet must not count as gone: a kubelet that has just started hands
// its pods to workers one after the other.
func TestNoPodIsGoneOnItsWay(t *testing.T) {
	k := &Kubelet{name: "n1", pods: podSet{
		workers: map[types.UID]*worker{}, delayed: map[types.NamespacedName]podChange{}, wake: make(chan struct{}, 1),
	}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "u"}, Spec: corev1.PodSpec{NodeName: "n1"}}
	if k.Gone("u") || k.Gone("nobody") || k.Ended("nobody") {
		t.Error("gone though nobody knows yet what there is")
	}
	k.enqueue(pod, false)
	k.pods.known = true
	if k.Gone("u") {
		t.Error("gone while it waits")
	}
	if changes := k.changes(); len(changes) != 1 || k.Gone("u") {
		t.Errorf("gone while it is handed to a worker: %v", changes)
	}
	k.handedOut()
	if !k.Gone("u") {
		t.Error("not gone although nobody has it")
	}
	k.pods.delayed[nameOf(pod)] = podChange{pod: pod}
	if k.Gone("u") {
		t.Error("gone while it waits for another of its name")
	}
}
