package core_test

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/registry/registrytest"
)

func bindTo(name, node string) *corev1.Binding {
	return &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}
}

func act(t *testing.T, r *registry.Registry, action, name string, body runtime.Object, dryRun bool) (runtime.Object, error) {
	run := registrytest.Find(t, core.Kinds(core.Options{}), "pods").Sub.Actions[action].Run
	return run(t.Context(), r.Access(), podKey(name), body, dryRun)
}

func succeeded(obj runtime.Object) bool {
	s, ok := obj.(*metav1.Status)
	return ok && s.Status == metav1.StatusSuccess
}

func TestBinding(t *testing.T) {
	r := running(t)
	p := create(t, r, pod("web"))
	p = change(t, r, "status", p, func(p *corev1.Pod) { p.Status.NominatedNodeName = "node-0" })
	b := bindTo("web", "node-1")
	b.UID, b.ResourceVersion = p.UID, p.ResourceVersion
	b.Annotations, b.Labels = map[string]string{"a": "b"}, map[string]string{"zone": "z"}
	if answer, err := act(t, r, "binding", "web", b, true); err != nil || !succeeded(answer) {
		t.Fatalf("dry run: %v, %v", answer, err)
	}
	if p, _ = stored(t, r, p); p.Spec.NodeName != "" {
		t.Fatal("a dry run bound the pod")
	}
	if answer, err := act(t, r, "binding", "web", b, false); err != nil || !succeeded(answer) {
		t.Fatalf("got %v, %v", answer, err)
	}
	p, _ = stored(t, r, p)
	if p.Spec.NodeName != "node-1" || p.Annotations["a"] != "b" || p.Labels["zone"] != "z" || p.Labels["app"] != "web" || p.Status.NominatedNodeName != "" {
		t.Errorf("got %+v", p)
	}
	if podCondition(p, corev1.PodScheduled) != "True" || p.Generation != 1 {
		t.Errorf("conditions %+v, generation %d", p.Status.Conditions, p.Generation)
	}
	near(t, "PodScheduled", p.Status.Conditions[0].LastTransitionTime)
}

func TestBindingsKind(t *testing.T) {
	r := running(t)
	p := create(t, r, pod("web"))
	answer, err := registrytest.Find(t, core.Kinds(core.Options{}), "bindings").Answer(t.Context(), r.Access(), "default", bindTo("web", "node-1"))
	if err != nil || !succeeded(answer) {
		t.Fatalf("got %v, %v", answer, err)
	}
	if p, _ = stored(t, r, p); p.Spec.NodeName != "node-1" {
		t.Errorf("got %+v", p.Spec)
	}
}

func TestBindingRefused(t *testing.T) {
	r := running(t)
	create(t, r, pod("free"))
	bound := pod("bound")
	bound.Spec.NodeName = "node-0"
	create(t, r, bound)
	gated := pod("gated")
	gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}}
	create(t, r, gated)
	going := pod("going")
	going.Spec.NodeName = "node-0"
	create(t, r, going)
	if err := r.Access().Delete(t.Context(), podKey("going"), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	free := func(to func(*corev1.Binding)) *corev1.Binding {
		b := bindTo("free", "node-1")
		to(b)
		return b
	}
	for _, c := range []struct {
		name    string
		body    *corev1.Binding
		err     error
		of      string
		message string
	}{
		{"free", bindTo("other", "n"), registry.ErrBadRequest, "pods", "name in URL does not match name in Binding object"},
		{"none", bindTo("none", "n"), registry.ErrNotFound, "pods", ""},
		{"bound", bindTo("bound", "n"), registry.ErrConflict, "pods/binding", `pod bound is already assigned to node "node-0"`},
		{"gated", bindTo("gated", "n"), registry.ErrConflict, "pods/binding", "pod gated has non-empty .spec.schedulingGates"},
		{"going", bindTo("going", "n"), registry.ErrConflict, "pods/binding", "pod going is being deleted, cannot be assigned to a host"},
		{"free", free(func(b *corev1.Binding) { b.UID = "other" }), registry.ErrConflict, "pods", ""},
		{"free", free(func(b *corev1.Binding) { b.ResourceVersion = "1000" }), registry.ErrConflict, "pods", ""},
	} {
		_, err := act(t, r, "binding", c.name, c.body, false)
		var refusal *registry.Error
		if !errors.As(err, &refusal) || !errors.Is(err, c.err) || refusal.Resource.Resource != c.of || c.message != "" && refusal.Message != c.message {
			t.Errorf("%s to %s: got %v", c.name, c.body.Name, err)
		}
	}
	for want, to := range map[string]func(*corev1.Binding){
		`target.kind: Unsupported value: "Pod": supported values: "Node", "<empty>"`: func(b *corev1.Binding) { b.Target.Kind = "Pod" },
		`target.name: Invalid value: "N": ` + badSubdomain:                           func(b *corev1.Binding) { b.Target.Name = "N" },
		`target.name: Required value`:                                                func(b *corev1.Binding) { b.Target.Name = "" },
	} {
		if _, err := act(t, r, "binding", "free", free(to), false); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestBindingCondition: a pod that could not be scheduled until now is scheduled since now; what was said to be so
// remains so since then.
func TestBindingCondition(t *testing.T) {
	before := metav1.Unix(1000, 0)
	for _, status := range []corev1.ConditionStatus{corev1.ConditionFalse, corev1.ConditionTrue} {
		r := running(t)
		p := change(t, r, "status", create(t, r, pod("web")), func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{
				{Type: corev1.PodScheduled, Status: status, Reason: "Before", LastTransitionTime: before},
				{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "NotYet", LastTransitionTime: before},
			}
		})
		if _, err := act(t, r, "binding", "web", bindTo("web", "node-1"), false); err != nil {
			t.Fatal(err)
		}
		p, _ = stored(t, r, p)
		if len(p.Status.Conditions) != 2 || podCondition(p, corev1.PodScheduled) != "True" || podCondition(p, corev1.PodReady) != "False NotYet" {
			t.Errorf("%s: %+v", status, p.Status.Conditions)
		}
		if since := p.Status.Conditions[0].LastTransitionTime; since.Equal(&before) != (status == corev1.ConditionTrue) {
			t.Errorf("%s: since %v", status, since)
		}
	}
}
