package cel_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/policy"
	"github.com/keelson-dev/keelson/admission/policy/cel"
	"github.com/keelson-dev/keelson/authz"
)

// keep is a policy that keeps its input and allows everything.
type keep struct{ to **policy.Input }

func (k keep) Validate(_ context.Context, in *policy.Input, _ runtime.Object) policy.Verdict {
	*k.to = in
	return policy.Verdict{}
}

func mutating(compiler *cel.Compiler, p *registrationv1.MutatingAdmissionPolicy) *policy.Mutating {
	p = p.DeepCopy()
	p.Name, p.Spec.MatchConstraints = "p", constraints()
	b := &registrationv1.MutatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: registrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: "p"}}
	return policy.NewMutating(list[*registrationv1.MutatingAdmissionPolicy]{p}, list[*registrationv1.MutatingAdmissionPolicyBinding]{b}, namespaces{}, compiler.Mutating, policy.Options{})
}

// Variables are evaluated once for all expressions of a kind, however often they are used, and the authorizer is asked once.
func TestMemoised(t *testing.T) {
	asked := 0
	compiler := cel.New(cel.Options{Authorizer: authz.Func(func(context.Context, authz.Attributes) (authz.Decision, error) {
		asked++
		return authz.Decision{Verdict: authz.Allow}, nil
	})})
	may := "authorizer.group('').resource('pods').check('get').allowed()"
	v := compiler.Validating(&registrationv1.ValidatingAdmissionPolicy{Spec: registrationv1.ValidatingAdmissionPolicySpec{
		Variables:   []registrationv1.Variable{{Name: "may", Expression: may}, {Name: "never", Expression: "1/0 == 1"}},
		Validations: []registrationv1.Validation{{Expression: "variables.may && variables.may"}, {Expression: "variables.may"}, {Expression: may}},
	}})
	for i, d := range v.Validate(t.Context(), inputOf(t), nil).Decisions {
		if !d.Allowed {
			t.Errorf("%d: %s", i, d.Message)
		}
	}
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
}

// Without an authorizer, nobody may do anything.
func TestWithoutAuthorizer(t *testing.T) {
	v := cel.New(cel.Options{}).Validating(&registrationv1.ValidatingAdmissionPolicy{Spec: registrationv1.ValidatingAdmissionPolicySpec{
		Validations: []registrationv1.Validation{{Expression: "authorizer.group('').resource('pods').check('get').allowed()"}},
	}})
	if got := v.Validate(t.Context(), inputOf(t), nil); len(got.Decisions) != 1 || got.Decisions[0].Allowed || got.Decisions[0].Failed {
		t.Errorf("%+v", got)
	}
}

// Policies that define variables do not see each other's, nor do those without any.
func TestVariablesAreApart(t *testing.T) {
	compiler := cel.New(cel.Options{})
	of := func(names ...string) *registrationv1.ValidatingAdmissionPolicy {
		p := &registrationv1.ValidatingAdmissionPolicy{}
		for _, name := range names {
			p.Spec.Variables = append(p.Spec.Variables, registrationv1.Variable{Name: name, Expression: "true"})
		}
		p.Spec.Validations = []registrationv1.Validation{{Expression: "variables.a"}}
		return p
	}
	for want, p := range map[string]*registrationv1.ValidatingAdmissionPolicy{"": of("a"), "undefined field 'a'": of("b"), "undefined field 'a' ": of()} {
		d := compiler.Validating(p).Validate(t.Context(), inputOf(t), nil).Decisions[0]
		if d.Allowed != (want == "") || !strings.Contains(d.Message, strings.TrimSpace(want)) {
			t.Errorf("%v: %+v", p.Spec.Variables, d)
		}
	}
}

// What does not compile fails when it is evaluated.
func TestNotCompiled(t *testing.T) {
	compiler, ok := cel.New(cel.Options{}), registrationv1.Validation{Expression: "true"}
	for want, spec := range map[string]registrationv1.ValidatingAdmissionPolicySpec{
		"compilation error: compilation failed: ERROR: <input>:1:1: undeclared reference to 'params' (in container '')\n | params\n | ^": {
			Validations: []registrationv1.Validation{{Expression: "params"}}},
		"compilation error: must evaluate to bool but got int":  {Validations: []registrationv1.Validation{{Expression: "1 + 1"}}},
		"compilation error: must evaluate to bool but got int ": {Validations: []registrationv1.Validation{ok}, MatchConditions: []registrationv1.MatchCondition{{Name: "a", Expression: "1"}}},
		"failed expression: false":                              {Validations: []registrationv1.Validation{{Expression: "false", MessageExpression: "string(authorizer.requestResource.check('get').allowed())"}}},
		"compilation error: must evaluate to bool but got dyn": { // upstream's compiler does not know its type
			Validations: []registrationv1.Validation{{Expression: "variables.a"}}, Variables: []registrationv1.Variable{{Name: "a", Expression: "-"}},
		},
	} {
		d := compiler.Validating(&registrationv1.ValidatingAdmissionPolicy{Spec: spec}).Validate(t.Context(), inputOf(t), nil).Decisions
		if len(d) != 1 || d[0].Allowed || d[0].Message != strings.TrimSpace(want) {
			t.Errorf("got %+v, want %q", d, want)
		}
	}
	a := compiler.Validating(&registrationv1.ValidatingAdmissionPolicy{Spec: registrationv1.ValidatingAdmissionPolicySpec{
		Validations: []registrationv1.Validation{ok}, AuditAnnotations: []registrationv1.AuditAnnotation{{Key: "a", ValueExpression: "object.metadata"}},
	}}).Validate(t.Context(), inputOf(t), nil).Annotations
	if len(a) != 1 || a[0].Error != "compilation error: must evaluate to one of [string null_type] but got dyn" {
		t.Errorf("got %+v", a)
	}
	m := compiler.Mutating(&registrationv1.MutatingAdmissionPolicy{Spec: registrationv1.MutatingAdmissionPolicySpec{Mutations: []registrationv1.Mutation{
		{PatchType: registrationv1.PatchTypeJSONPatch, JSONPatch: &registrationv1.JSONPatch{Expression: "1 + 1"}},
		{PatchType: registrationv1.PatchTypeApplyConfiguration, ApplyConfiguration: &registrationv1.ApplyConfiguration{Expression: "{'a': 1}"}},
	}}})
	for n, want := range []string{"must evaluate to list(JSONPatch) but got int", "must evaluate to Object but got map(string, int)"} {
		if _, err := m.Mutate(t.Context(), n, inputOf(t), nil); err == nil || err.Error() != want {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// An evaluation ends with its context.
func TestEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	text := "[1,2,3,4,5,6,7,8,9].all(a, [1,2,3,4,5,6,7,8,9].all(b, [1,2,3,4,5,6,7,8,9].all(c, true)))"
	v := cel.New(cel.Options{}).Validating(&registrationv1.ValidatingAdmissionPolicy{Spec: registrationv1.ValidatingAdmissionPolicySpec{
		Validations: []registrationv1.Validation{{Expression: text}},
	}})
	if d := v.Validate(ctx, inputOf(t), nil).Decisions[0]; !d.Failed || !strings.Contains(d.Message, "operation interrupted") {
		t.Errorf("%+v", d)
	}
}

// A policy denies pods whose image is not of a registry.
func Example() {
	compiler := cel.New(cel.Options{})
	policies := list[*registrationv1.ValidatingAdmissionPolicy]{{
		ObjectMeta: metav1.ObjectMeta{Name: "images"},
		Spec: registrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: constraints(),
			Validations: []registrationv1.Validation{{
				Expression:        "object.spec.containers.all(c, c.image.startsWith('registry.example.com/'))",
				MessageExpression: "'no images of others in ' + request.namespace",
			}},
		},
	}}
	bindings := list[*registrationv1.ValidatingAdmissionPolicyBinding]{{
		ObjectMeta: metav1.ObjectMeta{Name: "everywhere"},
		Spec:       registrationv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: "images", ValidationActions: []registrationv1.ValidationAction{registrationv1.Deny}},
	}}
	plugin := policy.NewValidating(policies, bindings, namespaces{}, compiler.Validating, policy.Options{})
	err := plugin.Validate(context.Background(), &admission.Request{
		Operation: admission.Create, Kind: corev1.SchemeGroupVersion.WithKind("Pod"), Resource: corev1.SchemeGroupVersion.WithResource("pods"),
		Namespace: "default", Name: "p", Object: &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "busybox"}}}},
	})
	var denial *policy.Denial
	fmt.Println(errors.As(err, &denial), err)
	// Output: true pods "p" is forbidden: ValidatingAdmissionPolicy 'images' with binding 'everywhere' denied request: no images of others in default
}

// What expressions cost is told, kind by kind, also of one that is stopped at its own limit.
func TestSpent(t *testing.T) {
	var told []string
	var last int64
	compiler := cel.New(cel.Options{Spent: func(_ context.Context, c cel.Cost) {
		if c.Units <= 0 || c.Units >= c.Limit {
			t.Errorf("%+v", c)
		}
		last = c.Units
		told = append(told, fmt.Sprint(c.Plugin, " ", c.Policy, " ", c.Part))
	}})
	p := &registrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: registrationv1.ValidatingAdmissionPolicySpec{
		MatchConditions:  []registrationv1.MatchCondition{{Name: "a", Expression: "has(object.metadata)"}},
		Validations:      []registrationv1.Validation{{Expression: "!has(object.metadata)", MessageExpression: "'a' + string(has(object.metadata))"}},
		AuditAnnotations: []registrationv1.AuditAnnotation{{Key: "a", ValueExpression: "string(has(object.metadata))"}},
	}}
	compiler.Validating(p).Validate(t.Context(), inputOf(t), nil)
	want := "ValidatingAdmissionPolicy p matchConditions, ValidatingAdmissionPolicy p validations, ValidatingAdmissionPolicy p messageExpressions, ValidatingAdmissionPolicy p auditAnnotations"
	if got := strings.Join(told, ", "); got != want {
		t.Errorf("%s", got)
	}
	told = nil
	numbers := "[0,1,2,3,4,5,6,7,8,9]"
	p.Spec.MatchConditions, p.Spec.AuditAnnotations = nil, nil
	p.Spec.Validations = []registrationv1.Validation{{Expression: strings.Repeat(numbers+".all(x, ", 8) + "true" + strings.Repeat(")", 8)}}
	if d := compiler.Validating(p).Validate(t.Context(), inputOf(t), nil).Decisions; len(d) != 1 || !d[0].Failed || len(told) != 1 || last < 1_000_000 {
		t.Errorf("%v %d %+v", told, last, d)
	}
}

// TestMessagesBeyondBudget: if the messages of a policy cost too much together, all its validations have failed.
func TestMessagesBeyondBudget(t *testing.T) {
	slow := "string(" + strings.Repeat("[0,1,2,3,4,5,6,7,8,9].all(x, ", 5) + "true" + strings.Repeat(")", 5) + ")"
	p := &registrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: registrationv1.ValidatingAdmissionPolicySpec{
		Validations: slices.Repeat([]registrationv1.Validation{{Expression: "!has(object.metadata)", MessageExpression: slow}}, 60),
	}}
	decisions := cel.New(cel.Options{}).Validating(p).Validate(t.Context(), inputOf(t), nil).Decisions
	if len(decisions) != 60 {
		t.Fatalf("%+v", decisions)
	}
	for _, d := range decisions {
		if !d.Failed || d.Allowed || !strings.HasPrefix(d.Message, "failed messageExpression: ") {
			t.Fatalf("%+v", d)
		}
	}
}
