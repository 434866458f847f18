package cluster_test

import (
	"testing"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func rcOf(name string, replicas int32) *corev1.ReplicationController {
	d := deploymentOf(name, replicas)
	return &corev1.ReplicationController{ObjectMeta: d.ObjectMeta, Spec: corev1.ReplicationControllerSpec{Replicas: &replicas, Template: &d.Spec.Template}}
}

func (w *world) createRC(rc *corev1.ReplicationController) {
	w.t.Helper()
	_, err := w.cs.CoreV1().ReplicationControllers("default").Create(w.ctx, rc, metav1.CreateOptions{})
	w.check(err)
}

func (w *world) rc(name string) *corev1.ReplicationController {
	w.t.Helper()
	rc, err := w.cs.CoreV1().ReplicationControllers("default").Get(w.ctx, name, metav1.GetOptions{})
	w.check(err)
	return rc
}

// TestReplicationController: it is scaled by its subresource, and its pods outlive it.
func TestReplicationController(t *testing.T) {
	inBubble(t, nodes(2), func(t *testing.T, w *world) {
		rcs := w.cs.CoreV1().ReplicationControllers("default")
		w.createRC(rcOf("old", 3))
		time.Sleep(10 * time.Second)
		w.running("old", 3, "nginx")
		for _, n := range []int32{5, 1} {
			_, err := rcs.UpdateScale(w.ctx, "old", &autoscalingv1.Scale{
				ObjectMeta: metav1.ObjectMeta{Name: "old", Namespace: "default"}, Spec: autoscalingv1.ScaleSpec{Replicas: n},
			}, metav1.UpdateOptions{})
			w.check(err)
			time.Sleep(time.Minute)
			w.running("old", int(n), "nginx")
			scale, err := rcs.GetScale(w.ctx, "old", metav1.GetOptions{})
			w.check(err)
			if s := w.rc("old").Status; scale.Spec.Replicas != n || scale.Status.Replicas != n || scale.Status.Selector != "app=old" || s.AvailableReplicas != n {
				t.Errorf("scaled to %d: %+v, %+v", n, scale, s)
			}
		}
		list, err := rcs.List(w.ctx, metav1.ListOptions{FieldSelector: "status.replicas=1"})
		w.check(err)
		if len(list.Items) != 1 {
			t.Errorf("%d selected by their replicas", len(list.Items))
		}
		if events, err := w.cs.CoreV1().Events("default").List(w.ctx, metav1.ListOptions{FieldSelector: "involvedObject.kind=ReplicationController"}); err != nil || len(events.Items) == 0 ||
			events.Items[0].Source.Component != "replication-controller" {
			t.Errorf("events %+v, %v", events, err)
		}

		w.check(rcs.Delete(w.ctx, "old", metav1.DeleteOptions{}))
		time.Sleep(time.Minute)
		if pod := w.running("old", 1, "nginx")[0]; len(pod.OwnerReferences) != 0 {
			t.Errorf("owned by %v", pod.OwnerReferences)
		}
		w.createRC(rcOf("old", 1)) // adopts it
		time.Sleep(time.Minute)
		if pod := w.running("old", 1, "nginx")[0]; !metav1.IsControlledBy(&pod, w.rc("old")) {
			t.Errorf("owned by %v", pod.OwnerReferences)
		}
		background := metav1.DeletePropagationBackground
		w.check(rcs.Delete(w.ctx, "old", metav1.DeleteOptions{PropagationPolicy: &background}))
		time.Sleep(time.Minute)
		if n := len(w.listed("old")); n != 0 {
			t.Errorf("%d pods are left", n)
		}
	})
}
