package admissiontest

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/authn"
)

// Object is a decoded API object.
type Object interface {
	runtime.Object
	metav1.Object
}

// Create returns the request of user "tester" to create obj, modified by changes.
func Create(t testing.TB, obj Object, changes ...func(*admission.Request)) *admission.Request {
	t.Helper()
	r := request(t, admission.Create, obj, &metav1.CreateOptions{})
	r.Object = obj
	return apply(r, changes)
}

// Update returns the request to replace old with obj.
func Update(t testing.TB, old, obj Object, changes ...func(*admission.Request)) *admission.Request {
	t.Helper()
	r := request(t, admission.Update, old, &metav1.UpdateOptions{})
	r.Object, r.OldObject = obj, old
	return apply(r, changes)
}

// Delete returns the request to delete old.
func Delete(t testing.TB, old Object, changes ...func(*admission.Request)) *admission.Request {
	t.Helper()
	r := request(t, admission.Delete, old, &metav1.DeleteOptions{})
	r.OldObject = old
	return apply(r, changes)
}

// Subresource makes it a request for a subresource.
func Subresource(name string) func(*admission.Request) {
	return func(r *admission.Request) { r.Subresource = name }
}

// By makes it a request of another user.
func By(user string, groups ...string) func(*admission.Request) {
	return func(r *admission.Request) { r.User = &authn.Identity{Name: user, Groups: groups} }
}

// DryRun makes it a dry run.
func DryRun(r *admission.Request) { r.DryRun = true }

func request(t testing.TB, op admission.Operation, obj Object, options runtime.Object) *admission.Request {
	t.Helper()
	kinds, _, err := scheme.Scheme.ObjectKinds(obj)
	if err != nil {
		t.Fatalf("kind of %T: %v", obj, err)
	}
	plural, _ := meta.UnsafeGuessKindToResource(kinds[0])
	namespace := obj.GetNamespace()
	if kinds[0].Kind == "Namespace" {
		namespace = obj.GetName() // as upstream does
	}
	return &admission.Request{
		Operation: op, Kind: kinds[0], Resource: plural,
		Namespace: namespace, Name: obj.GetName(), Options: options,
		User: &authn.Identity{Name: "tester", Groups: []string{authn.GroupAuthenticated}},
	}
}

func apply(r *admission.Request, changes []func(*admission.Request)) *admission.Request {
	for _, change := range changes {
		change(r)
	}
	return r
}

// clone copies a request with its objects.
func clone(r *admission.Request) *admission.Request {
	c := *r
	if r.Object != nil {
		c.Object = r.Object.DeepCopyObject()
	}
	if r.OldObject != nil {
		c.OldObject = r.OldObject.DeepCopyObject()
	}
	return &c
}
