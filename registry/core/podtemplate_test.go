package core_test

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/registry/registrytest"
)

func TestPodTemplate(t *testing.T) {
	k := registrytest.Find(t, core.Kinds(core.Options{}), "podtemplates")
	good := &corev1.PodTemplate{ObjectMeta: named(), Template: corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a:1"}, {Name: "b", Image: "b:1"}}},
	}}
	changes := []registrytest.Change[*corev1.PodTemplate]{
		{Name: "runs once", To: func(p *corev1.PodTemplate) { p.Template.Spec.RestartPolicy = corev1.RestartPolicyNever }},
		{Name: "no containers", To: func(p *corev1.PodTemplate) { p.Template.Spec.Containers = nil }, Refused: []string{
			"template.spec.containers: Required value"}},
		{Name: "no image", To: func(p *corev1.PodTemplate) { p.Template.Spec.Containers[1].Image = "" }, Refused: []string{
			"template.spec.containers[1].image: Required value"}},
	}
	registrytest.Create(t, k, good, changes)
	registrytest.Update(t, k, "", good, changes)

	registrytest.Prepare(k, good)
	if good.Generation != 1 || good.Template.Spec.RestartPolicy != corev1.RestartPolicyAlways {
		t.Errorf("generation %d, restart policy %q", good.Generation, good.Template.Spec.RestartPolicy)
	}
	for name, c := range map[string]struct {
		to   func(*corev1.PodTemplate)
		want int64
	}{
		"labels":   {func(p *corev1.PodTemplate) { p.Labels = map[string]string{"a": "b"} }, 1},
		"template": {func(p *corev1.PodTemplate) { p.Template.Labels["a"] = "b" }, 2},
	} {
		changed := good.DeepCopy()
		c.to(changed)
		if errs := registrytest.Replace(k, "", changed, good); len(errs) > 0 || changed.Generation != c.want {
			t.Errorf("%s: generation %d, want %d; %v", name, changed.Generation, c.want, errs)
		}
	}
	if cells := k.Columns.Cells(good, time.Now()); !slices.Equal(cells, []any{"x", "a,b", "a:1,b:1", "app=web"}) {
		t.Errorf("cells %q", cells)
	}
}
