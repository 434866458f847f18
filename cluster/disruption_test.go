package cluster_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/keelson-dev/keelson/cluster"
)

func TestDisruption(t *testing.T) { synctest.Test(t, testDisruption) }

// testDisruption evicts pods of a Deployment of three, of which two must stay: the first eviction succeeds, the next
// only once the first pod has been replaced.
func testDisruption(t *testing.T) {
	c := start(t, cluster.Options{Nodes: cluster.Nodes{Count: 2}})
	ctx, cs := t.Context(), clientset(t, c.Config())
	if _, err := cs.AppsV1().Deployments("default").Create(ctx, deploymentOf("web", 3), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	two := intstr.FromInt32(2)
	_, err := cs.PolicyV1().PodDisruptionBudgets("default").Create(ctx, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &two, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(20 * time.Second)
	budget := func() string {
		t.Helper()
		pdb, err := cs.PolicyV1().PodDisruptionBudgets("default").Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		reason := "no condition"
		if condition := meta.FindStatusCondition(pdb.Status.Conditions, policyv1.DisruptionAllowedCondition); condition != nil {
			reason = string(condition.Status) + " " + condition.Reason
		}
		return fmt.Sprintf("%d of %d healthy, %d allowed, %s", pdb.Status.CurrentHealthy, pdb.Status.ExpectedPods, pdb.Status.DisruptionsAllowed, reason)
	}
	if got := budget(); got != "3 of 3 healthy, 1 allowed, True SufficientPods" {
		t.Errorf("after the rollout: %s", got)
	}
	pods, err := podsOf(ctx, cs, "web")
	if err != nil || len(pods) != 3 {
		t.Fatalf("%d pods: %v", len(pods), err)
	}
	evict := func(i int) error {
		return cs.PolicyV1().Evictions("default").Evict(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: pods[i].Name}})
	}
	if err := evict(0); err != nil {
		t.Fatalf("the first eviction: %v", err)
	}
	refusal := evict(1)
	if !apierrors.IsTooManyRequests(refusal) || refusal.Error() != "Cannot evict pod as it would violate the pod's disruption budget." {
		t.Errorf("the second eviction: %v", refusal)
	}
	synctest.Wait() // until the controller has counted
	refusal = evict(1)
	cause, _ := apierrors.StatusCause(refusal, policyv1.DisruptionBudgetCause)
	if want := "The disruption budget web needs 2 healthy pods and has 2 currently"; cause.Message != want {
		t.Errorf("cause %q, want %q", cause.Message, want)
	}
	time.Sleep(time.Minute)
	if got := budget(); got != "3 of 3 healthy, 1 allowed, True SufficientPods" {
		t.Errorf("with the replacement: %s", got)
	}
	if err := evict(1); err != nil {
		t.Errorf("the second eviction, after the replacement: %v", err)
	}
}

func TestDisruptionUncounted(t *testing.T) { synctest.Test(t, testDisruptionUncounted) }

// testDisruptionUncounted has a budget that needs the controller's replica count, for a pod whose controller has no
// scale.
func testDisruptionUncounted(t *testing.T) {
	c := start(t, cluster.Options{Nodes: cluster.Nodes{Count: 1}})
	ctx, cs := t.Context(), clientset(t, c.Config())
	yes := true
	pod := testPod("lone")
	pod.Labels = map[string]string{"app": "lone"}
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Namespace", Name: "default", UID: "x", Controller: &yes}}
	ns, err := cs.CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod.OwnerReferences[0].UID = ns.UID
	half := intstr.FromString("50%")
	_, err = cs.PolicyV1().PodDisruptionBudgets("default").Create(ctx, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "lone"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &half, Selector: &metav1.LabelSelector{MatchLabels: pod.Labels}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	synctest.Wait() // until it is observed, and expects nothing
	if _, err := cs.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pod runs", running(ctx, cs, "lone", 1))
	eventually(t, "the budget says why", func() error {
		pdb, err := cs.PolicyV1().PodDisruptionBudgets("default").Get(ctx, "lone", metav1.GetOptions{})
		if err != nil {
			return err
		}
		condition := meta.FindStatusCondition(pdb.Status.Conditions, policyv1.DisruptionAllowedCondition)
		if condition == nil || condition.Reason != policyv1.SyncFailedReason || condition.Message != "namespaces does not implement the scale subresource" {
			return fmt.Errorf("condition %+v", condition)
		}
		return nil
	})
	err = cs.PolicyV1().Evictions("default").Evict(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "lone"}})
	cause, _ := apierrors.StatusCause(err, policyv1.DisruptionBudgetCause)
	if want := "The disruption budget lone does not allow evicting pods currently because it failed sync: namespaces does not implement the scale subresource"; cause.Message != want {
		t.Errorf("eviction: %v, %q", err, cause.Message)
	}
	eventually(t, "an event says so", func() error {
		l, err := cs.CoreV1().Events("default").List(ctx, metav1.ListOptions{FieldSelector: "reason=CalculateExpectedPodCountFailed"})
		if err == nil && (len(l.Items) == 0 || l.Items[0].Source.Component != "controllermanager" || l.Items[0].Type != corev1.EventTypeWarning) {
			err = fmt.Errorf("events %+v", l.Items)
		}
		return err
	})
}
