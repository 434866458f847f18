package admissionregistration

import (
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/util/jsonpath"

	"github.com/keelson-dev/keelson/registry/internal/check"
)

const (
	maxAnnotations = 20
	// maxAnnotationExpression is in bytes.
	maxAnnotationExpression = 5 << 10
)

// common is what both kinds of policies have.
type common struct {
	failure    *admissionv1.FailurePolicyType
	params     *admissionv1.ParamKind
	match      *admissionv1.MatchResources
	conditions []admissionv1.MatchCondition
	variables  []admissionv1.Variable
	operations []admissionv1.OperationType // that rules may name besides those of all webhooks; nil means all
}

// former are the expressions that a policy had before, by what they are for.
type former struct {
	unchanged                         bool // the match conditions and the kind of parameters
	conditions, validations, messages []string
	annotations, applied              []string
}

func (c common) formerly(old common) former {
	f := former{
		unchanged: equality.Semantic.DeepEqual(c.params, old.params) && equality.Semantic.DeepEqual(c.conditions, old.conditions),
	}
	for _, condition := range old.conditions {
		f.conditions = append(f.conditions, condition.Expression)
	}
	return f
}

func (c common) validate(x expressions, was former) field.ErrorList {
	path := field.NewPath("spec")
	errs := requiredOneOf(path.Child("failurePolicy"), c.failure, admissionv1.Fail, admissionv1.Ignore)
	if c.params != nil {
		errs = append(errs, validateParamKind(c.params, path.Child("paramKind"))...)
	}
	constraints := path.Child("matchConstraints")
	if c.match == nil {
		errs = append(errs, field.Required(constraints, ""))
	} else {
		errs = append(errs, validateMatch(c.match, constraints)...)
		if len(c.match.ResourceRules) == 0 {
			errs = append(errs, field.Required(constraints.Child("resourceRules"), ""))
		}
		errs = append(errs, validateOperations(c.match.ResourceRules, c.operations, constraints)...)
	}
	conditions := conditions{unchanged: was.unchanged, stored: was.conditions, compile: func(text string, stored bool) error {
		return x.compile(Expression{Text: text, Use: Condition, Params: x.params, Stored: stored})
	}}
	errs = append(errs, conditions.validate(c.conditions, path.Child("matchConditions"))...)
	for i, v := range c.variables {
		errs = append(errs, validateVariable(v, x, was, path.Child("variables").Index(i))...)
	}
	return errs
}

func validateVariable(v admissionv1.Variable, x expressions, was former, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch {
	case blank(v.Name):
		errs = append(errs, field.Required(path.Child("name"), "name is not specified"))
	case !identifier(v.Name):
		errs = append(errs, field.Invalid(path.Child("name"), v.Name, "must be a valid CEL identifier"))
	}
	if blank(v.Expression) {
		return append(errs, field.Required(path.Child("expression"), "expression is not specified"))
	}
	// Upstream looks for a variable's former expression among those of validations.
	e := Expression{Text: v.Expression, Use: Variable, Name: v.Name}
	return append(errs, x.check(e, v.Expression, was.validations, path.Child("expression"))...)
}

// identifier reports whether CEL has a name for a variable.
func identifier(name string) bool {
	for i, r := range name {
		letter := r == '_' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return !slices.Contains([]string{
		"true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop",
		"package", "namespace", "return", "var", "void", "while",
	}, name)
}

func commonOfValidating(s *admissionv1.ValidatingAdmissionPolicySpec) common {
	return common{s.FailurePolicy, s.ParamKind, s.MatchConstraints, s.MatchConditions, s.Variables, nil}
}

func commonOfMutating(s *admissionv1.MutatingAdmissionPolicySpec) common {
	return common{s.FailurePolicy, s.ParamKind, s.MatchConstraints, s.MatchConditions, s.Variables, mutatingOperations()}
}

// validateValidating validates a policy that replaces old, or a new one if old is nil.
func validateValidating(o PolicyOptions, p, old *admissionv1.ValidatingAdmissionPolicy) field.ErrorList {
	if o.Compiler == nil {
		if old != nil && equality.Semantic.DeepEqual(p.Spec, old.Spec) {
			return nil
		}
		return noCompiler()
	}
	spec, c := &p.Spec, commonOfValidating(&p.Spec)
	var was former
	if old != nil {
		was = c.formerly(commonOfValidating(&old.Spec))
		for _, v := range old.Spec.Validations {
			was.validations = append(was.validations, v.Expression)
			was.messages = append(was.messages, v.MessageExpression)
		}
		for _, a := range old.Spec.AuditAnnotations {
			was.annotations = append(was.annotations, a.ValueExpression)
		}
	}
	x := expressions{o.Compiler(len(spec.Variables) > 0), spec.ParamKind != nil}
	errs := c.validate(x, was)
	path := field.NewPath("spec")
	if len(spec.Validations) == 0 && len(spec.AuditAnnotations) == 0 {
		const none = "validations or auditAnnotations must contain at least one item"
		return append(errs, field.Required(path.Child("validations"), none), field.Required(path.Child("auditAnnotations"), none))
	}
	for i := range spec.Validations {
		errs = append(errs, validateValidation(&spec.Validations[i], x, was, path.Child("validations").Index(i))...)
	}
	return append(errs, validateAnnotations(p.Name, spec.AuditAnnotations, x, was, path.Child("auditAnnotations"))...)
}

func validateValidation(v *admissionv1.Validation, x expressions, was former, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if blank(v.Expression) {
		errs = append(errs, field.Required(path.Child("expression"), "expression is not specified"))
	} else {
		errs = append(errs, x.check(Expression{Text: v.Expression, Use: Validation}, v.Expression, was.validations, path.Child("expression"))...)
	}
	if v.MessageExpression != "" {
		at := path.Child("messageExpression")
		if blank(v.MessageExpression) {
			errs = append(errs, field.Invalid(at, v.MessageExpression, "must be non-empty if specified"))
		} else {
			errs = append(errs, x.check(Expression{Text: v.MessageExpression, Use: Message}, v.MessageExpression, was.messages, at)...)
		}
	}
	switch {
	case v.Message != "" && blank(v.Message):
		errs = append(errs, field.Invalid(path.Child("message"), v.Message, "must be non-empty if specified"))
	case strings.ContainsAny(strings.TrimSpace(v.Message), "\n\r"):
		errs = append(errs, field.Invalid(path.Child("message"), v.Message, "must not contain line breaks"))
	}
	return append(errs, optional(path.Child("reason"), v.Reason,
		metav1.StatusReasonForbidden, metav1.StatusReasonInvalid, metav1.StatusReasonRequestEntityTooLarge)...)
}

// shownAnnotation is the form of an annotation in errors.
type shownAnnotation struct{ Key, ValueExpression string }

func validateAnnotations(policy string, list []admissionv1.AuditAnnotation, x expressions, was former, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(list) > maxAnnotations {
		var shown []shownAnnotation
		for _, a := range list {
			shown = append(shown, shownAnnotation(a))
		}
		errs = append(errs, field.Invalid(path, shown, fmt.Sprintf("must not have more than %d auditAnnotations", maxAnnotations)))
	}
	seen := map[string]bool{}
	for i, a := range list {
		path := path.Index(i)
		if policy == "" {
			errs = append(errs, field.Invalid(path.Child("key"), a.Key, "requires metadata.name be non-empty"))
		} else {
			errs = append(errs, check.QualifiedName(path.Child("key"), policy+"/"+a.Key)...)
		}
		errs = append(errs, validateAnnotation(a.ValueExpression, x, was, path.Child("valueExpression"))...)
		if seen[a.Key] {
			errs = append(errs, field.Duplicate(path.Child("key"), a.Key))
		}
		seen[a.Key] = true
	}
	return errs
}

func validateAnnotation(value string, x expressions, was former, path *field.Path) field.ErrorList {
	trimmed := strings.TrimSpace(value)
	switch {
	case trimmed == "":
		return field.ErrorList{field.Required(path, "valueExpression is not specified")}
	case len(trimmed) > maxAnnotationExpression:
		return field.ErrorList{field.Required(path, fmt.Sprintf("must not exceed %d bytes in length", maxAnnotationExpression))}
	}
	return x.check(Expression{Text: trimmed, Use: AuditAnnotation}, value, was.annotations, path)
}

// validateTypeChecks validates a policy's status.
func validateTypeChecks(s *admissionv1.ValidatingAdmissionPolicyStatus) field.ErrorList {
	path := field.NewPath("status")
	var errs field.ErrorList
	if s.TypeChecking != nil {
		for i, w := range s.TypeChecking.ExpressionWarnings {
			at := path.Child("typeChecking", "expressionWarnings").Index(i)
			if w.Warning == "" {
				errs = append(errs, field.Required(at.Child("warning"), ""))
			}
			errs = append(errs, validateFieldRef(strings.TrimSpace(w.FieldRef), at.Child("fieldRef"))...)
		}
	}
	return append(errs, metavalidation.ValidateConditions(s.Conditions, path.Child("conditions"))...)
}

func validateFieldRef(ref string, path *field.Path) field.ErrorList {
	if ref == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	if err := jsonpath.New("spec").Parse("{" + ref + "}"); err != nil {
		return field.ErrorList{field.Invalid(path, ref, fmt.Sprintf("invalid JSONPath: %v", err))}
	}
	return nil
}

// validateMutating is validateValidating for policies that mutate.
func validateMutating(o PolicyOptions, p, old *admissionv1.MutatingAdmissionPolicy) field.ErrorList {
	if o.Compiler == nil {
		if old != nil && equality.Semantic.DeepEqual(p.Spec, old.Spec) {
			return nil
		}
		return noCompiler()
	}
	spec, c := &p.Spec, commonOfMutating(&p.Spec)
	var was former
	if old != nil {
		was = c.formerly(commonOfMutating(&old.Spec))
		for _, m := range old.Spec.Mutations {
			if m.ApplyConfiguration != nil {
				was.applied = append(was.applied, m.ApplyConfiguration.Expression)
			}
		}
	}
	x := expressions{o.Compiler(true), spec.ParamKind != nil}
	errs := c.validate(x, was)
	path := field.NewPath("spec")
	if len(spec.Mutations) == 0 {
		errs = append(errs, field.Required(path.Child("mutations"), "mutations must contain at least one item"))
	}
	for i := range spec.Mutations {
		errs = append(errs, validateMutation(&spec.Mutations[i], x, was, path.Child("mutations").Index(i))...)
	}
	return append(errs, check.RequiredOneOf(path.Child("reinvocationPolicy"), spec.ReinvocationPolicy,
		admissionv1.IfNeededReinvocationPolicy, admissionv1.NeverReinvocationPolicy)...)
}

func validateMutation(m *admissionv1.Mutation, x expressions, was former, path *field.Path) field.ErrorList {
	errs := check.RequiredOneOf(path.Child("patchType"), m.PatchType, admissionv1.PatchTypeApplyConfiguration, admissionv1.PatchTypeJSONPatch)
	if len(errs) > 0 {
		return errs
	}
	var apply, patch *string
	if m.ApplyConfiguration != nil {
		apply = &m.ApplyConfiguration.Expression
	}
	if m.JSONPatch != nil {
		patch = &m.JSONPatch.Expression
	}
	use, chosen, chosenName, other, otherName := ApplyConfiguration, apply, "applyConfiguration", patch, "jsonPatch"
	if m.PatchType == admissionv1.PatchTypeJSONPatch {
		use, chosen, chosenName, other, otherName = JSONPatch, patch, "jsonPatch", apply, "applyConfiguration"
	}
	when := "specified when patchType is " + string(m.PatchType)
	if chosen == nil {
		errs = append(errs, field.Required(path.Child(chosenName), "must be "+when))
	} else {
		errs = append(errs, validatePatch(*chosen, use, x, was, path.Child(chosenName, "expression"))...)
	}
	if other != nil {
		errs = append(errs, field.Invalid(path.Child(otherName), "{"+otherName+"}", "must not be "+when))
	}
	return errs
}

func validatePatch(text string, use string, x expressions, was former, path *field.Path) field.ErrorList {
	trimmed := strings.TrimSpace(text)
	if trimmed == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	// Upstream looks for the former expression of either patch among those of apply configurations.
	return x.check(Expression{Text: trimmed, Use: use, Stored: slices.Contains(was.applied, text)}, trimmed, nil, path)
}
