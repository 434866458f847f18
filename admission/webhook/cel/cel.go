// Package cel evaluates the match conditions of webhooks, which are expressions in CEL, with upstream's library.
// [Compiler.Compile] is webhook.Options.Compile and [Compiler.Check] is admissionregistration.Options.Compile.
//
// Conditions have the variables object, oldObject, request, authorizer and authorizer.requestResource
// (https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#matching-requests-matchconditions).
// Their cost is bounded as upstream bounds it. The environment of expressions is built when the first one is compiled.
//
// A Compiler is safe for concurrent use.
package cel

import (
	"context"
	"errors"
	"maps"
	"sync"

	"github.com/google/cel-go/cel"
	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/keelson-dev/keelson/admission/internal/expressions"
	"github.com/keelson-dev/keelson/admission/webhook"
	"github.com/keelson-dev/keelson/authz"
)

// Options are the options of a Compiler. The zero value is valid.
type Options struct {
	// Authorizer answers the variable authorizer; nil has no opinion on anything.
	Authorizer authz.Authorizer
}

// Compiler compiles match conditions. Make one with New.
type Compiler struct {
	authorizer authorizer.UnconditionalAuthorizer
	library    func() plugincel.Compiler
}

// New returns a Compiler.
func New(o Options) *Compiler {
	return &Compiler{authorizer: expressions.NewAuthorizer(o.Authorizer), library: sync.OnceValue(func() plugincel.Compiler {
		return plugincel.NewCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	})}
}

// condition is a match condition as the library takes it.
type condition registrationv1.MatchCondition

// GetExpression implements plugincel.ExpressionAccessor.
func (c *condition) GetExpression() string { return c.Expression }

// ReturnTypes implements plugincel.ExpressionAccessor.
func (c *condition) ReturnTypes() []*cel.Type { return []*cel.Type{cel.BoolType} }

func (c *Compiler) compile(of *condition, mode environment.Type) plugincel.CompilationResult {
	return c.library().CompileCELExpression(of, plugincel.OptionalVariableDeclarations{HasAuthorizer: true}, mode)
}

// Check returns what is wrong with an expression, for users. An expression that is stored may use what the library knows but
// does not allow in new expressions yet, because an older server would not know it.
func (c *Compiler) Check(expression string, stored bool) error {
	mode := environment.NewExpressions
	if stored {
		mode = environment.StoredExpressions
	}
	result := c.compile(&condition{Expression: expression}, mode)
	if result.Error == nil {
		return nil
	}
	return errors.New(result.Error.Detail)
}

// Compile returns conditions that compile when they are first evaluated. What does not compile fails at each evaluation.
func (c *Compiler) Compile(conditions []registrationv1.MatchCondition) webhook.Conditions {
	evaluator := sync.OnceValue(func() plugincel.ConditionEvaluator {
		compiled := make([]plugincel.CompilationResult, len(conditions))
		for i := range conditions {
			of := condition(conditions[i])
			compiled[i] = c.compile(&of, environment.StoredExpressions)
		}
		return plugincel.NewCondition(compiled)
	})
	return func(ctx context.Context, r *admissionv1.AdmissionRequest) (bool, error) {
		return c.evaluate(ctx, evaluator(), r)
	}
}

func (c *Compiler) evaluate(ctx context.Context, conditions plugincel.ConditionEvaluator, r *admissionv1.AdmissionRequest) (bool, error) {
	attributes, bare, err := described(r)
	if err != nil {
		return false, err
	}
	results, _, err := conditions.ForInput(ctx, attributes, bare, plugincel.OptionalVariableBindings{Authorizer: c.authorizer}, nil,
		celconfig.RuntimeCELCostBudgetMatchConditions)
	if err != nil {
		return false, err
	}
	return expressions.Met(results)
}

// described returns the request as the library takes it. Conditions get the objects by variables of their own.
func described(r *admissionv1.AdmissionRequest) (*admission.VersionedAttributes, *admissionv1.AdmissionRequest, error) {
	kind := schema.GroupVersionKind(r.Kind)
	object, err := typed(r.Object.Object, kind)
	if err != nil {
		return nil, nil, err
	}
	old, err := typed(r.OldObject.Object, kind)
	if err != nil {
		return nil, nil, err
	}
	bare := *r
	bare.Object, bare.OldObject = runtime.RawExtension{}, runtime.RawExtension{}
	bare.Options.Raw = nil
	extra := make(map[string][]string, len(r.UserInfo.Extra))
	for key, values := range r.UserInfo.Extra {
		extra[key] = values
	}
	who := &user.DefaultInfo{Name: r.UserInfo.Username, UID: r.UserInfo.UID, Groups: r.UserInfo.Groups, Extra: extra}
	record := admission.NewAttributesRecord(object, old, kind, r.Namespace, r.Name, schema.GroupVersionResource(r.Resource), r.SubResource,
		admission.Operation(r.Operation), r.Options.Object, false, who) // expressions see request.dryRun instead
	return &admission.VersionedAttributes{Attributes: record, VersionedKind: kind, VersionedObject: admission.NewLazyObject(object), VersionedOldObject: admission.NewLazyObject(old)}, &bare, nil
}

// typed returns an object with its type, or nil. It shares the object's content.
func typed(obj runtime.Object, kind schema.GroupVersionKind) (runtime.Object, error) {
	if obj == nil {
		return nil, nil //nolint:nilnil // there is no object in some requests
	}
	var content map[string]any
	if u, ok := obj.(runtime.Unstructured); ok {
		content = maps.Clone(u.UnstructuredContent())
	} else {
		var err error
		if content, err = runtime.DefaultUnstructuredConverter.ToUnstructured(obj); err != nil {
			return nil, err
		}
	}
	out := &unstructured.Unstructured{Object: content}
	out.SetGroupVersionKind(kind)
	return out, nil
}
