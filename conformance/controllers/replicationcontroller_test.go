package controllers_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/controller/replication"
)

// TestReplicationController: replication controllers that grow and shrink, whose pods fail, are released and adopted.
func TestReplicationController(t *testing.T) {
	c := &contest{
		names: []string{"replicationcontroller-controller"},
		theirs: func(ctx context.Context, u *theirs) (func(context.Context), error) {
			core := u.shared.Core().V1()
			c := replication.NewReplicationManager(ctx, core.Pods(), core.ReplicationControllers(), u.client("replication-controller"), replication.BurstReplicas)
			return func(ctx context.Context) { c.Run(ctx, 5) }, nil
		},
		step:    replicationControllerStep,
		written: resources(corev1.SchemeGroupVersion, "replicationcontrollers", "pods"),
		pauses:  []int{8, 11, 15, 35, 80, 400},
	}
	c.run(t)
}

func replicationControllerStep(w *world) {
	all := w.api.CoreV1().ReplicationControllers(namespace)
	list, err := all.List(w.Context(), metav1.ListOptions{})
	w.must(err)
	switch n := w.IntN(100); {
	case n < 8 && len(list.Items) < 2, len(list.Items) == 0:
		name := fmt.Sprint("rc", w.IntN(2))
		labels := map[string]string{"set": name}
		template := w.template(labels)
		rc := &corev1.ReplicationController{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ReplicationControllerSpec{
			Replicas: new(int32(w.IntN(6))), Selector: labels, Template: &template, MinReadySeconds: pick[int32](w, 0, 3),
		}}
		_, err := all.Create(w.Context(), rc, metav1.CreateOptions{})
		w.do(fmt.Sprintf("create %s %s", name, text(rc.Spec)), err)
	case n < 25:
		rc := pick(w, list.Items...)
		switch w.IntN(4) {
		case 0:
			rc.Spec.MinReadySeconds = pick[int32](w, 0, 3)
		case 1:
			rc.Spec.Template.Spec.Containers[0].Image = pick(w, "image:1", "image:2", "image:3")
		default:
			rc.Spec.Replicas = new(int32(w.IntN(6)))
		}
		_, err := all.Update(w.Context(), &rc, metav1.UpdateOptions{})
		w.do(fmt.Sprintf("update %s %s", rc.Name, text(rc.Spec)), err)
	case n < 28:
		name, policy := pick(w, list.Items...).Name, w.background()
		w.do(fmt.Sprint("delete ", name, " ", policy), all.Delete(w.Context(), name, metav1.DeleteOptions{PropagationPolicy: &policy}))
	default:
		w.replicaStep(n)
	}
}

// replicaStep is what happens to the pods of all that have replicas; n is from 28 to 99.
func (w *world) replicaStep(n int) {
	w.Helper()
	switch {
	case n < 34:
		w.deletePod()
	case n < 38:
		w.relabel("set")
	case n < 41:
		w.trouble("pods")
	case n < 45:
		w.cost()
	case n < 70:
		w.everything()
	default:
		w.kubelet()
	}
}

// background is how owners are deleted by whom the order of the garbage collector and the controller matters to.
func (w *world) background() metav1.DeletionPropagation {
	return pick(w, metav1.DeletePropagationBackground, metav1.DeletePropagationOrphan)
}

// cost changes what the deletion of a pod costs.
func (w *world) cost() {
	w.Helper()
	if all := w.in(pending, bound, running, ready); len(all) > 0 {
		pod, cost := pick(w, all...), pick(w, "-5", "7")
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{corev1.PodDeletionCost: cost}}})
		w.must(err)
		_, err = w.api.CoreV1().Pods(namespace).Patch(w.Context(), pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		w.do(fmt.Sprint("cost of ", pod.Name, " ", cost), err)
	}
}
