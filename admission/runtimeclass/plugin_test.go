package runtimeclass_test

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/admissiontest"
	"github.com/keelson-dev/keelson/admission/runtimeclass"
	"github.com/keelson-dev/keelson/informer"
)

var _ runtimeclass.Classes = (*informer.Informer[*nodev1.RuntimeClass])(nil)

// classes is a cache that does not change.
type classes map[string]*nodev1.RuntimeClass

func (c classes) Get(_, name string) (*nodev1.RuntimeClass, bool) {
	class, ok := c[name]
	return class, ok
}

func cpu(amount string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(amount)}
}

func pod(class string, change ...func(*corev1.PodSpec)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	if class != "" {
		p.Spec.RuntimeClassName = &class
	}
	for _, f := range change {
		f(&p.Spec)
	}
	return p
}

func overhead(amount string) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) { s.Overhead = cpu(amount) }
}

func selector(key, value string) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) {
		if s.NodeSelector == nil {
			s.NodeSelector = map[string]string{}
		}
		s.NodeSelector[key] = value
	}
}

func tolerating(t ...corev1.Toleration) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) { s.Tolerations = t }
}

func some() classes {
	return classes{
		"plain": {Handler: "plain"},
		"heavy": {Handler: "vm", Overhead: &nodev1.Overhead{PodFixed: cpu("250m")}},
		"placed": {Handler: "vm", Scheduling: &nodev1.Scheduling{
			NodeSelector: map[string]string{"vm": "yes"}, Tolerations: []corev1.Toleration{{Key: "vm", Operator: corev1.TolerationOpExists}},
		}},
	}
}

func TestPlugin(t *testing.T) {
	anything := corev1.Toleration{Operator: corev1.TolerationOpExists}
	vm := corev1.Toleration{Key: "vm", Operator: corev1.TolerationOpExists}
	const (
		mismatch = `pods "p" is forbidden: pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead`
		without  = `pods "p" is forbidden: pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead`
	)
	for name, test := range map[string]struct {
		classes     runtimeclass.Classes
		given, want *corev1.Pod
		refusal     string
	}{
		"no class":                  {given: pod(""), want: pod("")},
		"a class of none":           {given: pod("x"), refusal: `pods "p" is forbidden: pod rejected: RuntimeClass "x" not found`},
		"an unknown class":          {classes: some(), given: pod("x"), refusal: `pods "p" is forbidden: pod rejected: RuntimeClass "x" not found`},
		"a class":                   {classes: some(), given: pod("plain"), want: pod("plain")},
		"its overhead":              {classes: some(), given: pod("heavy"), want: pod("heavy", overhead("250m"))},
		"its overhead, given":       {classes: some(), given: pod("heavy", overhead("0.25")), want: pod("heavy", overhead("250m"))},
		"another overhead":          {classes: some(), given: pod("heavy", overhead("1")), refusal: mismatch},
		"overhead of nothing":       {classes: some(), given: pod("", overhead("1")), refusal: without},
		"overhead of a light class": {classes: some(), given: pod("plain", overhead("1")), refusal: without},
		"nodes": {classes: some(), given: pod("placed", selector("a", "b"), tolerating(vm)),
			want: pod("placed", selector("a", "b"), selector("vm", "yes"), tolerating(vm))},
		"nodes of their own": {classes: some(), given: pod("placed"), want: pod("placed", selector("vm", "yes"), tolerating(vm))},
		"all tolerated":      {classes: some(), given: pod("placed", tolerating(anything)), want: pod("placed", selector("vm", "yes"), tolerating(anything))},
		"conflicting nodes": {classes: some(), given: pod("placed", selector("vm", "no")),
			refusal: `pods "p" is forbidden: conflict: runtimeClass.scheduling.nodeSelector[vm] = yes; pod.spec.nodeSelector[vm] = no`},
	} {
		t.Run(name, func(t *testing.T) {
			p := runtimeclass.New(test.classes)
			r := admissiontest.Create(t, test.given)
			admissiontest.TestPlugin(t, p, r)
			if test.refusal != "" {
				admissiontest.Refuses(t, p, r, test.refusal)
				return
			}
			admissiontest.Admits(t, p, r, test.want)
		})
	}
}

// TestValidation: the changes of other plugins are checked, too.
func TestValidation(t *testing.T) {
	p := runtimeclass.New(some())
	err := p.Validate(t.Context(), admissiontest.Create(t, pod("heavy")))
	if want := `pods "p" is forbidden: pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestTolerations: of the tolerations of the pod and its class, those remain that no other covers.
func TestTolerations(t *testing.T) {
	type tolerations = []corev1.Toleration
	exists := func(key string, effect corev1.TaintEffect, seconds ...int64) corev1.Toleration {
		tol := corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: effect}
		if len(seconds) > 0 {
			tol.TolerationSeconds = ptr.To(seconds[0])
		}
		return tol
	}
	equal := func(key, value string) corev1.Toleration {
		return corev1.Toleration{Key: key, Operator: corev1.TolerationOpEqual, Value: value}
	}
	const out, no = corev1.TaintEffectNoExecute, corev1.TaintEffectNoSchedule
	for name, tt := range map[string]struct{ pod, class, want tolerations }{
		"of both":             {tolerations{exists("a", "")}, tolerations{exists("b", "")}, tolerations{exists("a", ""), exists("b", "")}},
		"the same":            {tolerations{exists("a", no)}, tolerations{exists("a", no)}, tolerations{exists("a", no)}},
		"the first of equals": {tolerations{exists("a", no), exists("b", no)}, tolerations{exists("a", no)}, tolerations{exists("a", no), exists("b", no)}},
		"the class has more":  {tolerations{exists("a", no)}, tolerations{exists("a", "")}, tolerations{exists("a", "")}},
		"the pod has more":    {tolerations{exists("a", "")}, tolerations{exists("a", no)}, tolerations{exists("a", "")}},
		"another effect":      {tolerations{exists("a", no)}, tolerations{exists("a", out)}, tolerations{exists("a", no), exists("a", out)}},
		"any value":           {tolerations{equal("a", "x")}, tolerations{exists("a", "")}, tolerations{exists("a", "")}},
		"another value":       {tolerations{equal("a", "x")}, tolerations{equal("a", "y")}, tolerations{equal("a", "x"), equal("a", "y")}},
		"one value, not all":  {tolerations{exists("a", no)}, tolerations{{Key: "a", Operator: corev1.TolerationOpEqual}}, tolerations{exists("a", no), {Key: "a", Operator: corev1.TolerationOpEqual}}},
		"for longer":          {tolerations{exists("a", out, 10)}, tolerations{exists("a", out, 20)}, tolerations{exists("a", out, 20)}},
		"for ever":            {tolerations{exists("a", out, 10)}, tolerations{exists("a", out)}, tolerations{exists("a", out)}},
		"not forever":         {tolerations{exists("a", out)}, tolerations{exists("a", out, 10)}, tolerations{exists("a", out)}},
		"comparing":           {tolerations{{Key: "a", Operator: corev1.TolerationOpLt, Value: "5"}}, tolerations{{Key: "a", Operator: corev1.TolerationOpLt, Value: "6"}}, tolerations{{Key: "a", Operator: corev1.TolerationOpLt, Value: "5"}, {Key: "a", Operator: corev1.TolerationOpLt, Value: "6"}}},
		"an unset operator":   {tolerations{equal("a", "x")}, tolerations{{Key: "a", Value: "x", Effect: ""}}, tolerations{{Key: "a", Value: "x"}}},
		"an empty key":        {tolerations{exists("a", "")}, tolerations{{Operator: corev1.TolerationOpEqual}}, tolerations{exists("a", ""), {Operator: corev1.TolerationOpEqual}}},
	} {
		t.Run(name, func(t *testing.T) {
			p := runtimeclass.New(classes{"c": {Scheduling: &nodev1.Scheduling{Tolerations: tt.class}}})
			admissiontest.Admits(t, p, admissiontest.Create(t, pod("c", tolerating(tt.pod...))), pod("c", tolerating(tt.want...)))
		})
	}
}

func TestOtherRequests(t *testing.T) {
	p := runtimeclass.New(nil)
	for _, r := range []*admission.Request{
		admissiontest.Create(t, pod("x"), admissiontest.Subresource("binding")),
		admissiontest.Create(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}),
	} {
		admissiontest.TestPlugin(t, p, r)
		admissiontest.Admits(t, p, r, r.Object)
	}
	if p.Handles(admission.Update) {
		t.Error("pods are checked again")
	}
	notAPod := func(r *admission.Request) { r.Object = &corev1.Node{} }
	admissiontest.Refuses(t, p, admissiontest.Create(t, pod(""), notAPod), "Resource was marked with kind Pod but was unable to be converted")
}

func Example() {
	plugin := runtimeclass.New(nil) // in a server that has them, an informer of RuntimeClasses
	name := "gvisor"
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{RuntimeClassName: &name}}
	r := &admission.Request{Operation: admission.Create, Object: pod, Name: "p"}
	r.Resource.Resource = "pods"
	fmt.Println(plugin.Admit(context.Background(), r))
	// Output: pods "p" is forbidden: pod rejected: RuntimeClass "gvisor" not found
}
