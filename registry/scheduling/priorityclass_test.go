package scheduling_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/podspec/critical"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/registrytest"
	"github.com/keelson-dev/keelson/registry/scheduling"
)

func TestPriorityClass(t *testing.T) {
	k := registrytest.Find(t, scheduling.Kinds(), "priorityclasses")
	good := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "mine"}, Value: 1_000_000_000}
	registrytest.Create(t, k, good, []registrytest.Change[*schedulingv1.PriorityClass]{
		{Name: "negative value", To: func(c *schedulingv1.PriorityClass) { c.Value = -5 }},
		{Name: "too high", To: func(c *schedulingv1.PriorityClass) { c.Value++ }, Refused: []string{
			`value: Forbidden: maximum allowed value of a user defined priority is 1000000000`}},
		{Name: "a system name", To: func(c *schedulingv1.PriorityClass) { c.Name = "system-x" }, Refused: []string{
			`metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. error: system-x is not a known system priority class`}},
		{Name: "a system class of another value", To: func(c *schedulingv1.PriorityClass) { c.Name = critical.NodeClass }, Refused: []string{
			`metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. error: value of system-node-critical PriorityClass must be 2000001000`}},
		{Name: "a system class as default", To: func(c *schedulingv1.PriorityClass) {
			c.Name, c.Value, c.GlobalDefault = critical.ClusterClass, 2_000_000_000, true
		}, Refused: []string{
			`metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. error: globalDefault of system-cluster-critical PriorityClass must be false`}},
		{Name: "preemption never", To: func(c *schedulingv1.PriorityClass) { c.PreemptionPolicy = new(corev1.PreemptNever) }},
		{Name: "empty preemption", To: func(c *schedulingv1.PriorityClass) { c.PreemptionPolicy = new(corev1.PreemptionPolicy("")) }, Refused: []string{
			`preemptionPolicy: Required value`}},
		{Name: "unknown preemption", To: func(c *schedulingv1.PriorityClass) { c.PreemptionPolicy = new(corev1.PreemptionPolicy("Maybe")) }, Refused: []string{
			`preemptionPolicy: Unsupported value: "Maybe": supported values: "PreemptLowerPriority", "Never"`}},
	})
	registrytest.Update(t, k, "", good, []registrytest.Change[*schedulingv1.PriorityClass]{
		{Name: "description and default", To: func(c *schedulingv1.PriorityClass) { c.Description, c.GlobalDefault = "x", true }},
		{Name: "value", To: func(c *schedulingv1.PriorityClass) { c.Value = 7 }, Refused: []string{
			`value: Forbidden: may not be changed in an update.`}},
		{Name: "preemption", To: func(c *schedulingv1.PriorityClass) { c.PreemptionPolicy = new(corev1.PreemptNever) }, Refused: []string{
			`preemptionPolicy: Invalid value: "Never": field is immutable`}},
	})
}

func TestSystemClassesStay(t *testing.T) {
	k := registrytest.Find(t, scheduling.Kinds(), "priorityclasses")
	for _, class := range scheduling.Defaults() {
		var refusal *registry.Error
		err := k.Rules.Deletion.Guard(class.Name)
		if !errors.As(err, &refusal) || !errors.Is(refusal, registry.ErrForbidden) || refusal.Name != class.Name ||
			refusal.Resource.String() != "priorityclasses.scheduling.k8s.io" || refusal.Message != "this is a system priority class and cannot be deleted" {
			t.Errorf("%s: %v", class.Name, err)
		}
	}
	for _, name := range []string{"mine", "system-x", ""} {
		if err := k.Rules.Deletion.Guard(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestDefaultsAreValid(t *testing.T) {
	k := registrytest.Find(t, scheduling.Kinds(), "priorityclasses")
	want := map[string]int32{"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}
	for _, class := range scheduling.Defaults() {
		registrytest.Prepare(k, class)
		if errs := k.Rules.Validate(class); len(errs) > 0 {
			t.Errorf("%s: %v", class.Name, errs)
		}
		if want[class.Name] != class.Value || class.Generation != 1 || *class.PreemptionPolicy != corev1.PreemptLowerPriority {
			t.Errorf("%s is %+v", class.Name, class)
		}
		delete(want, class.Name)
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
}

func TestCells(t *testing.T) {
	k := registrytest.Find(t, scheduling.Kinds(), "priorityclasses")
	now := time.Now()
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "c", CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))}, Value: 7, GlobalDefault: true}
	if got := k.Columns.Cells(class, now); !slices.Equal(got, []any{"c", int64(7), true, "60m", ""}) {
		t.Errorf("cells %v", got)
	}
	class.PreemptionPolicy = new(corev1.PreemptNever)
	if got := k.Columns.Cells(class, now); got[4] != "Never" {
		t.Errorf("cells %v", got)
	}
}

func ExampleDefaults() {
	for _, class := range scheduling.Defaults() {
		fmt.Println(class.Name, class.Value)
	}
	// Output:
	// system-node-critical 2000001000
	// system-cluster-critical 2000000000
}
