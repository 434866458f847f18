package admissionregistration_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/keelson-dev/keelson/registry/admissionregistration"
	"github.com/keelson-dev/keelson/registry/registrytest"
)

type (
	policyChange         = registrytest.Change[*policy]
	mutatingPolicyChange = registrytest.Change[*mutatingPolicy]
	bindingChange        = registrytest.Change[*binding]
)

func spec(change func(s *admissionv1.ValidatingAdmissionPolicySpec)) func(*policy) {
	return func(p *policy) { change(&p.Spec) }
}

func TestPolicy(t *testing.T) {
	const both = "validations or auditAnnotations must contain at least one item"
	changes := []policyChange{
		{Name: "failure policy", To: spec(func(s *admissionv1.ValidatingAdmissionPolicySpec) {
			s.FailurePolicy = new(admissionv1.FailurePolicyType("x"))
		}),
			Refused: []string{`spec.failurePolicy: Unsupported value: "x": supported values: "Fail", "Ignore"`}},
		{Name: "no constraints", To: spec(func(s *admissionv1.ValidatingAdmissionPolicySpec) { s.MatchConstraints = nil }),
			Refused: []string{`spec.matchConstraints: Required value`}},
		{Name: "no rules", To: spec(func(s *admissionv1.ValidatingAdmissionPolicySpec) { s.MatchConstraints.ResourceRules = nil }),
			Refused: []string{`spec.matchConstraints.resourceRules: Required value`}},
		{Name: "names twice", To: spec(func(s *admissionv1.ValidatingAdmissionPolicySpec) {
			s.MatchConstraints.ResourceRules[0].ResourceNames = []string{"a", "a", "%"}
		}), Refused: []string{`spec.matchConstraints.resourceRules[0].resourceNames[1]: Duplicate value: "a"`,
			`spec.matchConstraints.resourceRules[0].resourceNames[2]: Invalid value: "%": may not contain '%'`}},
		{Name: "deletion", To: spec(func(s *admissionv1.ValidatingAdmissionPolicySpec) {
			s.MatchConstraints.ResourceRules[0].Operations = []admissionv1.OperationType{admissionv1.Delete}
		})},
		{Name: "param kind", To: spec(func(s *admissionv1.ValidatingAdmissionPolicySpec) {
			s.ParamKind = &admissionv1.ParamKind{APIVersion: "a/b/c"}
			s.Validations[0].Expression = "validation with params"
		}), Refused: []string{`spec.paramKind.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c`, `spec.paramKind.kind: Required value`}},
		{Name: "a kind that is none", To: spec(func(s *admissionv1.ValidatingAdmissionPolicySpec) {
			s.ParamKind = &admissionv1.ParamKind{APIVersion: "v1", Kind: "Config Map"}
			s.Validations[0].Expression = "validation with params"
		}), Refused: []string{`spec.paramKind.kind: Invalid value: "Config Map": may have mixed case, but should otherwise match: a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')`}},
		{Name: "a kind of the core", To: spec(func(s *admissionv1.ValidatingAdmissionPolicySpec) {
			s.ParamKind = &admissionv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}
			s.Validations[0].Expression = "validation with params"
		})},
		{Name: "names that are left out, twice", To: spec(func(s *admissionv1.ValidatingAdmissionPolicySpec) {
			s.MatchConstraints.ExcludeResourceRules = []admissionv1.NamedRuleWithOperations{*s.MatchConstraints.ResourceRules[0].DeepCopy()}
			s.MatchConstraints.ExcludeResourceRules[0].ResourceNames = []string{"a", "a"}
		}), Refused: []string{`spec.matchConstraints.excludeResourceRules[0].resourceNames[1]: Duplicate value: "a"`}},
		{Name: "all annotations", To: spec(func(s *admissionv1.ValidatingAdmissionPolicySpec) {
			for i := range 20 {
				s.AuditAnnotations = append(s.AuditAnnotations, admissionv1.AuditAnnotation{Key: fmt.Sprintf("k%d", i), ValueExpression: "audit annotation"})
			}
		})},
		{Name: "no version", To: spec(func(s *admissionv1.ValidatingAdmissionPolicySpec) {
			s.ParamKind = &admissionv1.ParamKind{APIVersion: "a/", Kind: "K"}
			s.Validations[0].Expression = "validation with params"
		}), Refused: []string{`spec.paramKind.apiVersion: Invalid value: "a/": version must be specified`}},
		{Name: "no group", To: spec(func(s *admissionv1.ValidatingAdmissionPolicySpec) {
			s.ParamKind = &admissionv1.ParamKind{APIVersion: "a_b/v1", Kind: "K"}
			s.Validations[0].Expression = "validation with params"
		}), Refused: []string{`spec.paramKind.apiVersion: Invalid value: "a_b": ` + strings.Join(validation.IsDNS1123Subdomain("a_b"), ",")}},
		{Name: "nothing to validate", To: spec(func(s *admissionv1.ValidatingAdmissionPolicySpec) { s.Validations = nil }),
			Refused: []string{"spec.validations: Required value: " + both, "spec.auditAnnotations: Required value: " + both}},
		{Name: "variables", To: spec(func(s *admissionv1.ValidatingAdmissionPolicySpec) {
			s.Variables = []admissionv1.Variable{{Name: "a", Expression: "variable"}, {Name: "in", Expression: "x"}, {Expression: " "}, {Name: "9", Expression: "broken"}}
			s.Validations[0].Expression = "composed"
		}), Refused: []string{
			`spec.variables[1].name: Invalid value: "in": must be a valid CEL identifier`, `spec.variables[1].expression: Invalid value: "x": must be variable`,
			`spec.variables[2].name: Required value: name is not specified`, `spec.variables[2].expression: Required value: expression is not specified`,
			`spec.variables[3].name: Invalid value: "9": must be a valid CEL identifier`, `spec.variables[3].expression: Internal error: out of order`}},
		{Name: "names of variables", To: spec(func(s *admissionv1.ValidatingAdmissionPolicySpec) {
			for _, name := range []string{"_", "aZ09_", "zA", "a-b", "a:", "a[", "a`", "a{", "a@", "a/b", "-a"} {
				s.Variables = append(s.Variables, admissionv1.Variable{Name: name, Expression: "variable"})
			}
			s.Validations[0].Expression = "composed"
		}), Refused: []string{
			`spec.variables[3].name: Invalid value: "a-b": must be a valid CEL identifier`, `spec.variables[4].name: Invalid value: "a:": must be a valid CEL identifier`,
			`spec.variables[5].name: Invalid value: "a[": must be a valid CEL identifier`, "spec.variables[6].name: Invalid value: \"a`\": must be a valid CEL identifier",
			`spec.variables[7].name: Invalid value: "a{": must be a valid CEL identifier`, `spec.variables[8].name: Invalid value: "a@": must be a valid CEL identifier`,
			`spec.variables[9].name: Invalid value: "a/b": must be a valid CEL identifier`, `spec.variables[10].name: Invalid value: "-a": must be a valid CEL identifier`}},
		{Name: "no variables", To: spec(func(s *admissionv1.ValidatingAdmissionPolicySpec) { s.Validations[0].Expression = "composed" }),
			Refused: []string{`spec.validations[0].expression: Invalid value: "composed": must be validation`}},
		{Name: "match conditions", To: spec(func(s *admissionv1.ValidatingAdmissionPolicySpec) {
			s.MatchConditions = []admissionv1.MatchCondition{{Name: "a", Expression: " match condition "}, {Name: "a", Expression: "x"}, {Name: "b", Expression: "broken"}}
		}), Refused: []string{`spec.matchConditions[1].expression: Invalid value: "x": must be match condition`, `spec.matchConditions[1].name: Duplicate value: "a"`,
			`spec.matchConditions[2].expression: Internal error: out of order`}},
		{Name: "messages", To: spec(func(s *admissionv1.ValidatingAdmissionPolicySpec) {
			v := admissionv1.Validation{Expression: "validation"}
			s.Validations = []admissionv1.Validation{v, v, v, {}}
			s.Validations[0].MessageExpression, s.Validations[0].Message = "message", " m\n"
			s.Validations[1].MessageExpression, s.Validations[1].Message = " ", " "
			s.Validations[2].MessageExpression, s.Validations[2].Message, s.Validations[2].Reason = "x", "a\nb", new(metav1.StatusReasonGone)
		}), Refused: []string{
			`spec.validations[1].messageExpression: Invalid value: " ": must be non-empty if specified`, `spec.validations[1].message: Invalid value: " ": must be non-empty if specified`,
			`spec.validations[2].messageExpression: Invalid value: "x": must be message`, `spec.validations[2].message: Invalid value: "a\nb": must not contain line breaks`,
			`spec.validations[2].reason: Unsupported value: "Gone": supported values: "Forbidden", "Invalid", "RequestEntityTooLarge"`,
			`spec.validations[3].expression: Required value: expression is not specified`}},
		{Name: "annotations", To: spec(func(s *admissionv1.ValidatingAdmissionPolicySpec) {
			s.AuditAnnotations = []admissionv1.AuditAnnotation{{Key: "k", ValueExpression: " audit annotation"}, {Key: "k", ValueExpression: " x"}, {Key: "l"},
				{Key: "m", ValueExpression: strings.Repeat("x", 5121)}}
		}), Refused: []string{`spec.auditAnnotations[1].valueExpression: Invalid value: " x": must be audit annotation`, `spec.auditAnnotations[1].key: Duplicate value: "k"`,
			`spec.auditAnnotations[2].valueExpression: Required value: valueExpression is not specified`,
			`spec.auditAnnotations[3].valueExpression: Required value: must not exceed 5120 bytes in length`}},
	}
	k := findPolicy(t, "validatingadmissionpolicies")
	registrytest.Create(t, k, validatingPolicy(), changes)
	registrytest.Update(t, k, "", validatingPolicy(), changes)
	registrytest.Create(t, k, validatingPolicy(), []policyChange{{Name: "a reserved name", To: func(p *policy) { p.Name = "a.static.k8s.io" }, Refused: []string{
		`metadata.name: Invalid value: "a.static.k8s.io": names ending with ".static.k8s.io" are reserved for static manifest-based configurations and cannot be managed via the API`}}})
	registrytest.Update(t, k, "status", validatingPolicy(), []policyChange{
		{Name: "warnings", To: func(p *policy) {
			p.Status.TypeChecking = &admissionv1.TypeChecking{ExpressionWarnings: []admissionv1.ExpressionWarning{{FieldRef: "spec.validations[0].expression", Warning: "w"}, {}, {FieldRef: "{", Warning: "w"}}}
		}, Refused: []string{`status.typeChecking.expressionWarnings[1].warning: Required value`, `status.typeChecking.expressionWarnings[1].fieldRef: Required value`,
			`status.typeChecking.expressionWarnings[2].fieldRef: Invalid value: "{": invalid JSONPath: unrecognized character in action: U+007B '{'`}},
	})
}

// TestStoredPolicyExpressions: what a policy has had stays valid, except where upstream looks for it in the wrong place.
func TestStoredPolicyExpressions(t *testing.T) {
	old := validatingPolicy()
	old.Spec.Validations[0] = admissionv1.Validation{Expression: "old", MessageExpression: "old"}
	old.Spec.MatchConditions = []admissionv1.MatchCondition{{Name: "a", Expression: "old"}}
	old.Spec.AuditAnnotations = []admissionv1.AuditAnnotation{{Key: "k", ValueExpression: "old"}}
	registrytest.Update(t, findPolicy(t, "validatingadmissionpolicies"), "", old, []policyChange{
		{Name: "more", To: func(p *policy) {
			p.Spec.Validations = append(p.Spec.Validations, p.Spec.Validations[0])
			p.Spec.MatchConditions = append(p.Spec.MatchConditions, admissionv1.MatchCondition{Name: "b", Expression: "old"})
		}},
		{Name: "a variable", To: func(p *policy) { p.Spec.Variables = []admissionv1.Variable{{Name: "a", Expression: "old"}} }},
	})
	m := mutatingOne()
	m.Spec.Mutations = []admissionv1.Mutation{{PatchType: admissionv1.PatchTypeApplyConfiguration, ApplyConfiguration: &admissionv1.ApplyConfiguration{Expression: "old"}}}
	registrytest.Update(t, findPolicy(t, "mutatingadmissionpolicies"), "", m, []mutatingPolicyChange{
		{Name: "as a patch", To: func(p *mutatingPolicy) {
			p.Spec.Mutations = append(p.Spec.Mutations, admissionv1.Mutation{PatchType: admissionv1.PatchTypeJSONPatch, JSONPatch: &admissionv1.JSONPatch{Expression: "old"}})
		}},
		{Name: "a variable", To: func(p *mutatingPolicy) { p.Spec.Variables = []admissionv1.Variable{{Name: "a", Expression: "old"}} }, Refused: []string{
			`spec.variables[0].expression: Invalid value: "old": must be variable`}},
	})
}

func TestMutatingPolicy(t *testing.T) {
	changes := []mutatingPolicyChange{
		{Name: "deletion", To: func(p *mutatingPolicy) {
			p.Spec.MatchConstraints.ResourceRules[0].Operations = []admissionv1.OperationType{admissionv1.Delete}
		}, Refused: []string{`spec.matchConstraints.resourceRules.operations: Unsupported value: "DELETE": supported values: "*", "CONNECT", "CREATE", "UPDATE"`}},
		{Name: "composed", To: func(p *mutatingPolicy) { p.Spec.Mutations[0].JSONPatch.Expression = "composed" }},
		{Name: "no mutations", To: func(p *mutatingPolicy) { p.Spec.Mutations = nil }, Refused: []string{`spec.mutations: Required value: mutations must contain at least one item`}},
		{Name: "reinvocation", To: func(p *mutatingPolicy) { p.Spec.ReinvocationPolicy = "" }, Refused: []string{`spec.reinvocationPolicy: Required value`}},
		{Name: "mutations", To: func(p *mutatingPolicy) {
			patch, apply := p.Spec.Mutations[0].JSONPatch, &admissionv1.ApplyConfiguration{Expression: " apply configuration"}
			p.Spec.Mutations = []admissionv1.Mutation{
				{PatchType: "JSONPatch", ApplyConfiguration: apply}, {PatchType: "ApplyConfiguration", JSONPatch: patch}, {PatchType: "ApplyConfiguration", ApplyConfiguration: apply},
				{PatchType: "x"}, {}, {PatchType: "JSONPatch", JSONPatch: &admissionv1.JSONPatch{Expression: " x "}}, {PatchType: "JSONPatch", JSONPatch: &admissionv1.JSONPatch{}},
			}
		}, Refused: []string{
			`spec.mutations[0].jsonPatch: Required value: must be specified when patchType is JSONPatch`,
			`spec.mutations[0].applyConfiguration: Invalid value: "{applyConfiguration}": must not be specified when patchType is JSONPatch`,
			`spec.mutations[1].applyConfiguration: Required value: must be specified when patchType is ApplyConfiguration`,
			`spec.mutations[1].jsonPatch: Invalid value: "{jsonPatch}": must not be specified when patchType is ApplyConfiguration`,
			`spec.mutations[3].patchType: Unsupported value: "x": supported values: "ApplyConfiguration", "JSONPatch"`,
			`spec.mutations[4].patchType: Required value`,
			`spec.mutations[5].jsonPatch.expression: Invalid value: "x": must be JSON patch`,
			`spec.mutations[6].jsonPatch.expression: Required value`}},
	}
	registrytest.Create(t, findPolicy(t, "mutatingadmissionpolicies"), mutatingOne(), changes)
	registrytest.Update(t, findPolicy(t, "mutatingadmissionpolicies"), "", mutatingOne(), changes)
}

func TestBinding(t *testing.T) {
	changes := []bindingChange{
		{Name: "no policy", To: func(b *binding) { b.Spec.PolicyName = "" }, Refused: []string{`spec.policyName: Required value`}},
		{Name: "no actions", To: func(b *binding) { b.Spec.ValidationActions = nil }, Refused: []string{`spec.validationActions: Required value`}},
		{Name: "actions", To: func(b *binding) {
			b.Spec.ValidationActions = []admissionv1.ValidationAction{"Deny", "x", "Warn", "Deny"}
		}, Refused: []string{
			`spec.validationActions[1]: Unsupported value: "x": supported values: "Audit", "Deny", "Warn"`, `spec.validationActions[3]: Duplicate value: "Deny"`,
			`spec.validationActions: Invalid value: ["Deny","x","Warn","Deny"]: must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)`}},
		{Name: "a warning", To: func(b *binding) { b.Spec.ValidationActions = []admissionv1.ValidationAction{"Warn", "Audit"} }},
		{Name: "a denial", To: func(b *binding) { b.Spec.ValidationActions = []admissionv1.ValidationAction{"Deny", "Audit"} }},
		{Name: "name and selector", To: func(b *binding) {
			b.Spec.ParamRef.Selector, b.Spec.ParamRef.ParameterNotFoundAction = &metav1.LabelSelector{}, new(admissionv1.ParameterNotFoundActionType("x"))
		}, Refused: []string{`spec.paramRef.name: Forbidden: name and selector are mutually exclusive`, `spec.paramRef.selector: Forbidden: name and selector are mutually exclusive`,
			`spec.paramRef.parameterNotFoundAction: Unsupported value: "x": supported values: "Deny", "Allow"`}},
		{Name: "a selector", To: func(b *binding) {
			b.Spec.ParamRef = &admissionv1.ParamRef{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a b": ""}}, ParameterNotFoundAction: new(admissionv1.DenyAction)}
		}, Refused: []string{"spec.paramRef.selector.matchLabels: Invalid value: \"a b\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"}},
		{Name: "no params", To: func(b *binding) { b.Spec.ParamRef = &admissionv1.ParamRef{} }, Refused: []string{
			`spec.paramRef: Required value: one of name or selector must be specified`, `spec.paramRef.parameterNotFoundAction: Required value`}},
	}
	k := findPolicy(t, "validatingadmissionpolicybindings")
	registrytest.Create(t, k, validatingBinding(), changes)
	registrytest.Update(t, k, "", validatingBinding(), changes)
	bare := validatingBinding()
	bare.Spec.MatchResources, bare.Spec.ParamRef = nil, nil
	bare.Spec.ValidationActions, bare.Spec.PolicyName = nil, ""
	const never = "[spec.policyName: Required value, spec.validationActions: Required value: at least one validation action is required]"
	if err := k.Rules.ValidateUpdate(bare, bare.DeepCopy()).ToAggregate(); err == nil || err.Error() != never {
		t.Errorf("a binding that never had any: %v", err)
	}
	registrytest.Create(t, findPolicy(t, "mutatingadmissionpolicybindings"), mutatingBindingOne(), []registrytest.Change[*mutatingBinding]{
		{Name: "no params", To: func(b *mutatingBinding) { b.Spec.ParamRef = &admissionv1.ParamRef{} }, Refused: []string{
			`spec.paramRef: Required value: one of name or selector must be specified`, `spec.paramRef.parameterNotFoundAction: Required value`}},
		{Name: "a match policy", To: func(b *mutatingBinding) { b.Spec.MatchResources.MatchPolicy = new(admissionv1.MatchPolicyType("x")) }, Refused: []string{
			`spec.matchResources.matchPolicy: Unsupported value: "x": supported values: "Equivalent", "Exact"`}},
		{Name: "no policy", To: func(b *mutatingBinding) { b.Spec.PolicyName = "" }, Refused: []string{`spec.policyName: Required value`}},
		{Name: "deletion", To: func(b *mutatingBinding) {
			b.Spec.MatchResources.ResourceRules[0].Operations = []admissionv1.OperationType{admissionv1.Delete}
		}, Refused: []string{`spec.matchResources.resourceRules.operations: Unsupported value: "DELETE": supported values: "*", "CONNECT", "CREATE", "UPDATE"`}},
	})
}

// TestPolicyNature: finalizers of policies may have any name, updates need a version, and a deletion returns no object.
func TestPolicyNature(t *testing.T) {
	for _, k := range policyKinds() {
		if k.Rules.CreateOnUpdate || !k.Rules.ConditionalUpdate || !k.Rules.AnyFinalizer || k.Rules.Deletion.ReturnsObject {
			t.Errorf("%s: %+v", k.Plural, k.Rules)
		}
	}
}

// TestNoPolicyCompiler: without a compiler, policies may be changed except for their spec.
func TestNoPolicyCompiler(t *testing.T) {
	const refused = "spec: Forbidden: this server does not evaluate policies: it has no compiler for their expressions (CEL)"
	kinds := admissionregistration.PolicyKinds(admissionregistration.PolicyOptions{})
	k := registrytest.Find(t, kinds, "validatingadmissionpolicies")
	for _, tt := range []struct {
		change func(*policy)
		want   string
	}{{func(p *policy) { p.Labels = map[string]string{"a": "b"} }, ""}, {func(p *policy) { p.Spec.Validations = nil }, refused}} {
		old := validatingPolicy()
		next := old.DeepCopy()
		tt.change(next)
		got := ""
		if err := k.Rules.ValidateUpdate(next, old).ToAggregate(); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("update refused: %s", got)
		}
	}
	if got := k.Rules.Validate(validatingPolicy()).ToAggregate(); got == nil || got.Error() != refused {
		t.Errorf("create: %v", got)
	}
	mutating := registrytest.Find(t, kinds, "mutatingadmissionpolicies").Rules
	if got := mutating.Validate(mutatingOne()).ToAggregate(); got == nil || got.Error() != refused {
		t.Errorf("create: %v", got)
	}
	old, next := mutatingOne(), mutatingOne()
	next.Labels = map[string]string{"a": "b"}
	if got := mutating.ValidateUpdate(next, old).ToAggregate(); got != nil {
		t.Errorf("update refused: %v", got)
	}
	next.Spec.Mutations = nil
	if got := mutating.ValidateUpdate(next, old).ToAggregate(); got == nil || got.Error() != refused {
		t.Errorf("update: %v", got)
	}
}

// TestUnpreparedPolicy: what the defaults and the server fill in is required.
func TestUnpreparedPolicy(t *testing.T) {
	p := validatingPolicy()
	p.Name = ""
	p.Spec.MatchConstraints.MatchPolicy, p.Spec.MatchConstraints.NamespaceSelector, p.Spec.MatchConstraints.ObjectSelector = nil, nil, nil
	p.Spec.AuditAnnotations = []admissionv1.AuditAnnotation{{Key: "k", ValueExpression: "audit annotation"}}
	var got []string
	for _, err := range findPolicy(t, "validatingadmissionpolicies").Rules.Validate(p) {
		got = append(got, err.Error())
	}
	for _, want := range []string{
		"spec.matchConstraints.matchPolicy: Required value", "spec.matchConstraints.namespaceSelector: Required value",
		"spec.matchConstraints.objectSelector: Required value", `spec.auditAnnotations[0].key: Invalid value: "k": requires metadata.name be non-empty`,
	} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is missing in %q", want, got)
		}
	}
}
