package defaultstorageclass_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/admissiontest"
	"github.com/keelson-dev/keelson/admission/defaultstorageclass"
	"github.com/keelson-dev/keelson/informer"
)

var _ defaultstorageclass.Classes = (*informer.Informer[*storagev1.StorageClass])(nil)

// classes is a cache that does not change.
type classes []*storagev1.StorageClass

func (c classes) List(string) []*storagev1.StorageClass { return c }

const mark, beta = "storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"

// class returns a class that was made at some second, with an annotation.
func class(name string, second int64, annotation, value string) *storagev1.StorageClass {
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{
		Name: name, CreationTimestamp: metav1.NewTime(time.Unix(second, 0)), Annotations: map[string]string{annotation: value},
	}}
}

func claim(class *string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: class},
	}
}

func TestDefault(t *testing.T) {
	some := classes{class("a", 2, mark, "false"), class("b", 1, mark, "true"), class("c", 3, "x", "true")}
	annotated := claim(nil)
	annotated.Annotations = map[string]string{"volume.beta.kubernetes.io/storage-class": ""}
	for name, tt := range map[string]struct {
		classes     classes
		given, want *corev1.PersistentVolumeClaim
	}{
		"no classes":    {nil, claim(nil), claim(nil)},
		"no default":    {classes{some[0], some[2]}, claim(nil), claim(nil)},
		"the default":   {some, claim(nil), claim(new("b"))},
		"the old mark":  {classes{class("a", 1, beta, "true")}, claim(nil), claim(new("a"))},
		"the newest":    {append(classes{class("e", 2, mark, "true")}, some...), claim(nil), claim(new("e"))},
		"the first":     {append(classes{class("d", 1, mark, "true"), class("aa", 1, mark, "true")}, some...), claim(nil), claim(new("aa"))},
		"another class": {some, claim(new("x")), claim(new("x"))},
		"no class":      {some, claim(new("")), claim(new(""))},
		"an annotation": {some, annotated, annotated},
	} {
		t.Run(name, func(t *testing.T) {
			p := defaultstorageclass.New(tt.classes)
			r := admissiontest.Create(t, tt.given)
			admissiontest.TestPlugin(t, p, r)
			admissiontest.Admits(t, p, r, tt.want)
		})
	}
}

func TestOtherRequests(t *testing.T) {
	p := defaultstorageclass.New(classes{class("a", 1, mark, "true")})
	for _, r := range []*admission.Request{
		admissiontest.Create(t, claim(nil), admissiontest.Subresource("status")),
		admissiontest.Create(t, claim(nil), func(r *admission.Request) { r.Object = &corev1.Node{} }),
		admissiontest.Create(t, claim(nil), func(r *admission.Request) { r.Resource.Group = "example.com" }),
		admissiontest.Create(t, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}),
	} {
		admissiontest.TestPlugin(t, p, r)
		admissiontest.Admits(t, p, r, r.Object.DeepCopyObject())
	}
	if p.Handles(admission.Update) {
		t.Error("updates get a class, too")
	}
}

func Example() {
	plugin := defaultstorageclass.New(classes{class("standard", 0, mark, "true")})
	c := claim(nil)
	r := &admission.Request{Operation: admission.Create, Resource: corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"), Object: c}
	fmt.Println(plugin.Admit(context.Background(), r), *c.Spec.StorageClassName)
	// Output: <nil> standard
}
