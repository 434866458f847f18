package admissionregistration_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/api/admissionregistration/v1alpha1"
	"k8s.io/api/admissionregistration/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/admissionregistration"
	"github.com/keelson-dev/keelson/registry/codec"
	"github.com/keelson-dev/keelson/registry/registrytest"
)

type (
	policy          = admissionv1.ValidatingAdmissionPolicy
	binding         = admissionv1.ValidatingAdmissionPolicyBinding
	mutatingPolicy  = admissionv1.MutatingAdmissionPolicy
	mutatingBinding = admissionv1.MutatingAdmissionPolicyBinding
)

// policyKinds compile what says for what it is: "variable", "validation with params"; and what is "old" where it is stored.
func policyKinds() []registry.Kind {
	return admissionregistration.PolicyKinds(admissionregistration.PolicyOptions{Compiler: func(composed bool) admissionregistration.Compiler {
		return func(e admissionregistration.Expression) error {
			want := e.Use
			if e.Params {
				want += " with params"
			}
			switch {
			case e.Text == want || composed && e.Text == "composed" || e.Stored && e.Text == "old":
				return nil
			case e.Text == "broken":
				return field.InternalError(nil, errors.New("out of order"))
			}
			return errors.New("must be " + want)
		}
	}})
}

func findPolicy(t *testing.T, plural string) registry.Kind {
	t.Helper()
	return registrytest.Find(t, policyKinds(), plural)
}

func match() *admissionv1.MatchResources {
	return &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: hook().Rules[0]}}}
}

func validatingPolicy() *policy {
	return &policy{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: admissionv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: match(), Validations: []admissionv1.Validation{{Expression: "validation"}},
	}}
}

func mutatingOne() *mutatingPolicy {
	return &mutatingPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: admissionv1.MutatingAdmissionPolicySpec{
		MatchConstraints: match(), ReinvocationPolicy: admissionv1.NeverReinvocationPolicy, Mutations: []admissionv1.Mutation{{
			PatchType: admissionv1.PatchTypeJSONPatch, JSONPatch: &admissionv1.JSONPatch{Expression: "JSON patch"},
		}},
	}}
}

func params() *admissionv1.ParamRef {
	return &admissionv1.ParamRef{Name: "x", ParameterNotFoundAction: new(admissionv1.DenyAction)}
}

func validatingBinding() *binding {
	return &binding{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: "p", ParamRef: params(), MatchResources: match(), ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
	}}
}

func mutatingBindingOne() *mutatingBinding {
	return &mutatingBinding{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: admissionv1.MutatingAdmissionPolicyBindingSpec{
		PolicyName: "p", ParamRef: params(), MatchResources: match(),
	}}
}

func TestPolicyKinds(t *testing.T) {
	registrytest.Kinds(t, policyKinds())
	registrytest.Kinds(t, admissionregistration.PolicyKinds(admissionregistration.PolicyOptions{}))
	for _, k := range policyKinds() {
		if k.Namespaced || k.Prefix != k.Plural || k.GroupVersion != admissionv1.SchemeGroupVersion || len(k.Short) > 0 || len(k.Also) > 0 ||
			!slices.Equal(k.Categories, []string{"api-extensions"}) || k.Rules.CreateOnUpdate || !k.Rules.ConditionalUpdate {
			t.Errorf("%+v in %s, stored in %s", k.Names, k.GroupVersion, k.Prefix)
		}
		if _, has := k.Sub.Views["status"]; has != (k.Plural == "validatingadmissionpolicies") {
			t.Errorf("%s: status %t", k.Plural, has)
		}
	}
}

func TestPolicyDefaults(t *testing.T) {
	p := validatingPolicy()
	p.Status.ObservedGeneration = 3
	p.Spec.MatchConstraints.ExcludeResourceRules = match().ResourceRules
	registrytest.Prepare(findPolicy(t, "validatingadmissionpolicies"), p)
	want := match()
	want.ExcludeResourceRules = match().ResourceRules
	want.MatchPolicy, want.NamespaceSelector, want.ObjectSelector = new(admissionv1.Equivalent), &metav1.LabelSelector{}, &metav1.LabelSelector{}
	want.ResourceRules[0].Scope, want.ExcludeResourceRules[0].Scope = new(admissionv1.AllScopes), new(admissionv1.AllScopes)
	if !reflect.DeepEqual(p.Spec.MatchConstraints, want) || *p.Spec.FailurePolicy != admissionv1.Fail || p.Generation != 1 || p.Status.ObservedGeneration != 0 {
		t.Errorf("prepared %+v", p)
	}
	want.ExcludeResourceRules = nil
	m, b, mb := mutatingOne(), validatingBinding(), mutatingBindingOne()
	registrytest.Prepare(findPolicy(t, "mutatingadmissionpolicies"), m)
	registrytest.Prepare(findPolicy(t, "validatingadmissionpolicybindings"), b)
	registrytest.Prepare(findPolicy(t, "mutatingadmissionpolicybindings"), mb)
	if !reflect.DeepEqual(m.Spec.MatchConstraints, want) || *m.Spec.FailurePolicy != admissionv1.Fail || m.Generation != 1 {
		t.Errorf("prepared %+v", m)
	}
	if !reflect.DeepEqual(b.Spec.MatchResources, want) || !reflect.DeepEqual(mb.Spec.MatchResources, want) || b.Generation != 1 || mb.Generation != 1 {
		t.Errorf("prepared %+v and %+v", b, mb)
	}
}

// TestPolicyUpdates: the spec and the status are written apart, and a changed spec raises the generation.
func TestPolicyUpdates(t *testing.T) {
	k := findPolicy(t, "validatingadmissionpolicies")
	old := validatingPolicy()
	registrytest.Prepare(k, old)
	for view, want := range map[string]policy{
		"":       {ObjectMeta: metav1.ObjectMeta{Name: "p", Generation: 2, Labels: map[string]string{"a": "b"}}, Spec: admissionv1.ValidatingAdmissionPolicySpec{FailurePolicy: new(admissionv1.Ignore)}},
		"status": {ObjectMeta: metav1.ObjectMeta{Name: "p", Generation: 1}, Spec: old.Spec, Status: admissionv1.ValidatingAdmissionPolicyStatus{ObservedGeneration: 1}},
	} {
		next := old.DeepCopy()
		next.Labels = map[string]string{"a": "b"}
		next.Spec = admissionv1.ValidatingAdmissionPolicySpec{FailurePolicy: new(admissionv1.Ignore)}
		next.Status.ObservedGeneration = 1
		registrytest.Replace(k, view, next, old)
		if !reflect.DeepEqual(next, &want) {
			t.Errorf("update %q: %+v\nwant %+v", view, next, want)
		}
	}
}

func TestPolicyColumns(t *testing.T) {
	now := time.Now()
	age := metav1.NewTime(now.Add(-3 * time.Hour))
	p, m, b, mb := validatingPolicy(), mutatingOne(), validatingBinding(), mutatingBindingOne()
	m.Spec.ParamKind = &admissionv1.ParamKind{APIVersion: "apps/v1", Kind: "Deployment"}
	mb.Spec.ParamRef.Namespace = "ns"
	selecting, none := validatingBinding(), validatingBinding()
	selecting.Spec.ParamRef = &admissionv1.ParamRef{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}
	none.Spec.ParamRef = nil
	for _, obj := range []metav1.Object{p, m, b, mb, selecting, none} {
		obj.SetCreationTimestamp(age)
	}
	for _, tt := range []struct {
		plural string
		obj    registry.Object
		names  string
		cells  []any
	}{
		{"validatingadmissionpolicies", p, "Name Validations ParamKind Age", []any{"p", int64(1), "<unset>", "3h"}},
		{"mutatingadmissionpolicies", m, "Name Mutations ParamKind Age", []any{"p", int64(1), "apps/v1/Deployment", "3h"}},
		{"validatingadmissionpolicybindings", b, "Name PolicyName ParamRef Age", []any{"b", "p", "*/x", "3h"}},
		{"validatingadmissionpolicybindings", none, "Name PolicyName ParamRef Age", []any{"b", "p", "<unset>", "3h"}},
		{"validatingadmissionpolicybindings", selecting, "Name PolicyName ParamRef Age", []any{"b", "p", selecting.Spec.ParamRef.Selector.String(), "3h"}},
		{"mutatingadmissionpolicybindings", mb, "Name PolicyName ParamRef Age", []any{"b", "p", "ns/x", "3h"}},
	} {
		k := findPolicy(t, tt.plural)
		var names []string
		for _, d := range k.Columns.Definitions {
			names = append(names, d.Name)
		}
		if got := k.Columns.Cells(tt.obj, now); strings.Join(names, " ") != tt.names || !reflect.DeepEqual(got, tt.cells) {
			t.Errorf("%s: %q %v", tt.plural, names, got)
		}
	}
}

// TestOlderPolicies: what older servers stored is read as v1, with the default that only v1alpha1 has.
func TestOlderPolicies(t *testing.T) {
	bare := &binding{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: "p", ParamRef: &admissionv1.ParamRef{Name: "x"}}}
	filled := bare.DeepCopy()
	filled.Spec.ParamRef.ParameterNotFoundAction = new(admissionv1.DenyAction)
	for _, older := range findPolicy(t, "validatingadmissionpolicybindings").Older {
		var stored registry.Object
		want := bare
		switch older.GroupVersion {
		case v1beta1.SchemeGroupVersion:
			stored = &v1beta1.ValidatingAdmissionPolicyBinding{ObjectMeta: bare.ObjectMeta, Spec: v1beta1.ValidatingAdmissionPolicyBindingSpec{PolicyName: "p", ParamRef: &v1beta1.ParamRef{Name: "x"}}}
		case v1alpha1.SchemeGroupVersion:
			stored = &v1alpha1.ValidatingAdmissionPolicyBinding{ObjectMeta: bare.ObjectMeta, Spec: v1alpha1.ValidatingAdmissionPolicyBindingSpec{PolicyName: "p", ParamRef: &v1alpha1.ParamRef{Name: "x"}}}
			want = filled
		default:
			t.Fatalf("version %s", older.GroupVersion)
		}
		data, err := codec.Stored(older.GroupVersion.WithKind("ValidatingAdmissionPolicyBinding"), stored)
		if err != nil {
			t.Fatal(err)
		}
		into := older.New()
		if _, err := codec.Decode(data, into); err != nil {
			t.Fatal(err)
		}
		if got := older.ToStored(into); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v", older.GroupVersion, got)
		}
	}
	for _, k := range policyKinds() {
		if len(k.Older) != 2 {
			t.Errorf("%s: %d older versions", k.Plural, len(k.Older))
		}
	}
}

func ExamplePolicyKinds() {
	for _, k := range admissionregistration.PolicyKinds(admissionregistration.PolicyOptions{}) {
		fmt.Println(k.GroupVersion, k.Plural)
	}
	// Output:
	// admissionregistration.k8s.io/v1 mutatingadmissionpolicies
	// admissionregistration.k8s.io/v1 mutatingadmissionpolicybindings
	// admissionregistration.k8s.io/v1 validatingadmissionpolicies
	// admissionregistration.k8s.io/v1 validatingadmissionpolicybindings
}
