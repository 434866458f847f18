package initializers_test

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/admissiontest"
	"github.com/keelson-dev/keelson/admission/initializers"
	"github.com/keelson-dev/keelson/authz"
)

const none = `{"pending":[]}`

func TestCreateEdges(t *testing.T) {
	p, root := plugin(), admissiontest.By("root")
	for what, test := range map[string]struct {
		obj, want admissiontest.Object
		change    func(*admission.Request)
		refusal   string
	}{
		"an empty state where none is configured": {obj: &corev1.ConfigMap{ObjectMeta: meta([]string{none})}, want: &corev1.ConfigMap{ObjectMeta: meta(nil)}},
		"only pods are mirrors":                   {obj: secret("", corev1.MirrorPodAnnotationKey, ""), want: secret(both, corev1.MirrorPodAnnotationKey, "")},
		"a part is not the object": {
			obj: pod(both, "k", "v"), want: pod("", "k", "v"),
			change: func(r *admission.Request) { r.Subresource, r.OldObject = "binding", pod(both) },
		},
		"the configured ones with a result": {
			obj: secret(both[:len(both)-1] + `,"result":{"status":"Failure"}}`), change: root,
			refusal: `Secret "x" is invalid: metadata.annotations[keelson.dev/initializers].result: Forbidden: may not be set on new objects`,
		},
	} {
		t.Run(what, func(t *testing.T) {
			check(t, p, request(admissiontest.Create(t, test.obj), test.change), test.want, test.refusal)
		})
	}
}

func TestUpdateEdges(t *testing.T) {
	p, root := plugin(), admissiontest.By("root")
	at := func(version string, s *corev1.Secret) *corev1.Secret {
		s.ResourceVersion = version
		return s
	}
	part := func(name string) func(*admission.Request) {
		return func(r *admission.Request) { root(r); r.Subresource = name }
	}
	const denied = `secrets "x" is forbidden: update to uninitialized resource denied: no secrets x`
	for what, test := range map[string]struct {
		old, obj, want admissiontest.Object
		change         func(*admission.Request)
		refusal        string
	}{
		"without a version":         {old: at("2", secret(second)), obj: secret(), refusal: denied},
		"of the same version":       {old: at("2", secret(second)), obj: at("2", secret()), refusal: denied},
		"another that is no state":  {old: secret(`7`), obj: secret(`8`), change: root, refusal: `Secret "x" is invalid: metadata.annotations[keelson.dev/initializers]: Invalid value: "8": must be the state of an initialization in JSON`},
		"one more than none":        {old: secret(none), obj: secret(second), change: root, refusal: `Secret "x" is invalid: metadata.annotations[keelson.dev/initializers].pending: Invalid value: ["b.example.com"]: only the first initializer may be removed`},
		"changed by a part":         {old: secret(both), obj: secret(second), want: secret(both), change: part("status")},
		"an empty one, by a part":   {old: secret("", initializers.Annotation, ""), obj: secret(), want: secret("", initializers.Annotation, ""), change: part("status")},
		"another part of a pod":     {old: pod(second), obj: pod(second, "k", "v"), want: pod(second, "k", "v"), change: part("ephemeralcontainers")},
		"a part with its own type":  {old: pod(), obj: pod(), want: secret(), change: func(r *admission.Request) { r.Subresource, r.OldObject, r.Object = "scale", pod(second), secret() }},
		"the old one has no state":  {old: pod(), obj: pod(), want: pod(second), change: func(r *admission.Request) { r.OldObject, r.Object = &metav1.DeleteOptions{}, pod(second) }},
		"what has no metadata":      {old: pod(), obj: pod(), change: func(r *admission.Request) { r.Object = &metav1.DeleteOptions{} }, want: nil},
		"a part without any change": {old: secret(second), obj: secret(second), want: secret(second), change: part("status")},
	} {
		t.Run(what, func(t *testing.T) {
			r := request(admissiontest.Update(t, test.old, test.obj), test.change)
			if test.want == nil && test.refusal == "" {
				if err := p.Admit(t.Context(), r); err != nil {
					t.Error(err)
				}
				return
			}
			check(t, p, r, test.want, test.refusal)
		})
	}
}

// TestRequestedVersion checks that an initializer may be configured for the version of the request or the stored one.
func TestRequestedVersion(t *testing.T) {
	var asked []schema.GroupVersionResource
	p := initializers.New(func(versions ...schema.GroupVersionResource) []string {
		asked = slices.Clone(versions)
		return nil
	}, authz.Func(nil))
	stored := schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	requested := schema.GroupVersionResource{Group: "example.com", Version: "v1beta1", Resource: "secrets"}
	for _, test := range []struct {
		requested schema.GroupVersionResource
		want      []schema.GroupVersionResource
	}{
		{want: []schema.GroupVersionResource{stored}},
		{requested: requested, want: []schema.GroupVersionResource{stored, requested}},
	} {
		r := admissiontest.Create(t, secret())
		r.Resource, r.RequestedResource = stored, test.requested
		if err := p.Admit(t.Context(), r); err != nil || !slices.Equal(asked, test.want) {
			t.Errorf("asked about %v, want %v; %v", asked, test.want, err)
		}
	}
}

func TestNobodysTurn(t *testing.T) {
	for _, s := range []*corev1.Secret{secret(), secret(none)} {
		if next := initializers.Next(s); next != "" {
			t.Errorf("%v: it is the turn of %s", s.Annotations, next)
		}
		if err := initializers.Done(s, "a.example.com"); !errors.Is(err, initializers.ErrNotNext) {
			t.Errorf("%v: %v", s.Annotations, err)
		}
	}
}

// TestUntouched checks that an object without initializers stays as it was written, even where its annotations are empty.
func TestUntouched(t *testing.T) {
	custom := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "x", "annotations": map[string]any{}}}}
	want := custom.DeepCopy()
	r := admissiontest.Create(t, &corev1.ConfigMap{ObjectMeta: meta(nil)})
	r.Object = custom
	if err := plugin().Admit(t.Context(), r); err != nil || !reflect.DeepEqual(custom, want) {
		t.Errorf("%v, %v", custom, err)
	}
}
