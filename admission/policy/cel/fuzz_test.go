package cel_test

import (
	"context"
	"strings"
	"testing"
	"time"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/admission/policy"
	"github.com/keelson-dev/keelson/admission/policy/cel"
)

// seeds are expressions of all kinds, some of them expensive.
func seeds() []string {
	return []string{
		"", "true", "object.metadata.name == 'p'", "variables.v", "params == null", "[", "object.spec.containers.all(c, c.image != '')",
		"[JSONPatch{op: 'add', path: '/metadata/labels/a', value: 'b'}]", "[JSONPatch{op: 'test', path: '', value: Object{}}]",
		"Object{metadata: Object.metadata{labels: {'a': 'b'}}}", "Object{spec: Object.spec{containers: [Object.spec.containers{name: 'a'}]}}",
		"authorizer.group('').resource('pods').check('get').allowed()", "authorizer.requestResource.check('x').reason()",
		"[1,2,3,4,5,6,7,8,9].all(a, [1,2,3,4,5,6,7,8,9].all(b, [1,2,3,4,5,6,7,8,9].all(c, [1,2,3,4,5,6,7,8,9].all(d, [1,2,3,4,5,6,7,8,9].all(e, [1,2,3,4,5,6,7,8,9].all(f, true))))))",
		"'a'.matches('(a*)*b')", "string(object)", "request.userInfo.extra", "namespaceObject.metadata.labels.team", "oldObject", "{'a': object}",
		"object.metadata.name.replace('p', 'ppppppppppppppppppppp')", "1/0", "quantity('1').add(quantity('2'))", "timestamp('x')",
	}
}

// FuzzExpressions: whatever the text of an expression, a policy with it does not panic, is bounded in time, and either allows
// the request or says why not.
func FuzzExpressions(f *testing.F) {
	for _, text := range seeds() {
		f.Add(text)
	}
	compiler := cel.New(cel.Options{})
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 2<<10 {
			return // the parser's time is not limited by costs
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		v := &registrationv1.ValidatingAdmissionPolicy{Spec: registrationv1.ValidatingAdmissionPolicySpec{
			ParamKind: &registrationv1.ParamKind{APIVersion: "v1", Kind: "Pod"}, Variables: []registrationv1.Variable{{Name: "v", Expression: text}},
			MatchConditions:  []registrationv1.MatchCondition{{Name: "c", Expression: "variables.v || true"}},
			Validations:      []registrationv1.Validation{{Expression: text, MessageExpression: text}, {Expression: "variables.v == true"}},
			AuditAnnotations: []registrationv1.AuditAnnotation{{Key: "a", ValueExpression: text}},
		}}
		in := inputOf(t)
		verdict := compiler.Validating(v).Validate(ctx, in, nil)
		for _, d := range verdict.Decisions {
			if d.Allowed == (d.Message != "") || strings.Contains(d.Message, "internal error") {
				t.Errorf("decided %+v", d)
			}
		}
		m := &registrationv1.MutatingAdmissionPolicy{Spec: registrationv1.MutatingAdmissionPolicySpec{
			Variables: v.Spec.Variables, MatchConditions: []registrationv1.MatchCondition{{Name: "c", Expression: text}},
			Mutations: []registrationv1.Mutation{
				{PatchType: registrationv1.PatchTypeJSONPatch, JSONPatch: &registrationv1.JSONPatch{Expression: text}},
				{PatchType: registrationv1.PatchTypeApplyConfiguration, ApplyConfiguration: &registrationv1.ApplyConfiguration{Expression: text}},
				{PatchType: registrationv1.PatchTypeJSONPatch},
			},
		}}
		compiled := compiler.Mutating(m)
		_, _ = compiled.Matches(ctx, in, nil)
		for n := range m.Spec.Mutations {
			change, err := compiled.Mutate(ctx, n, in, nil)
			if (err == nil) == (change.Patch == nil && change.Apply == nil) {
				t.Errorf("mutation %d: %+v, %v", n, change, err)
			}
		}
		// The whole plugin, with a patch that is applied.
		_ = mutating(compiler, m).Admit(ctx, pod())
		if ctx.Err() != nil {
			t.Error("it took a minute")
		}
	})
}

// inputOf is the creation of a pod, as the plugin hands it to a policy.
func inputOf(t *testing.T) *policy.Input {
	t.Helper()
	var got *policy.Input
	p := policy.NewValidating(list[*registrationv1.ValidatingAdmissionPolicy]{{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: registrationv1.ValidatingAdmissionPolicySpec{MatchConstraints: constraints()}}},
		list[*registrationv1.ValidatingAdmissionPolicyBinding]{{Spec: registrationv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: "p"}}}, namespaces{},
		func(*registrationv1.ValidatingAdmissionPolicy) policy.Validator { return keep{&got} }, policy.Options{})
	if err := p.Validate(t.Context(), pod()); err != nil || got == nil {
		t.Fatal(err)
	}
	return got
}
