package validation_test

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	api "k8s.io/kubernetes/pkg/apis/core"
	upstream "k8s.io/kubernetes/pkg/apis/core/v1"
	theirs "k8s.io/kubernetes/pkg/apis/core/validation"

	"github.com/keelson-dev/keelson/podspec"
)

func randomTemplate(f *filler) *corev1.PodTemplateSpec {
	p := randomPod(f)
	t := &corev1.PodTemplateSpec{Spec: p.Spec}
	t.Labels = map[string]string{"app": "web"}
	if f.chance(f.dense) {
		t.Labels["bad key"] = "bad value"
	}
	t.Annotations = p.Annotations
	return t
}

func internalTemplate(t *testing.T, p *corev1.PodTemplateSpec) *api.PodTemplateSpec {
	out := &api.PodTemplateSpec{}
	if err := upstream.Convert_v1_PodTemplateSpec_To_core_PodTemplateSpec(p.DeepCopy(), out, nil); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestTemplate compares templates including the fields of features that are off.
func TestTemplate(t *testing.T) {
	each(t, func(t *testing.T, f *filler) {
		wrapped := &corev1.PodTemplate{Template: *randomTemplate(f)}
		ours := wrapped.Template.DeepCopy()
		upstream.SetObjectDefaults_PodTemplate(wrapped)
		podspec.Default(&ours.Spec)
		if !sameJSON(t, "defaults", &wrapped.Template, ours) {
			return
		}
		in := internalTemplate(t, ours)
		options := podutil.GetValidationOptionsFromPodTemplate(in, nil)
		path := field.NewPath("spec", "template")
		sameErrors(t, theirs.ValidatePodTemplateSpec(in, path, options), podspec.ValidateTemplate(ours, path, podspec.Options{}))
	})
}

// TestTemplateUpdate compares templates whose old state may have what is no longer allowed.
func TestTemplateUpdate(t *testing.T) {
	each(t, func(t *testing.T, f *filler) {
		old := randomTemplate(f)
		podspec.Default(&old.Spec)
		ours := old.DeepCopy()
		for range f.IntN(4) {
			f.mutate(reflect.ValueOf(ours).Elem(), "Template")
		}
		podspec.Default(&ours.Spec)
		in, before := internalTemplate(t, ours), internalTemplate(t, old)
		podutil.DropDisabledTemplateFields(in, before)
		podspec.DropTemplate(ours, old)
		back := &corev1.PodTemplateSpec{}
		if err := upstream.Convert_core_PodTemplateSpec_To_v1_PodTemplateSpec(in.DeepCopy(), back, nil); err != nil {
			t.Fatal(err)
		}
		if !sameJSON(t, "dropped", back, ours) {
			return
		}
		options := podutil.GetValidationOptionsFromPodTemplate(in, before)
		path := field.NewPath("spec", "template")
		sameErrors(t, theirs.ValidatePodTemplateSpec(in, path, options), podspec.ValidateTemplate(ours, path, podspec.TemplateUpdate(old)))
	})
}
