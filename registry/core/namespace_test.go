package core_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/registry/registrytest"
)

const notStandard = "name is neither a standard finalizer name nor is it fully qualified"

func TestNamespace(t *testing.T) {
	k := registrytest.Find(t, core.Kinds(core.Options{}), "namespaces")
	type change = registrytest.Change[*corev1.Namespace]
	good := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}, Spec: corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{"kubernetes"}}}
	add := func(f corev1.FinalizerName) func(*corev1.Namespace) {
		return func(ns *corev1.Namespace) { ns.Spec.Finalizers = append(ns.Spec.Finalizers, f) }
	}
	registrytest.Create(t, k, good, []change{
		{Name: "own finalizer", To: add("example.com/mine")},
		{Name: "unknown finalizer", To: add("mine"), Refused: []string{`spec.finalizers: Invalid value: "mine": ` + notStandard}},
	})
	registrytest.Update(t, k, "", good, []change{{Name: "finalizers and status stay", To: func(ns *corev1.Namespace) {
		ns.Spec.Finalizers, ns.Status.Phase = nil, corev1.NamespaceTerminating
	}}})
	registrytest.Update(t, k, "finalize", good, []change{
		{Name: "done", To: func(ns *corev1.Namespace) { ns.Spec.Finalizers = nil }},
		{Name: "unknown finalizer", To: add("mine"), Refused: []string{`spec.finalizers[1]: Invalid value: "mine": ` + notStandard}},
	})
	registrytest.Update(t, k, "status", good, []change{
		{Name: "terminating without deletion", To: func(ns *corev1.Namespace) { ns.Status.Phase = corev1.NamespaceTerminating }, Refused: []string{
			"status.Phase: Invalid value: \"Terminating\": may only be 'Active' if `deletionTimestamp` is empty"}},
	})
	gone := good.DeepCopy()
	gone.DeletionTimestamp, gone.Status.Phase = new(metav1.Unix(1, 0)), corev1.NamespaceTerminating
	registrytest.Update(t, k, "status", gone, []change{
		{Name: "active in deletion", To: func(ns *corev1.Namespace) { ns.Status.Phase = corev1.NamespaceActive }, Refused: []string{
			"status.Phase: Invalid value: \"Active\": may only be 'Terminating' if `deletionTimestamp` is not empty"}},
	})
}

func TestNamespaceLife(t *testing.T) {
	k := registrytest.Find(t, core.Kinds(core.Options{}), "namespaces")
	ns := &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "ns-"},
		Spec:       corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{"example.com/mine"}},
		Status:     corev1.NamespaceStatus{Phase: corev1.NamespaceTerminating},
	}
	k.Rules.Default(ns)
	if len(ns.Labels) != 0 {
		t.Errorf("labels of a nameless namespace: %v", ns.Labels)
	}
	ns.Name = "ns-1"
	k.Rules.PrepareCreate(t.Context(), ns)
	if ns.Labels[corev1.LabelMetadataName] != "ns-1" || ns.Status.Phase != corev1.NamespaceActive ||
		!slices.Equal(ns.Spec.Finalizers, []corev1.FinalizerName{"example.com/mine", "kubernetes"}) {
		t.Errorf("created as %+v", ns)
	}
	if k.Rules.Deletion.Begin(ns); k.Fields(ns).Get("status.phase") != "Terminating" || !k.Rules.Deletion.Held(ns) {
		t.Errorf("deletion began as %+v", ns)
	}
	done := ns.DeepCopy()
	done.Spec.Finalizers = nil
	registrytest.Replace(k, "finalize", done, ns)
	if k.Rules.Deletion.Held(done) {
		t.Errorf("held although finalized: %+v", done)
	}
	for name, ok := range map[string]bool{"a-1": true, "a.b": false, "A": false} {
		if messages := k.Rules.ValidateName(name, false); (len(messages) == 0) != ok {
			t.Errorf("name %s: %v", name, messages)
		}
	}
}
