package cluster_test

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/cluster"
)

func taints(node *corev1.Node) []string {
	var all []string
	for _, taint := range node.Spec.Taints {
		all = append(all, taint.ToString())
	}
	return all
}

// TestNewNodes: a node repels pods from its creation until it is ready, but not after that.
func TestNewNodes(t *testing.T) {
	inBubble(t, nodes(1), func(t *testing.T, w *world) {
		made, err := w.cs.CoreV1().Nodes().Create(w.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "bare"}}, metav1.CreateOptions{})
		w.check(err)
		if got := taints(made); !slices.Equal(got, []string{"node.kubernetes.io/not-ready:NoSchedule"}) {
			t.Errorf("a new node has taints %v", got)
		}
		ready, err := w.cs.CoreV1().Nodes().Get(w.ctx, "node-0", metav1.GetOptions{})
		w.check(err)
		if got := taints(ready); got != nil {
			t.Errorf("once waited for, a node has taints %v", got)
		}
		// Nothing is lost: a pod goes to the ready one at once.
		_, err = w.pods.Create(w.ctx, testPod("p"), metav1.CreateOptions{})
		w.check(err)
		time.Sleep(5 * time.Second)
		pod, err := w.pods.Get(w.ctx, "p", metav1.GetOptions{})
		w.check(err)
		if pod.Spec.NodeName != "node-0" || pod.Status.Phase != corev1.PodRunning {
			t.Errorf("the pod is %s on %q", pod.Status.Phase, pod.Spec.NodeName)
		}
		events, err := w.cs.CoreV1().Events("default").List(w.ctx, metav1.ListOptions{FieldSelector: "reason=FailedScheduling"})
		w.check(err)
		if len(events.Items) > 0 {
			t.Errorf("the pod had to wait: %s", events.Items[0].Message)
		}
	})
}

// TestNewNodesWithoutController: without the controller the taint may stay, but WaitNodes still returns.
func TestNewNodesWithoutController(t *testing.T) {
	o := nodes(1)
	o.Disable = []string{"node-lifecycle-controller"}
	inBubble(t, o, func(t *testing.T, w *world) {
		node, err := w.cs.CoreV1().Nodes().Get(w.ctx, "node-0", metav1.GetOptions{})
		w.check(err)
		if got := taints(node); !slices.Equal(got, []string{"node.kubernetes.io/not-ready:NoSchedule"}) {
			t.Errorf("the node has taints %v", got)
		}
	})
}

// TestSystemPriorityClasses: the system classes cannot be deleted, even by deleting the whole collection.
func TestSystemPriorityClasses(t *testing.T) {
	c := start(t, cluster.Options{Disable: []string{"scheduler"}})
	classes := clientset(t, c.Config()).SchedulingV1().PriorityClasses()
	for _, name := range []string{"system-cluster-critical", "system-node-critical"} {
		want := `priorityclasses.scheduling.k8s.io "` + name + `" is forbidden: this is a system priority class and cannot be deleted`
		if err := classes.Delete(t.Context(), name, metav1.DeleteOptions{}); !apierrors.IsForbidden(err) || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
		if err := classes.Delete(t.Context(), name, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}); !apierrors.IsForbidden(err) {
			t.Errorf("dry run: %v", err)
		}
	}
	if err := classes.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("all of them: %v", err)
	}
	list, err := classes.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 2 {
		t.Errorf("%d are left: %v", len(list.Items), err)
	}
}
