package daemonset_test

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// wantWrites compares the controller's writes since the last call.
func (b *bench) wantWrites(what, want string) {
	b.Helper()
	if got := fmt.Sprint(b.api.Writes()); got != want {
		b.Errorf("%s: %s, want %s", what, got, want)
	}
	b.api.Reset()
}

// TestStatusNotSeen: a set is left alone until the cache shows its last status.
func TestStatusNotSeen(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.kubelets(0, 0)
		b.nodes("a")
		create(b, logs())
		b.api.Reset()
		b.sets.Hold()
		name := b.list()[0].Name
		update(b, statusOf(podAt(name)), func(pod *corev1.Pod) { pod.Status.Conditions = nil })
		b.wantWrites("a pod is not ready any more", "[update daemonsets/status ns/log]")
		update(b, podAt(name), func(pod *corev1.Pod) { pod.Annotations = app("x") })
		b.wantWrites("before the cache shows that status", "[]")
		b.sets.Resume()
	})
}

// TestAdoptionNotSeen: a pod and a revision are adopted once, even if the cache does not show it yet.
func TestAdoptionNotSeen(t *testing.T) {
	touch := func(b *bench) {
		b.Helper()
		b.change(func(set *appsv1.DaemonSet) { set.Labels = app("x") })
	}
	inBubble(t, func(b *bench) {
		stray := pod("a-stray")
		stray.Labels = app("log")
		create(b, stray)
		b.pods.Hold()
		create(b, logs())
		b.api.Reset()
		touch(b)
		b.wantWrites("a pod", "[]")
		b.pods.Resume()
	})
	inBubble(t, func(b *bench) {
		create(b, &appsv1.ControllerRevision{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "r", Labels: map[string]string{"app": "log", "controller-revision-hash": "r"}},
			Data:       dataOf(b, stored(b)), Revision: 1,
		})
		b.revisions.Hold()
		create(b, logs())
		b.api.Reset()
		touch(b)
		b.wantWrites("a revision", "[]")
		b.revisions.Resume()
	})
}

// TestLabelsNotSeen: a pod that was labelled anew is not one of an old template, even if the cache does not show its label.
func TestLabelsNotSeen(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.kubelets(0, 0)
		b.nodes("a")
		set := create(b, logs())
		name := b.list()[0].Name
		update(b, podAt(name), func(pod *corev1.Pod) { delete(pod.Labels, "pod-template-generation") })
		b.pods.Hold()
		create(b, &appsv1.ControllerRevision{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "r", Labels: map[string]string{"app": "log", "controller-revision-hash": "r"}},
			Data:       dataOf(b, set), Revision: 5,
		})
		b.change(func(set *appsv1.DaemonSet) { set.Labels = app("x") })
		if pods := b.list(); len(pods) != 1 || pods[0].Name != name || pods[0].DeletionTimestamp != nil || pods[0].Labels["controller-revision-hash"] != "r" {
			b.Errorf("pods %+v", pods)
		}
		b.pods.Resume()
	})
}

// TestRollsOutAfterItsWrites: old pods are not replaced before the cache shows the new ones of other nodes.
func TestRollsOutAfterItsWrites(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.kubelets(0, 0)
		b.nodes("a", "b")
		create(b, logs(func(set *appsv1.DaemonSet) {
			set.Spec.Template.Spec.NodeSelector = map[string]string{"on": "a"}
			set.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateDaemonSet{MaxUnavailable: new(intstr.FromString("100%"))}
		}))
		b.pods.Hold()
		b.change(func(set *appsv1.DaemonSet) {
			image("two")(set)
			set.Spec.Template.Spec.NodeSelector = nil
		})
		b.wantPods("a one, b two")
		b.pods.Resume()
		b.after(time.Minute)
		b.wantPods("a two, b two")
	})
}
