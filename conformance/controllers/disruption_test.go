package controllers_test

import (
	"context"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/scale"
	"k8s.io/kubernetes/pkg/controller/disruption"
)

// TestDisruption: budgets of all kinds over pods with and without owners, evictions, and pods that are said to be
// disrupted and are not.
func TestDisruption(t *testing.T) {
	c := &contest{
		names: []string{"disruption-controller"},
		theirs: func(ctx context.Context, u *theirs) (func(context.Context), error) {
			client := u.client("disruption-controller")
			mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client.Discovery()))
			scales, err := scale.NewForConfig(u.config("disruption-controller"), mapper, dynamic.LegacyAPIPathResolverFunc, scale.NewDiscoveryScaleKindResolver(client.Discovery()))
			if err != nil {
				return nil, err
			}
			core, apps := u.shared.Core().V1(), u.shared.Apps().V1()
			c := disruption.NewDisruptionController(ctx, core.Pods(), u.shared.Policy().V1().PodDisruptionBudgets(), core.ReplicationControllers(),
				apps.ReplicaSets(), apps.Deployments(), apps.StatefulSets(), client, mapper, scales, client.Discovery())
			return func(ctx context.Context) { c.Run(ctx, 5) }, nil
		},
		begin: func(w *world) {
			for _, app := range apps() {
				labels := map[string]string{"set": app}
				set, err := w.api.AppsV1().ReplicaSets(namespace).Create(w.Context(), &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: app}, Spec: appsv1.ReplicaSetSpec{
					Replicas: new(int32(3)), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: w.template(labels),
				}}, metav1.CreateOptions{})
				w.must(err)
				w.data.Store(app, metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet")))
			}
		},
		step:    disruptionStep,
		written: append(resources(policyv1.SchemeGroupVersion, "poddisruptionbudgets"), resources(corev1.SchemeGroupVersion, "pods")...),
		pauses:  []int{5, 8, 15, 35, 80, 150},
	}
	c.run(t)
}

func apps() []string { return []string{"web0", "web1"} }

func disruptionStep(w *world) {
	all := w.api.PolicyV1().PodDisruptionBudgets(namespace)
	list, err := all.List(w.Context(), metav1.ListOptions{})
	w.must(err)
	switch n := w.IntN(100); {
	case n < 12 || len(list.Items) == 0:
		app := pick(w, "", apps()[0], apps()[1], apps()[0], apps()[1])
		b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: w.next("budget"), Labels: map[string]string{"of": app}}, Spec: w.budgetSpec(app)}
		for _, other := range list.Items { // upstream chooses by chance among several
			if app == "" || other.Labels["of"] == "" || other.Labels["of"] == app {
				return
			}
		}
		_, err := all.Create(w.Context(), b, metav1.CreateOptions{})
		w.do(fmt.Sprintf("create %s %s", b.Name, text(b.Spec)), err)
	case n < 20:
		b := pick(w, list.Items...)
		b.Spec = w.budgetSpec(b.Labels["of"])
		_, err := all.Update(w.Context(), &b, metav1.UpdateOptions{})
		w.do(fmt.Sprintf("update %s %s", b.Name, text(b.Spec)), err)
	case n < 22:
		name := pick(w, list.Items...).Name
		w.do("delete "+name, all.Delete(w.Context(), name, metav1.DeleteOptions{}))
	case n < 40:
		w.createPod()
	case n < 45:
		w.scaleSet(pick(w, apps()...))
	case n < 55:
		if pods := w.in(bound, running, ready); len(pods) > 0 {
			pod := pick(w, pods...)
			w.do("evict "+pod.Name, w.api.CoreV1().Pods(namespace).EvictV1(w.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: namespace}}))
		}
	case n < 58:
		if pods := w.in(running, ready); len(pods) > 0 {
			w.status("disrupt", pick(w, pods...), func(s *corev1.PodStatus) {
				condition(s, corev1.DisruptionTarget, corev1.ConditionTrue, "PreemptionByScheduler")
			})
		}
	case n < 60:
		w.deletePod()
	case n < 63:
		w.relabel("set")
	case n < 80:
		w.everything()
	default:
		w.kubelet()
	}
}

func (w *world) budgetSpec(app string) policyv1.PodDisruptionBudgetSpec {
	spec := policyv1.PodDisruptionBudgetSpec{}
	amount := new(pick(w, intstr.FromInt32(1), intstr.FromInt32(2), intstr.FromString("50%"), intstr.FromString("30%"), intstr.FromInt32(0)))
	if w.chance(2) {
		spec.MinAvailable = amount
	} else {
		spec.MaxUnavailable = amount
	}
	spec.Selector = &metav1.LabelSelector{} // all pods
	if app != "" {
		spec.Selector.MatchLabels = map[string]string{"set": app}
	}
	if w.chance(4) {
		spec.UnhealthyPodEvictionPolicy = new(pick(w, policyv1.AlwaysAllow, policyv1.IfHealthyBudget))
	}
	return spec
}

// createPod creates a pod, most often one of a replica set.
func (w *world) createPod() {
	w.Helper()
	app := pick(w, apps()...)
	template := w.template(map[string]string{"set": app})
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: w.next("pod"), Labels: template.Labels}, Spec: template.Spec}
	owner := "nothing"
	if ref, ok := w.data.Load(app); ok && !w.chance(6) {
		pod.OwnerReferences, owner = []metav1.OwnerReference{*ref.(*metav1.OwnerReference)}, app
	}
	_, err := w.api.CoreV1().Pods(namespace).Create(w.Context(), pod, metav1.CreateOptions{})
	w.do("create "+pod.Name+" of "+owner, err)
}

func (w *world) scaleSet(app string) {
	w.Helper()
	set, err := w.api.AppsV1().ReplicaSets(namespace).Get(w.Context(), app, metav1.GetOptions{})
	if err == nil {
		set.Spec.Replicas = new(int32(w.IntN(6)))
		_, err = w.api.AppsV1().ReplicaSets(namespace).Update(w.Context(), set, metav1.UpdateOptions{})
	}
	w.do("scale "+app, err)
}
