package cel

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/cel-go/common/types"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/keelson-dev/keelson/admission/policy"
)

// Validating compiles a policy, which it keeps.
func (c *Compiler) Validating(p *registrationv1.ValidatingAdmissionPolicy) policy.Validator {
	declared := plugincel.OptionalVariableDeclarations{HasParams: p.Spec.ParamKind != nil, HasAuthorizer: true}
	compiler, err := c.compiler(p.Spec.Variables, declared)
	if err != nil {
		return policy.ValidatorFunc(func(context.Context, *policy.Input, runtime.Object) policy.Verdict { return failure(err) })
	}
	validations := make([]plugincel.ExpressionAccessor, len(p.Spec.Validations))
	messages := make([]plugincel.ExpressionAccessor, len(p.Spec.Validations))
	said := false
	for i, v := range p.Spec.Validations {
		validations[i] = &expression{text: v.Expression, returns: aBool()}
		if v.MessageExpression != "" {
			messages[i] = &expression{text: v.MessageExpression, returns: aString()}
			said = true
		}
	}
	annotations := make([]plugincel.ExpressionAccessor, len(p.Spec.AuditAnnotations))
	for i, a := range p.Spec.AuditAnnotations {
		annotations[i] = &expression{name: a.Key, text: a.ValueExpression, returns: stringOrNull()}
	}
	out := &validator{
		compiler: c, policy: p, conditions: conditions(compiler, p.Spec.MatchConditions, declared),
		validations: compiler.CompileCondition(validations, declared, environment.StoredExpressions),
		annotations: compiler.CompileCondition(annotations, declared, environment.StoredExpressions),
	}
	if said {
		declared.HasAuthorizer = false
		out.messages = compiler.CompileCondition(messages, declared, environment.StoredExpressions)
	}
	return out
}

// validator is a compiled policy.
type validator struct {
	compiler                 *Compiler
	policy                   *registrationv1.ValidatingAdmissionPolicy
	conditions               plugincel.ConditionEvaluator // nil: none
	validations, annotations plugincel.ConditionEvaluator
	messages                 plugincel.ConditionEvaluator // nil: none
}

// failure is the verdict of a policy that could not be evaluated.
func failure(err error) policy.Verdict {
	return policy.Verdict{Decisions: []policy.Decision{{Failed: true, Message: err.Error()}}}
}

// Validate implements policy.Validator.
func (v *validator) Validate(ctx context.Context, in *policy.Input, param runtime.Object) policy.Verdict {
	i := v.compiler.input(in)
	charge := func(part string, limit, left int64) {
		v.compiler.charge(ctx, Cost{Plugin: policy.ValidatingName, Policy: v.policy.Name, Part: part, Limit: limit}, left)
	}
	if ok, err := i.matches(ctx, v.conditions, param, charge); err != nil {
		return failure(err)
	} else if !ok {
		return policy.Verdict{}
	}
	ns := plugincel.CreateNamespaceObject(in.Namespace)
	results, left, err := v.validations.ForInput(ctx, i.attributes, i.request, i.bindings(param, true), ns, celconfig.RuntimeCELCostBudget)
	if err != nil {
		return failure(err)
	}
	charge("validations", celconfig.RuntimeCELCostBudget, left)
	out := policy.Verdict{Decisions: make([]policy.Decision, len(results))}
	// Messages spend what the validations have left. If that is not enough, nothing is allowed, as upstream has it.
	var messages []plugincel.EvaluationResult
	var messagesErr error
	if v.messages != nil {
		limit := left
		if messages, left, messagesErr = v.messages.ForInput(ctx, i.attributes, i.request, i.bindings(param, false), ns, limit); messagesErr == nil {
			charge("messageExpressions", limit, left)
		}
	}
	exhausted := errors.Is(messagesErr, apiservercel.ErrInternal) || errors.Is(messagesErr, apiservercel.ErrOutOfBudget)
	for n := range results {
		var message *plugincel.EvaluationResult
		if n < len(messages) {
			message = &messages[n]
		}
		switch result := &results[n]; {
		case result.Error != nil:
			out.Decisions[n] = policy.Decision{Failed: true, Message: result.Error.Error()}
		case exhausted:
			out.Decisions[n] = policy.Decision{Failed: true, Message: fmt.Sprintf("failed messageExpression: %s", messagesErr)}
		case result.EvalResult == types.True:
			out.Decisions[n].Allowed = true
		default:
			out.Decisions[n] = refused(&v.policy.Spec.Validations[n], message)
		}
	}
	if len(v.policy.Spec.AuditAnnotations) == 0 {
		return out
	}
	results, left, err = v.annotations.ForInput(ctx, i.attributes, i.request, i.bindings(param, false), in.Namespace, celconfig.RuntimeCELCostBudget)
	if err != nil {
		return failure(err)
	}
	charge("auditAnnotations", celconfig.RuntimeCELCostBudget, left)
	out.Annotations = make([]policy.AuditAnnotation, len(results))
	for n := range results {
		out.Annotations[n] = annotated(&v.policy.Spec.AuditAnnotations[n], &results[n])
	}
	return out
}

// refused is the decision of a validation that is not true.
func refused(v *registrationv1.Validation, evaluated *plugincel.EvaluationResult) policy.Decision {
	d := policy.Decision{Reason: metav1.StatusReasonInvalid, Message: messageOf(evaluated)}
	if v.Reason != nil {
		d.Reason = *v.Reason
	}
	if d.Message == "" {
		d.Message = strings.TrimSpace(v.Message)
	}
	if d.Message == "" {
		d.Message = fmt.Sprintf("failed expression: %v", strings.TrimSpace(v.Expression))
	}
	return d
}

// messageOf returns the value of a message expression, or nothing if it is not fit for users.
func messageOf(evaluated *plugincel.EvaluationResult) string {
	if evaluated == nil || evaluated.Error != nil || evaluated.EvalResult == nil {
		return ""
	}
	text, _ := evaluated.EvalResult.Value().(string)
	text = strings.TrimSpace(text)
	if len(text) > celconfig.MaxEvaluatedMessageExpressionSizeBytes || strings.Contains(text, "\n") {
		return ""
	}
	return text
}

// annotated is the audit annotation of which the value was evaluated.
func annotated(a *registrationv1.AuditAnnotation, evaluated *plugincel.EvaluationResult) policy.AuditAnnotation {
	out := policy.AuditAnnotation{Key: a.Key}
	switch {
	case evaluated.Error != nil:
		out.Error = evaluated.Error.Error()
	case evaluated.EvalResult.Type() == types.StringType:
		text, _ := evaluated.EvalResult.Value().(string)
		out.Value = strings.TrimSpace(text)
	case evaluated.EvalResult.Type() != types.NullType:
		out.Error = fmt.Sprintf("valueExpression '%v' resulted in unsupported return type: %v. "+
			"Return type must be either string or null.", a.ValueExpression, evaluated.EvalResult.Type())
	}
	return out
}
