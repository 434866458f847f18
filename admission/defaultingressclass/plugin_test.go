package defaultingressclass_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/admissiontest"
	"github.com/keelson-dev/keelson/admission/defaultingressclass"
	"github.com/keelson-dev/keelson/informer"
)

var _ defaultingressclass.Classes = (*informer.Informer[*networkingv1.IngressClass])(nil)

// classes is a cache that does not change.
type classes []*networkingv1.IngressClass

func (c classes) List(string) []*networkingv1.IngressClass { return c }

const mark = "ingressclass.kubernetes.io/is-default-class"

// class returns a class that was made at some second, with an annotation.
func class(name string, second int64, annotation, value string) *networkingv1.IngressClass {
	return &networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{
		Name: name, CreationTimestamp: metav1.NewTime(time.Unix(second, 0)), Annotations: map[string]string{annotation: value},
	}}
}

func ingress(class *string) *networkingv1.Ingress {
	return &networkingv1.Ingress{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}, Spec: networkingv1.IngressSpec{IngressClassName: class},
	}
}

func TestDefault(t *testing.T) {
	some := classes{class("a", 2, mark, "false"), class("b", 1, mark, "true"), class("c", 3, "x", "true")}
	annotated := ingress(nil)
	annotated.Annotations = map[string]string{"kubernetes.io/ingress.class": ""}
	for name, tt := range map[string]struct {
		classes     classes
		given, want *networkingv1.Ingress
	}{
		"no classes":    {nil, ingress(nil), ingress(nil)},
		"no default":    {classes{some[0], some[2]}, ingress(nil), ingress(nil)},
		"the default":   {some, ingress(nil), ingress(new("b"))},
		"the newest":    {append(classes{class("e", 2, mark, "true")}, some...), ingress(nil), ingress(new("e"))},
		"the first":     {append(classes{class("d", 1, mark, "true"), class("aa", 1, mark, "true")}, some...), ingress(nil), ingress(new("aa"))},
		"another class": {some, ingress(new("x")), ingress(new("x"))},
		"no class":      {some, ingress(new("")), ingress(new(""))},
		"an annotation": {some, annotated, annotated},
	} {
		t.Run(name, func(t *testing.T) {
			p := defaultingressclass.New(tt.classes)
			r := admissiontest.Create(t, tt.given)
			admissiontest.TestPlugin(t, p, r)
			admissiontest.Admits(t, p, r, tt.want)
		})
	}
}

func TestOtherRequests(t *testing.T) {
	p := defaultingressclass.New(classes{class("a", 1, mark, "true")})
	for _, r := range []*admission.Request{
		admissiontest.Create(t, ingress(nil), admissiontest.Subresource("status")),
		admissiontest.Create(t, ingress(nil), func(r *admission.Request) { r.Resource.Group = "extensions" }),
		admissiontest.Create(t, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}),
	} {
		admissiontest.TestPlugin(t, p, r)
		admissiontest.Admits(t, p, r, r.Object.DeepCopyObject())
	}
	if p.Handles(admission.Update) {
		t.Error("updates get a class, too")
	}
	node := func(r *admission.Request) { r.Object = &corev1.Node{} }
	admissiontest.Refuses(t, p, admissiontest.Create(t, ingress(nil), node), "Internal error occurred: Expected Ingress resource, got: networking.k8s.io/v1, Kind=Ingress")
}

func Example() {
	plugin := defaultingressclass.New(classes{class("nginx", 0, mark, "true")})
	c := ingress(nil)
	r := &admission.Request{Operation: admission.Create, Resource: networkingv1.SchemeGroupVersion.WithResource("ingresses"), Object: c}
	fmt.Println(plugin.Admit(context.Background(), r), *c.Spec.IngressClassName)
	// Output: <nil> nginx
}
