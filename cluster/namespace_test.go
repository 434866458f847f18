package cluster_test

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/cluster"
)

func TestNamespaceDeletion(t *testing.T) { synctest.Test(t, testNamespaceDeletion) }

// testNamespaceDeletion deletes a namespace with a running Deployment and an object that its finalizer retains for a
// while.
func testNamespaceDeletion(t *testing.T) {
	c := start(t, cluster.Options{Nodes: cluster.Nodes{Count: 1}})
	ctx, cs := t.Context(), clientset(t, c.Config())
	if _, err := cs.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := cs.AppsV1().Deployments("shop").Create(ctx, deploymentOf("web", 2), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	held := configMap("held")
	held.Finalizers = []string{"example.com/hold"}
	if _, err := cs.CoreV1().ConfigMaps("shop").Create(ctx, held, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(10 * time.Second)
	if err := cs.CoreV1().Namespaces().Delete(ctx, "shop", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := cs.CoreV1().Pods("shop").Create(ctx, testPod("late"), metav1.CreateOptions{}); !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		t.Errorf("create in a namespace that is going: %v", err)
	}
	time.Sleep(2 * time.Minute)
	ns, err := cs.CoreV1().Namespaces().Get(ctx, "shop", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[corev1.NamespaceConditionType]string{
		corev1.NamespaceDeletionDiscoveryFailure: "All resources successfully discovered",
		corev1.NamespaceDeletionGVParsingFailure: "All legacy kube types successfully parsed",
		corev1.NamespaceDeletionContentFailure:   "All content successfully deleted, may be waiting on finalization",
		corev1.NamespaceContentRemaining:         "Some resources are remaining: configmaps. has 1 resource instances",
		corev1.NamespaceFinalizersRemaining:      "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances",
	}
	if ns.Status.Phase != corev1.NamespaceTerminating || len(ns.Status.Conditions) != len(want) {
		t.Errorf("status is %+v", ns.Status)
	}
	for _, condition := range ns.Status.Conditions {
		if condition.Message != want[condition.Type] {
			t.Errorf("%s says %q, want %q", condition.Type, condition.Message, want[condition.Type])
		}
	}
	left, err := cs.CoreV1().ConfigMaps("shop").Get(ctx, "held", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	left.Finalizers = nil
	if _, err := cs.CoreV1().ConfigMaps("shop").Update(ctx, left, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Minute)
	if _, err := cs.CoreV1().Namespaces().Get(ctx, "shop", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a minute after its last object: %v", err)
	}
	pods, err := cs.CoreV1().Pods("shop").List(ctx, metav1.ListOptions{})
	if err != nil || len(pods.Items) > 0 {
		t.Errorf("%d pods are left: %v", len(pods.Items), err)
	}
}
