package priority_test

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/admissiontest"
	"github.com/keelson-dev/keelson/admission/priority"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/registry/scheduling"
)

var _ priority.Classes = (*informer.Informer[*schedulingv1.PriorityClass])(nil)

// classes is a cache that does not change.
type classes []*schedulingv1.PriorityClass

func (c classes) List(string) []*schedulingv1.PriorityClass { return c }

func (c classes) Get(_, name string) (*schedulingv1.PriorityClass, bool) {
	for _, class := range c {
		if class.Name == name {
			return class, true
		}
	}
	return nil, false
}

func class(name string, value int32, change ...func(*schedulingv1.PriorityClass)) *schedulingv1.PriorityClass {
	policy := corev1.PreemptLowerPriority
	c := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value, PreemptionPolicy: &policy}
	for _, f := range change {
		f(c)
	}
	return c
}

func globalDefault(c *schedulingv1.PriorityClass) { c.GlobalDefault = true }

func never(c *schedulingv1.PriorityClass) {
	policy := corev1.PreemptNever
	c.PreemptionPolicy = &policy
}

// pod returns a pod of a class; priority and policy are unset if -1 or empty.
func pod(class string, priority int32, policy corev1.PreemptionPolicy) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	p.Spec.PriorityClassName = class
	if priority >= 0 {
		p.Spec.Priority = &priority
	}
	if policy != "" {
		p.Spec.PreemptionPolicy = &policy
	}
	return p
}

const lower, not = corev1.PreemptLowerPriority, corev1.PreemptNever

func TestPods(t *testing.T) {
	bare := class("bare", 7)
	bare.PreemptionPolicy = nil
	some := append(classes{class("high", 100), class("calm", 50, never), bare}, scheduling.Defaults()...)
	withDefault := append(classes{class("d2", 20, globalDefault), class("d1", 10, globalDefault)}, some...)
	for name, test := range map[string]struct {
		classes     classes
		given, want *corev1.Pod
		refusal     string
	}{
		"no class":            {classes: some, given: pod("", -1, ""), want: pod("", 0, lower)},
		"the default":         {classes: withDefault, given: pod("", -1, ""), want: pod("d1", 10, lower)},
		"a class":             {classes: withDefault, given: pod("high", -1, ""), want: pod("high", 100, lower)},
		"a system class":      {classes: some, given: pod("system-node-critical", -1, ""), want: pod("system-node-critical", 2000001000, "")},
		"that never preempts": {classes: some, given: pod("calm", -1, ""), want: pod("calm", 50, not)},
		"without a policy":    {classes: some, given: pod("bare", -1, not), want: pod("bare", 7, not)},
		"matching":            {classes: some, given: pod("high", 100, lower), want: pod("high", 100, lower)},
		"an unknown class":    {classes: some, given: pod("x", -1, ""), refusal: `pods "p" is forbidden: no PriorityClass with name x was found`},
		"another priority": {classes: some, given: pod("high", 99, ""),
			refusal: `pods "p" is forbidden: the integer value of priority (99) must not be provided in pod spec; priority admission controller computed 100 from the given PriorityClass name`},
		"another policy": {classes: some, given: pod("high", -1, not),
			refusal: `pods "p" is forbidden: the string value of PreemptionPolicy (Never) must not be provided in pod spec; priority admission controller computed PreemptLowerPriority from the given PriorityClass name`},
	} {
		t.Run(name, func(t *testing.T) {
			p := priority.New(test.classes)
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

func TestUpdatesKeepThePriority(t *testing.T) {
	p := priority.New(classes{})
	old := pod("gone", 5, not)
	update := admissiontest.Update(t, old, pod("gone", -1, ""))
	admissiontest.TestPlugin(t, p, update)
	admissiontest.Admits(t, p, update, old)
	admissiontest.Admits(t, p, admissiontest.Update(t, old, pod("gone", 6, lower)), pod("gone", 6, lower))
	admissiontest.Admits(t, p, admissiontest.Update(t, old, pod("gone", -1, ""), admissiontest.Subresource("status")), pod("gone", -1, ""))
	bad := func(r *admission.Request) { r.OldObject = &corev1.Node{} }
	admissiontest.Refuses(t, p, admissiontest.Update(t, old, pod("gone", -1, ""), bad), "resource was marked with kind Pod but was unable to be converted")
}

func TestOneGlobalDefault(t *testing.T) {
	p := priority.New(classes{class("a", 1), class("b", 2, globalDefault)})
	refusal := `priorityclasses.scheduling.k8s.io %q is forbidden: PriorityClass b is already marked as default. Only one default can exist`
	admissiontest.Refuses(t, p, admissiontest.Create(t, class("c", 3, globalDefault)), fmt.Sprintf(refusal, "c"))
	admissiontest.Refuses(t, p, admissiontest.Update(t, class("a", 1), class("a", 1, globalDefault)), fmt.Sprintf(refusal, "a"))
	for _, r := range []*admission.Request{
		admissiontest.Create(t, class("c", 3)),
		admissiontest.Update(t, class("b", 2, globalDefault), class("b", 2, globalDefault)),
	} {
		admissiontest.TestPlugin(t, p, r)
		admissiontest.Admits(t, p, r, r.Object)
	}
	first := admissiontest.Create(t, class("c", 3, globalDefault))
	admissiontest.Admits(t, priority.New(classes{}), first, first.Object)
	notAClass := func(r *admission.Request) { r.Object = &corev1.Node{} }
	admissiontest.Refuses(t, p, admissiontest.Create(t, class("c", 3), notAClass), "resource was marked with kind PriorityClass but was unable to be converted")
}

// TestKeptFields: an update takes over missing values, and only those; a value that was never set stays
// missing.
func TestKeptFields(t *testing.T) {
	p := priority.New(classes{})
	for name, tt := range map[string]struct{ old, next, want *corev1.Pod }{
		"nothing stored":      {pod("a", -1, ""), pod("a", -1, ""), pod("a", -1, "")},
		"a priority":          {pod("a", 5, ""), pod("a", -1, not), pod("a", 5, not)},
		"a policy":            {pod("a", -1, not), pod("a", 6, ""), pod("a", 6, not)},
		"nothing stored, new": {pod("a", -1, ""), pod("a", 6, lower), pod("a", 6, lower)},
	} {
		t.Run(name, func(t *testing.T) { admissiontest.Admits(t, p, admissiontest.Update(t, tt.old, tt.next), tt.want) })
	}
	notAPod := func(r *admission.Request) { r.Object = &corev1.Node{} }
	admissiontest.Refuses(t, p, admissiontest.Create(t, pod("a", -1, ""), notAPod), "resource was marked with kind Pod but was unable to be converted")
}

// TestLowestDefault: if a race left several defaults, the lowest counts, and among equals the first.
func TestLowestDefault(t *testing.T) {
	for name, list := range map[string]classes{
		"first":  {class("z", 10, globalDefault), class("b", 20, globalDefault), class("c", 30, globalDefault)},
		"last":   {class("a", 30, globalDefault), class("b", 20, globalDefault), class("z", 10, globalDefault)},
		"equals": {class("z", 10, globalDefault), class("b", 10, globalDefault)},
	} {
		t.Run(name, func(t *testing.T) {
			admissiontest.Admits(t, priority.New(list), admissiontest.Create(t, pod("", -1, "")), pod("z", 10, lower))
		})
	}
}

// TestDefaultIsWritten: an update of the default class may keep it the default, a create of the same name may
// not; subresources are not checked.
func TestDefaultIsWritten(t *testing.T) {
	p := priority.New(classes{class("b", 2, globalDefault)})
	admissiontest.Refuses(t, p, admissiontest.Create(t, class("b", 2, globalDefault)),
		`priorityclasses.scheduling.k8s.io "b" is forbidden: PriorityClass b is already marked as default. Only one default can exist`)
	part := admissiontest.Update(t, class("c", 3), class("c", 3, globalDefault), admissiontest.Subresource("status"))
	admissiontest.Admits(t, p, part, part.Object)
}

func Example() {
	plugin := priority.New(classes(scheduling.Defaults())) // in a server, an informer of PriorityClasses
	pod := &corev1.Pod{Spec: corev1.PodSpec{PriorityClassName: "system-cluster-critical"}}
	r := &admission.Request{Operation: admission.Create, Object: pod}
	r.Resource.Resource = "pods"
	err := plugin.Admit(context.Background(), r)
	fmt.Println(*pod.Spec.Priority, err)
	// Output: 2000000000 <nil>
}
