package namespaceexists_test

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/admissiontest"
	"github.com/keelson-dev/keelson/admission/namespaceexists"
	"github.com/keelson-dev/keelson/informer"
)

var _ namespaceexists.Namespaces = (*informer.Informer[*corev1.Namespace])(nil)

// namespaces is a cache of one namespace.
type namespaces string

func (n namespaces) Get(namespace, name string) (*corev1.Namespace, bool) {
	return &corev1.Namespace{}, namespace == "" && name == string(n)
}

func TestPlugin(t *testing.T) {
	p := namespaceexists.New(namespaces("here"))
	in := func(ns string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "p"}}
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "new"}}
	for _, r := range []*admission.Request{
		admissiontest.Create(t, in("here")),
		admissiontest.Create(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}),
		admissiontest.Create(t, ns, func(r *admission.Request) { r.Namespace = "new" }),
	} {
		admissiontest.TestPlugin(t, p, r)
		admissiontest.Admits(t, p, r, r.Object)
	}
	const missing = `namespaces "gone" not found`
	admissiontest.Refuses(t, p, admissiontest.Create(t, in("gone")), missing)
	admissiontest.Refuses(t, p, admissiontest.Update(t, in("gone"), in("gone")), missing)
	admissiontest.Refuses(t, p, admissiontest.Delete(t, in("gone")), missing)
	other := func(r *admission.Request) { r.Kind.Group = "example.com" }
	admissiontest.Refuses(t, p, admissiontest.Create(t, ns, other, func(r *admission.Request) { r.Namespace = "gone" }), missing)
	if p.Handles(admission.Connect) {
		t.Error("it handles connections")
	}
}

func Example() {
	p := namespaceexists.New(namespaces("here"))
	fmt.Println(p.Validate(context.Background(), &admission.Request{Operation: admission.Delete, Namespace: "elsewhere", Name: "p"}))
	// Output: namespaces "elsewhere" not found
}
