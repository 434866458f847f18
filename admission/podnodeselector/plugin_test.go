package podnodeselector_test

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/admissiontest"
	"github.com/keelson-dev/keelson/admission/podnodeselector"
	"github.com/keelson-dev/keelson/informer"
)

var _ podnodeselector.Namespaces = (*informer.Informer[*corev1.Namespace])(nil)

// namespace is a cache of the namespace "ns" with these annotations.
type namespace map[string]string

func (n namespace) Get(namespace, name string) (*corev1.Namespace, bool) {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: n}}, namespace == "" && name == "ns"
}

func annotated(selector string) namespace { return namespace{podnodeselector.Annotation: selector} }

type selector = map[string]string

func pod(s selector) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}, Spec: corev1.PodSpec{NodeSelector: s}}
}

func TestPlugin(t *testing.T) {
	const (
		conflict = `pods "p" is forbidden: pod node label selector conflicts with its namespace node label selector`
		outside  = `pods "p" is forbidden: pod node label selector labels conflict with its namespace whitelist`
	)
	byDefault := podnodeselector.Options{Default: "a=1"}
	allowed := podnodeselector.Options{Allowed: selector{"ns": "a=1,b=2", "other": "z=1"}}
	for name, c := range map[string]struct {
		ns          namespace
		o           podnodeselector.Options
		given, want selector
		refused     string
	}{
		"nothing":                     {nil, podnodeselector.Options{}, nil, selector{}, ""},
		"the pod's own":               {nil, podnodeselector.Options{}, selector{"x": "1"}, selector{"x": "1"}, ""},
		"the namespace's":             {annotated("a=1,b=2"), podnodeselector.Options{}, selector{"x": "1"}, selector{"a": "1", "b": "2", "x": "1"}, ""},
		"the same":                    {annotated("a=1"), podnodeselector.Options{}, selector{"a": "1"}, selector{"a": "1"}, ""},
		"against the namespace's":     {annotated("a=1"), podnodeselector.Options{}, selector{"a": "2"}, nil, conflict},
		"the default":                 {nil, byDefault, nil, selector{"a": "1"}, ""},
		"against the default":         {nil, byDefault, selector{"a": "2"}, nil, conflict},
		"the namespace's, no default": {annotated("b=2"), byDefault, nil, selector{"b": "2"}, ""},
		"none, and no default":        {annotated(""), byDefault, nil, selector{}, ""},
		"allowed":                     {annotated("a=1"), allowed, selector{"b": "2"}, selector{"a": "1", "b": "2"}, ""},
		"a label that is not allowed": {nil, allowed, selector{"c": "2"}, nil, outside},
		"a value that is not allowed": {nil, allowed, selector{"b": "3"}, nil, outside},
		"the namespace's is not":      {annotated("c=3"), allowed, nil, nil, outside},
		"no selector":                 {annotated("a"), podnodeselector.Options{}, nil, nil, "invalid selector: [a]"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := podnodeselector.New(c.ns, c.o)
			if err != nil {
				t.Fatal(err)
			}
			r := admissiontest.Create(t, pod(c.given))
			admissiontest.TestPlugin(t, p, r)
			if c.refused != "" {
				admissiontest.Refuses(t, p, r, c.refused)
				return
			}
			admissiontest.Admits(t, p, r, pod(c.want))
		})
	}
}

// What a webhook changes afterwards is held to the same rules.
func TestChangedLater(t *testing.T) {
	p, err := podnodeselector.New(annotated("a=1"), podnodeselector.Options{Allowed: selector{"ns": "a=1"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []selector{{"a": "2"}, {"a": "1", "b": "2"}} {
		if err := p.Validate(context.Background(), admissiontest.Create(t, pod(s))); err == nil {
			t.Errorf("%v is valid", s)
		}
	}
	if err := p.Validate(context.Background(), admissiontest.Create(t, pod(selector{"a": "1"}))); err != nil {
		t.Error(err)
	}
}

func TestOtherRequests(t *testing.T) {
	p, err := podnodeselector.New(annotated("a=1"), podnodeselector.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range []func(*admission.Request){admissiontest.Subresource("binding"), func(r *admission.Request) { r.Resource.Group = "x" }} {
		r := admissiontest.Create(t, pod(nil), change)
		admissiontest.Admits(t, p, r, pod(nil))
	}
	elsewhere := pod(nil)
	elsewhere.Namespace = "gone"
	admissiontest.Refuses(t, p, admissiontest.Create(t, elsewhere), `namespaces "gone" not found`)
	if err := p.Admit(t.Context(), admissiontest.Create(t, elsewhere)); err == nil {
		t.Error("the mutating half admits what the validating half refuses")
	}
	none := admissiontest.Create(t, elsewhere, func(r *admission.Request) { r.Object = &corev1.Node{} })
	admissiontest.Refuses(t, p, none, "Resource was marked with kind Pod but was unable to be converted")
	unnamed := pod(selector{"a": "2"})
	unnamed.Name, unnamed.GenerateName = "", "p-"
	admissiontest.Refuses(t, p, admissiontest.Create(t, unnamed), `pods is forbidden: pod node label selector conflicts with its namespace node label selector`)
	if p.Handles(admission.Update) || p.Handles(admission.Delete) {
		t.Error("it handles more than creates")
	}
}

func TestBadOptions(t *testing.T) {
	for want, o := range map[string]podnodeselector.Options{
		"default node selector: invalid selector: [a]":                   {Default: "a"},
		"node selectors allowed in namespace ns: invalid selector: [ a]": {Allowed: selector{"ns": " a"}},
	} {
		if _, err := podnodeselector.New(nil, o); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func Example() {
	p, err := podnodeselector.New(annotated("pool=blue"), podnodeselector.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	pod := &corev1.Pod{}
	r := &admission.Request{Operation: admission.Create, Resource: corev1.SchemeGroupVersion.WithResource("pods"), Namespace: "ns", Object: pod}
	fmt.Println(p.Admit(context.Background(), r), pod.Spec.NodeSelector)
	// Output: <nil> map[pool:blue]
}
