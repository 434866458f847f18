package admissiontest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/admissiontest"
)

// verdict records the failures of a test.
type verdict struct {
	testing.TB
	errors []string
}

func (v *verdict) Helper()           {}
func (v *verdict) Error(args ...any) { v.errors = append(v.errors, fmt.Sprint(args...)) }
func (v *verdict) Errorf(format string, args ...any) {
	v.errors = append(v.errors, fmt.Sprintf(format, args...))
}

func pod(labels map[string]string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Labels: labels}}
}

// plugin applies its functions to the request.
type plugin struct {
	admit, validate func(*admission.Request) error
}

func (plugin) Name() string                        { return "Test" }
func (plugin) Handles(op admission.Operation) bool { return op != admission.Connect }

func (p plugin) Admit(_ context.Context, r *admission.Request) error {
	if p.admit == nil {
		return nil
	}
	return p.admit(r)
}

func (p plugin) Validate(_ context.Context, r *admission.Request) error {
	if p.validate == nil {
		return nil
	}
	return p.validate(r)
}

func TestBreachesAreFound(t *testing.T) {
	grow := func(r *admission.Request) error {
		r.Object.(*corev1.Pod).Spec.NodeName += "x"
		return nil
	}
	old := func(r *admission.Request) error {
		r.OldObject.(*corev1.Pod).Spec.NodeName = "x"
		return nil
	}
	twice := func(r *admission.Request) error {
		p := r.Object.(*corev1.Pod)
		if p.Spec.NodeName == "x" {
			return admission.Forbidden(r, "again")
		}
		p.Spec.NodeName = "x"
		return nil
	}
	for want, p := range map[string]plugin{
		"Admit is not idempotent":                                           {admit: grow},
		"Admit changed the old object":                                      {admit: old},
		"Admit refuses what it made itself: pods \"p\" is forbidden: again": {admit: twice},
		"Validate changed the object":                                       {validate: grow},
		"Validate changed the old object":                                   {validate: old},
	} {
		v := &verdict{TB: t}
		original := pod(nil)
		if _, err := admissiontest.Run(v, p, admissiontest.Update(t, original, original)); err != nil {
			t.Errorf("%s: refused: %v", want, err)
		}
		if len(v.errors) == 0 || !strings.HasPrefix(v.errors[0], want) {
			t.Errorf("want %q, got %q", want, v.errors)
		}
		if original.Spec.NodeName != "" {
			t.Errorf("%s: the caller's object was changed", want)
		}
	}
}

func TestAdmitsAndRefuses(t *testing.T) {
	p := plugin{
		admit: func(r *admission.Request) error {
			r.Object.(*corev1.Pod).Labels = map[string]string{"a": "b"}
			return nil
		},
		validate: func(r *admission.Request) error {
			if r.User.Name != "tester" {
				return admission.Forbidden(r, "not you, %s", r.User.Name)
			}
			return nil
		},
	}
	admissiontest.TestPlugin(t, p, admissiontest.Create(t, pod(nil)), admissiontest.Create(t, pod(nil), admissiontest.By("eve")))
	create := admissiontest.Create(t, pod(nil))
	admissiontest.Admits(t, p, create, pod(map[string]string{"a": "b"}))
	eve := admissiontest.Create(t, pod(nil), admissiontest.By("eve", "g"), admissiontest.DryRun)
	refusal := admissiontest.Refuses(t, p, eve, `pods "p" is forbidden: not you, eve`)
	if !errors.Is(refusal, admission.ErrForbidden) || !eve.DryRun {
		t.Errorf("refusal %#v", refusal)
	}
	v := &verdict{TB: t}
	admissiontest.Admits(v, p, create, pod(nil))
	admissiontest.Admits(v, p, eve, pod(nil))
	admissiontest.Refuses(v, p, create, "no")
	admissiontest.Refuses(v, p, eve, "no")
	if len(v.errors) != 4 {
		t.Errorf("wrong expectations went unnoticed: %q", v.errors)
	}
}

func TestRequests(t *testing.T) {
	d := admissiontest.Delete(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
	if d.Operation != admission.Delete || d.Namespace != "n" || d.Name != "n" || d.Resource.Resource != "namespaces" || d.Kind.Kind != "Namespace" || d.Object != nil || d.OldObject == nil {
		t.Errorf("%+v", d)
	}
	u := admissiontest.Update(t, pod(nil), pod(map[string]string{"a": "b"}), admissiontest.Subresource("status"))
	if u.Subresource != "status" || u.Namespace != "ns" || u.Resource.Resource != "pods" || u.OldObject == u.Object {
		t.Errorf("%+v", u)
	}
	unhandled := func(r *admission.Request) { r.Operation = admission.Connect }
	refuses := plugin{validate: func(r *admission.Request) error { return admission.Forbidden(r, "no") }}
	admissiontest.Admits(t, refuses, admissiontest.Create(t, pod(nil), unhandled), pod(nil))
}
