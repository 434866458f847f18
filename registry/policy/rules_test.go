package policy_test

import (
	"reflect"
	"testing"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/api/policy/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/policy"
	"github.com/keelson-dev/keelson/registry/registrytest"
)

func TestKinds(t *testing.T) { registrytest.Kinds(t, policy.Kinds()) }

func TestNamespaced(t *testing.T) {
	if k := registrytest.Find(t, policy.Kinds(), "poddisruptionbudgets"); !k.Namespaced || !k.Rules.AnyFinalizer {
		t.Errorf("namespaced %t, any finalizer %t", k.Namespaced, k.Rules.AnyFinalizer)
	}
}

func TestCells(t *testing.T) {
	k := registrytest.Find(t, policy.Kinds(), "poddisruptionbudgets")
	now := time.Now()
	made := metav1.NewTime(now.Add(-3 * time.Hour))
	for name, tt := range map[string]struct {
		budget policyv1.PodDisruptionBudget
		want   []any
	}{
		"minimum": {policyv1.PodDisruptionBudget{
			Spec:   policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromString("50%"))},
			Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 4},
		}, []any{"b", "50%", "N/A", int64(4), "3h"}},
		"maximum": {policyv1.PodDisruptionBudget{
			Spec: policyv1.PodDisruptionBudgetSpec{MaxUnavailable: new(intstr.FromInt32(2))},
		}, []any{"b", "N/A", "2", int64(0), "3h"}},
	} {
		tt.budget.Name, tt.budget.CreationTimestamp = "b", made
		if got := k.Columns.Cells(&tt.budget, now); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

// TestStatusConditions: conditions are validated as for all kinds, and the view of the status leaves the spec
// unchanged.
func TestStatusConditions(t *testing.T) {
	k := registrytest.Find(t, policy.Kinds(), "poddisruptionbudgets")
	good := metav1.Condition{Type: "DisruptionAllowed", Status: "True", Reason: "SufficientPods", LastTransitionTime: metav1.Now()}
	bad := good
	bad.Status, bad.Reason = "Maybe", ""
	registrytest.Update(t, k, "status", budget(), []registrytest.Change[*policyv1.PodDisruptionBudget]{
		{Name: "good", To: func(b *policyv1.PodDisruptionBudget) { b.Status.Conditions = []metav1.Condition{good} }},
		{Name: "bad", To: func(b *policyv1.PodDisruptionBudget) { b.Status.Conditions = []metav1.Condition{bad} }, Refused: []string{
			`status.conditions[0].status: Unsupported value: "Maybe": supported values: "False", "True", "Unknown"`,
			`status.conditions[0].reason: Required value`}},
	})
	old := budget()
	next := old.DeepCopy()
	next.Spec.MinAvailable, next.Status.DisruptionsAllowed = new(intstr.FromInt32(1)), 5
	registrytest.Replace(k, "status", next, old)
	if next.Spec.MinAvailable.String() != "50%" || next.Status.DisruptionsAllowed != 5 || next.Generation != old.Generation {
		t.Errorf("the view of the status wrote %+v", next)
	}
}

// TestReservedKeyInUpdates: users cannot add the reserved key to a selector, but a stored one stays.
func TestReservedKeyInUpdates(t *testing.T) {
	k := registrytest.Find(t, policy.Kinds(), "poddisruptionbudgets")
	selector := func(keys ...string) *metav1.LabelSelector {
		s := &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		for _, key := range keys {
			s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{Key: key, Operator: "Exists"})
		}
		return s
	}
	for name, tt := range map[string]struct {
		old, next *metav1.LabelSelector
		want      int // expressions left
	}{
		"none":                  {nil, nil, 0},
		"to none":               {selector(reserved), nil, 0},
		"from none":             {nil, selector(reserved, "x"), 1},
		"added":                 {selector("x"), selector("x", reserved), 1},
		"as stored":             {selector("x", reserved), selector("x", reserved), 2},
		"stored, more is added": {selector(reserved), selector(reserved, "y"), 1},
		"stored, less remains":  {selector("x", reserved), selector(reserved), 0},
		"nothing reserved":      {selector("x"), selector("x", "y"), 2},
	} {
		old := budget()
		old.Spec.Selector = tt.old
		next := old.DeepCopy()
		next.Spec.Selector = tt.next
		registrytest.Replace(k, "", next, old)
		got := 0
		if next.Spec.Selector != nil {
			got = len(next.Spec.Selector.MatchExpressions)
		}
		if got != tt.want {
			t.Errorf("%s: %d expressions, want %d", name, got, tt.want)
		}
	}
}

// TestInvalidSelectorsStayOnly: an update may keep a selector that older rules accepted, but not introduce one.
func TestInvalidSelectorsStayOnly(t *testing.T) {
	k := registrytest.Find(t, policy.Kinds(), "poddisruptionbudgets")
	registrytest.Update(t, k, "", budget(), []registrytest.Change[*policyv1.PodDisruptionBudget]{
		{Name: "an invalid value", To: func(b *policyv1.PodDisruptionBudget) {
			b.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "In", Values: []string{"not valid"}}}
		}, Refused: []string{
			`spec.selector.matchExpressions[0].values[0]: Invalid value: "not valid": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`}},
		{Name: "no selector", To: func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector = nil }},
	})
}

// TestFromV1beta1: a selector selects the same in v1 as in v1beta1, where an empty one selects nothing.
func TestFromV1beta1(t *testing.T) {
	older := registrytest.Find(t, policy.Kinds(), "poddisruptionbudgets").Older
	if len(older) != 1 || older[0].GroupVersion != v1beta1.SchemeGroupVersion {
		t.Fatalf("older versions: %+v", older)
	}
	type requirement = metav1.LabelSelectorRequirement
	labels := map[string]string{"a": "b"}
	exists, lacks := requirement{Key: reserved, Operator: "Exists"}, requirement{Key: reserved, Operator: "DoesNotExist"}
	valued, other := requirement{Key: reserved, Operator: "In", Values: []string{"x"}}, requirement{Key: "x", Operator: "DoesNotExist"}
	odd := requirement{Key: reserved, Operator: "DoesNotExist", Values: []string{"x"}}
	for name, tt := range map[string]struct{ old, want *metav1.LabelSelector }{
		"none":                         {nil, nil},
		"empty selects nothing":        {&metav1.LabelSelector{}, &metav1.LabelSelector{MatchExpressions: []requirement{exists}}},
		"one that selected everything": {&metav1.LabelSelector{MatchExpressions: []requirement{lacks}}, &metav1.LabelSelector{}},
		"labels":                       {&metav1.LabelSelector{MatchLabels: labels}, &metav1.LabelSelector{MatchLabels: labels}},
		"an expression":                {&metav1.LabelSelector{MatchExpressions: []requirement{other}}, &metav1.LabelSelector{MatchExpressions: []requirement{other}}},
		"the key beside labels":        {&metav1.LabelSelector{MatchLabels: labels, MatchExpressions: []requirement{lacks}}, &metav1.LabelSelector{MatchLabels: labels}},
		"the key among expressions":    {&metav1.LabelSelector{MatchExpressions: []requirement{exists, other}}, &metav1.LabelSelector{MatchExpressions: []requirement{other}}},
		"the key twice":                {&metav1.LabelSelector{MatchLabels: labels, MatchExpressions: []requirement{lacks, lacks}}, &metav1.LabelSelector{MatchLabels: labels}},
		"the key with a value":         {&metav1.LabelSelector{MatchExpressions: []requirement{other, valued}}, &metav1.LabelSelector{MatchExpressions: []requirement{other}}},
		"the key with odd values":      {&metav1.LabelSelector{MatchLabels: labels, MatchExpressions: []requirement{odd}}, &metav1.LabelSelector{MatchLabels: labels}},
	} {
		t.Run(name, func(t *testing.T) {
			old := older[0].New().(*v1beta1.PodDisruptionBudget)
			old.Name, old.Spec.Selector = "b", tt.old
			old.Spec.MinAvailable, old.Spec.MaxUnavailable = new(intstr.FromInt32(1)), new(intstr.FromInt32(2))
			old.Spec.UnhealthyPodEvictionPolicy = new(v1beta1.AlwaysAllow)
			old.Status.CurrentHealthy = 3
			was := old.DeepCopy()
			got := older[0].ToStored(old)
			want := &policyv1.PodDisruptionBudget{
				ObjectMeta: metav1.ObjectMeta{Name: "b"},
				Spec: policyv1.PodDisruptionBudgetSpec{
					MinAvailable: new(intstr.FromInt32(1)), MaxUnavailable: new(intstr.FromInt32(2)), Selector: tt.want,
					UnhealthyPodEvictionPolicy: new(policyv1.AlwaysAllow),
				},
				Status: policyv1.PodDisruptionBudgetStatus{CurrentHealthy: 3},
			}
			if !equal(got, want) {
				t.Errorf("selector %+v, want %+v (%+v)", got.(*policyv1.PodDisruptionBudget).Spec.Selector, tt.want, got)
			}
			if !reflect.DeepEqual(old, was) {
				t.Errorf("the argument became %+v", old)
			}
		})
	}
}

// equal treats no expressions and an empty list of them as equal, but not a nil selector and an empty one.
func equal(got registry.Object, want *policyv1.PodDisruptionBudget) bool {
	b := got.DeepCopyObject().(*policyv1.PodDisruptionBudget)
	if b.Spec.Selector != nil && len(b.Spec.Selector.MatchExpressions) == 0 {
		b.Spec.Selector.MatchExpressions = nil
	}
	return reflect.DeepEqual(b, want)
}
