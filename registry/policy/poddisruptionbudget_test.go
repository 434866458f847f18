package policy_test

import (
	"fmt"
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/keelson-dev/keelson/registry/policy"
	"github.com/keelson-dev/keelson/registry/registrytest"
)

const reserved = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match"

func budget() *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "b", Namespace: "ns", Generation: 3},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: new(intstr.FromString("50%")),
			Selector:     &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
		},
	}
}

func TestBudget(t *testing.T) {
	k := registrytest.Find(t, policy.Kinds(), "poddisruptionbudgets")
	if k.Rules.CreateOnUpdate || !k.Rules.ConditionalUpdate {
		t.Errorf("create on update %t, conditional update %t", k.Rules.CreateOnUpdate, k.Rules.ConditionalUpdate)
	}
	if messages := k.Rules.ValidateName("Not_A.Subdomain", false); len(messages) > 0 {
		t.Errorf("name refused: %v", messages)
	}
	changes := []registrytest.Change[*policyv1.PodDisruptionBudget]{
		{Name: "empty spec", To: func(b *policyv1.PodDisruptionBudget) { b.Spec = policyv1.PodDisruptionBudgetSpec{} }},
		{Name: "both", To: func(b *policyv1.PodDisruptionBudget) { b.Spec.MaxUnavailable = new(intstr.FromInt32(1)) }, Refused: []string{
			`spec: Invalid value: {"MinAvailable":"50%","Selector":{"matchLabels":{"a":"b"}},"MaxUnavailable":1,"UnhealthyPodEvictionPolicy":null}: minAvailable and maxUnavailable cannot be both set`}},
		{Name: "negative", To: func(b *policyv1.PodDisruptionBudget) { b.Spec.MinAvailable = new(intstr.FromInt32(-1)) }, Refused: []string{
			`spec.minAvailable: Invalid value: -1: must be greater than or equal to 0`}},
		{Name: "more than all", To: func(b *policyv1.PodDisruptionBudget) { b.Spec.MinAvailable = new(intstr.FromString("101%")) }, Refused: []string{
			`spec.minAvailable: Invalid value: "101%": must not be greater than 100%`}},
		{Name: "a word", To: func(b *policyv1.PodDisruptionBudget) {
			b.Spec.MinAvailable, b.Spec.MaxUnavailable = nil, new(intstr.FromString("all"))
		}, Refused: []string{
			`spec.maxUnavailable: Invalid value: "all": a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')`}},
		{Name: "neither number nor string", To: func(b *policyv1.PodDisruptionBudget) {
			b.Spec.MinAvailable = &intstr.IntOrString{Type: 7}
		}, Refused: []string{
			`spec.minAvailable: Invalid value: intstr.IntOrString{Type:7, IntVal:0, StrVal:""}: must be an integer or percentage (e.g '5%%')`}},
		{Name: "bad selector", To: func(b *policyv1.PodDisruptionBudget) {
			b.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "In"}}
		}, Refused: []string{
			"spec.selector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'"}},
		{Name: "unknown policy", To: func(b *policyv1.PodDisruptionBudget) {
			b.Spec.UnhealthyPodEvictionPolicy = new(policyv1.UnhealthyPodEvictionPolicyType("x"))
		}, Refused: []string{
			`spec.unhealthyPodEvictionPolicy: Unsupported value: "x": supported values: "AlwaysAllow", "IfHealthyBudget"`}},
	}
	registrytest.Create(t, k, budget(), changes)
	registrytest.Update(t, k, "", budget(), changes)
	registrytest.Update(t, k, "status", budget(), []registrytest.Change[*policyv1.PodDisruptionBudget]{
		{Name: "the spec stays", To: func(b *policyv1.PodDisruptionBudget) { b.Spec.MinAvailable = new(intstr.FromInt32(-1)) }},
		{Name: "negative counts", To: func(b *policyv1.PodDisruptionBudget) {
			b.Status.DisruptionsAllowed, b.Status.CurrentHealthy, b.Status.DesiredHealthy, b.Status.ExpectedPods = -1, -2, -3, -4
		}, Refused: []string{
			`status.disruptionsAllowed: Invalid value: -1: must be greater than or equal to 0`,
			`status.currentHealthy: Invalid value: -2: must be greater than or equal to 0`,
			`status.desiredHealthy: Invalid value: -3: must be greater than or equal to 0`,
			`status.expectedPods: Invalid value: -4: must be greater than or equal to 0`,
		}},
	})
}

// A selector that was accepted under older rules may stay.
func TestOldSelectorStays(t *testing.T) {
	k := registrytest.Find(t, policy.Kinds(), "poddisruptionbudgets")
	invalid := metav1.LabelSelectorRequirement{Key: "a", Operator: metav1.LabelSelectorOpIn, Values: []string{"not valid"}}
	old := budget()
	old.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{invalid}
	if errs := k.Rules.Validate(old); len(errs) != 1 {
		t.Fatalf("created with an invalid value: %v", errs)
	}
	if errs := registrytest.Replace(k, "", old.DeepCopy(), old); len(errs) != 0 {
		t.Fatalf("updated: %v", errs)
	}
}

func TestGenerationAndReservedKey(t *testing.T) {
	k := registrytest.Find(t, policy.Kinds(), "poddisruptionbudgets")
	b := budget()
	b.Status.CurrentHealthy = 5
	b.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: reserved, Operator: "Exists"}, {Key: "a", Operator: "Exists"}}
	registrytest.Prepare(k, b)
	if b.Generation != 1 || b.Status.CurrentHealthy != 0 || len(b.Spec.Selector.MatchExpressions) != 1 {
		t.Errorf("created as %+v", b)
	}
	none := budget()
	none.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: reserved, Operator: "Exists"}}}
	registrytest.Prepare(k, none)
	if len(none.Spec.Selector.MatchExpressions) != 1 {
		t.Errorf("a selector that selects nothing now selects everything")
	}

	old := budget()
	obj := old.DeepCopy()
	obj.Status.CurrentHealthy = 5
	registrytest.Replace(k, "", obj, old)
	if obj.Generation != 3 || obj.Status.CurrentHealthy != 0 {
		t.Errorf("updated to %+v", obj)
	}
	obj.Spec.MinAvailable = new(intstr.FromInt32(1))
	registrytest.Replace(k, "", obj, old)
	if obj.Generation != 4 {
		t.Errorf("generation %d after a change of the spec", obj.Generation)
	}
}

func ExampleKinds() {
	for _, k := range policy.Kinds() {
		fmt.Println(k.GroupVersion, k.Plural, k.Short)
	}
	// Output: policy/v1 poddisruptionbudgets [pdb]
}
