package cel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"google.golang.org/protobuf/types/known/structpb"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/mutation"
	"k8s.io/apiserver/pkg/cel/mutation/dynamic"

	"github.com/keelson-dev/keelson/admission/policy"
)

// errNoMutation means that a mutation has no expression, which validation excludes.
var errNoMutation = errors.New("the mutation has no expression")

// Mutating compiles a policy.
func (c *Compiler) Mutating(p *registrationv1.MutatingAdmissionPolicy) policy.Mutator {
	declared := plugincel.OptionalVariableDeclarations{HasParams: p.Spec.ParamKind != nil, HasAuthorizer: true}
	compiler, err := c.compiler(p.Spec.Variables, declared)
	if err != nil {
		return &mutator{err: err}
	}
	out := &mutator{name: p.Name, library: c, compiler: compiler, conditions: conditions(compiler, p.Spec.MatchConditions, declared)}
	declared.HasPatchTypes = true
	for i := range p.Spec.Mutations {
		var of *expression
		switch m := &p.Spec.Mutations[i]; {
		case m.PatchType == registrationv1.PatchTypeJSONPatch && m.JSONPatch != nil:
			of = &expression{text: m.JSONPatch.Expression, returns: aPatch()}
		case m.PatchType == registrationv1.PatchTypeApplyConfiguration && m.ApplyConfiguration != nil:
			of = &expression{text: m.ApplyConfiguration.Expression, returns: aConfiguration()}
		}
		var evaluator plugincel.MutatingEvaluator
		if of != nil {
			evaluator = compiler.CompileMutatingEvaluator(of, declared, environment.StoredExpressions)
		}
		out.mutations = append(out.mutations, evaluator)
	}
	return out
}

// mutator is a compiled policy.
type mutator struct {
	name       string
	library    *Compiler
	compiler   *plugincel.CompositedCompiler
	conditions plugincel.ConditionEvaluator  // nil: none
	mutations  []plugincel.MutatingEvaluator // nil: without an expression
	err        error
}

// Matches implements policy.Mutator.
func (m *mutator) Matches(ctx context.Context, in *policy.Input, param runtime.Object) (bool, error) {
	if m.err != nil {
		return false, m.err
	}
	return m.library.input(in).matches(ctx, m.conditions, param, func(part string, limit, left int64) {
		m.library.charge(ctx, Cost{Plugin: policy.MutatingName, Policy: m.name, Part: part, Limit: limit}, left)
	})
}

// Mutate implements policy.Mutator.
func (m *mutator) Mutate(ctx context.Context, n int, in *policy.Input, param runtime.Object) (policy.Change, error) {
	if m.err != nil {
		return policy.Change{}, m.err
	}
	evaluator := m.mutations[n]
	if evaluator == nil {
		return policy.Change{}, errNoMutation
	}
	if errs := evaluator.CompilationErrors(); len(errs) > 0 {
		return policy.Change{}, errors.Join(errs...)
	}
	i := m.library.input(in)
	result, left, err := evaluator.ForInput(m.compiler.CreateContext(ctx), i.attributes, i.request, i.bindings(param, true), in.Namespace, celconfig.RuntimeCELCostBudget)
	switch {
	case err != nil:
		return policy.Change{}, err
	case result.Error != nil:
		return policy.Change{}, result.Error
	}
	m.library.charge(ctx, Cost{Plugin: policy.MutatingName, Policy: m.name, Part: fmt.Sprintf("mutations[%d]", n), Limit: celconfig.RuntimeCELCostBudget}, left)
	switch value := result.EvalResult.(type) {
	case *dynamic.ObjectVal:
		return configuration(value)
	case traits.Lister:
		return patch(value)
	}
	return policy.Change{}, fmt.Errorf("unsupported return type: %v", result.EvalResult.Type())
}

// configuration is the change that an object stands for.
func configuration(value *dynamic.ObjectVal) (policy.Change, error) {
	// Upstream's library does not check the names of types when it compiles.
	if err := value.CheckTypeNamesMatchFieldPathNames(); err != nil {
		return policy.Change{}, fmt.Errorf("type mismatch: %w", err)
	}
	fields, ok := value.Value().(map[string]any)
	if !ok {
		return policy.Change{}, fmt.Errorf("invalid return type: %T", value)
	}
	return policy.Change{Apply: fields}, nil
}

// operation is an operation of a JSON patch.
type operation struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	From  string          `json:"from,omitempty"`
	Value json.RawMessage `json:"value,omitempty"`
}

// patch is the change that a list of operations stands for.
func patch(list traits.Lister) (policy.Change, error) {
	operations := []operation{}
	for it := list.Iterator(); it.HasNext() == types.True; {
		native, err := it.Next().ConvertToNative(reflect.TypeFor[*mutation.JSONPatchVal]())
		if err != nil {
			return policy.Change{}, fmt.Errorf("type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch: %w", err)
		}
		op, ok := native.(*mutation.JSONPatchVal)
		if !ok {
			return policy.Change{}, fmt.Errorf("type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch, got element of %T", native)
		}
		value, err := jsonOf(op.Val)
		if err != nil {
			return policy.Change{}, err
		}
		operations = append(operations, operation{op.Op, op.Path, op.From, value})
	}
	text, err := json.Marshal(operations)
	return policy.Change{Patch: text}, err
}

// jsonOf returns a value in JSON, or nothing if there is none.
func jsonOf(value ref.Val) (json.RawMessage, error) {
	if value == nil {
		return nil, nil
	}
	if obj, ok := value.(*dynamic.ObjectVal); ok {
		if err := obj.CheckTypeNamesMatchFieldPathNames(); err != nil {
			return nil, fmt.Errorf("type mismatch: %w", err)
		}
	}
	// As upstream, by way of protobuf's values: they turn bytes into base64, and all numbers into floating point.
	native, err := value.ConvertToNative(reflect.TypeFor[*structpb.Value]())
	if err == nil {
		var text []byte
		if text, err = json.Marshal(native); err == nil {
			return text, nil
		}
	}
	return nil, fmt.Errorf("JSONPath valueExpression evaluated to a type that could not marshal to JSON: %w", err)
}
