package limitpodhardantiaffinitytopology_test

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/admissiontest"
	"github.com/keelson-dev/keelson/admission/limitpodhardantiaffinitytopology"
)

// pod keeps others away by topology keys.
func pod(keys ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: "zone"}}},
	}}
	for _, key := range keys {
		required := &p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
		*required = append(*required, corev1.PodAffinityTerm{TopologyKey: key})
	}
	return p
}

func TestPlugin(t *testing.T) {
	p := limitpodhardantiaffinitytopology.New()
	plain := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	near := plain.DeepCopy()
	near.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: "zone"}},
	}}
	for name, given := range map[string]*corev1.Pod{"no affinity": plain, "affinity": near, "preferred": pod(), "of a node": pod(corev1.LabelHostname)} {
		t.Run(name, func(t *testing.T) {
			admissiontest.TestPlugin(t, p, admissiontest.Create(t, given))
			admissiontest.Admits(t, p, admissiontest.Create(t, given), given)
		})
	}
	const message = `is forbidden: affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey zone but only key kubernetes.io/hostname is allowed`
	admissiontest.Refuses(t, p, admissiontest.Create(t, pod(corev1.LabelHostname, "zone")), `pods "p" `+message)
	admissiontest.Refuses(t, p, admissiontest.Update(t, plain, pod("zone")), `pods "p" `+message)
	unnamed := pod("zone")
	unnamed.Name, unnamed.GenerateName = "", "p-"
	admissiontest.Refuses(t, p, admissiontest.Create(t, unnamed), `pods `+message)
	status := admissiontest.Create(t, pod("zone"), admissiontest.Subresource("status"))
	admissiontest.Admits(t, p, status, status.Object)
	node := func(r *admission.Request) { r.Object = &corev1.Node{} }
	admissiontest.Refuses(t, p, admissiontest.Create(t, plain, node), "Resource was marked with kind Pod but was unable to be converted")
	if p.Handles(admission.Delete) {
		t.Error("it handles deletes")
	}
}

func Example() {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: "rack"}},
	}}
	r := &admission.Request{Operation: admission.Create, Resource: corev1.SchemeGroupVersion.WithResource("pods"), Object: pod}
	fmt.Println(limitpodhardantiaffinitytopology.New().Validate(context.Background(), r))
	// Output: pods "p" is forbidden: affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey rack but only key kubernetes.io/hostname is allowed
}
