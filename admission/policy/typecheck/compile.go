package typecheck

import (
	"errors"
	"fmt"
	"sync"

	"github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/util/validation/field"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// The uses of expressions: registry/admissionregistration says what each demands.
const (
	Condition          = "match condition"
	Variable           = "variable"
	Validation         = "validation"
	Message            = "message"
	AuditAnnotation    = "audit annotation"
	ApplyConfiguration = "apply configuration"
	JSONPatch          = "JSON patch"
)

// Expression is an expression of a policy. An admissionregistration.Expression converts to it.
type Expression struct {
	Text   string // in CEL
	Use    string // one of the constants
	Name   string // of a Variable
	Params bool   // whether the policy has parameters
	Stored bool   // whether the policy has had the expression before
}

// Compiler compiles expressions. Make one with NewCompiler; it is safe for concurrent use.
type Compiler struct {
	stateless func() plugincel.Compiler
}

// NewCompiler returns a Compiler. The environment of expressions is built when the first one is compiled.
func NewCompiler() *Compiler {
	return &Compiler{stateless: sync.OnceValue(func() plugincel.Compiler { return plugincel.NewCompiler(base()) })}
}

func base() *environment.EnvSet {
	return environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
}

// Policy returns what compiles the expressions of one policy and says what is wrong with each. An error that is not the
// author's fault is a field.Error of the type field.ErrorTypeInternal. composed tells that expressions other than match
// conditions may use the policy's variables, which are compiled first. The returned function serves one policy and is not
// for concurrent use.
func (c *Compiler) Policy(composed bool) func(Expression) error {
	variables := sync.OnceValues(func() (*plugincel.CompositedCompiler, error) { return plugincel.NewCompositedCompiler(base()) })
	return func(e Expression) error {
		types, ok := returned()[e.Use]
		if !ok {
			return internal(fmt.Errorf("no use of expressions is named %q", e.Use))
		}
		of := &accessor{text: e.Text, name: e.Name, types: types}
		declared := plugincel.OptionalVariableDeclarations{
			HasParams: e.Params, HasAuthorizer: e.Use != Message, HasPatchTypes: e.Use == ApplyConfiguration || e.Use == JSONPatch,
		}
		mode := environment.NewExpressions
		if e.Stored {
			mode = environment.StoredExpressions
		}
		if !composed || e.Use == Condition {
			return refusal(c.stateless().CompileCELExpression(of, declared, mode))
		}
		compiler, err := variables()
		if err != nil {
			return internal(err)
		}
		if e.Use == Variable {
			return refusal(compiler.CompileAndStoreVariable(of, declared, mode))
		}
		return refusal(compiler.CompileCELExpression(of, declared, mode))
	}
}

// returned are the types that expressions may have, by their use.
func returned() map[string][]*cel.Type {
	return map[string][]*cel.Type{
		Condition:          {cel.BoolType},
		Variable:           {cel.AnyType, cel.DynType},
		Validation:         {cel.BoolType},
		Message:            {cel.StringType},
		AuditAnnotation:    {cel.StringType, cel.NullType},
		ApplyConfiguration: {cel.ObjectType("Object")},
		JSONPatch:          {cel.ListType(cel.ObjectType("JSONPatch"))},
	}
}

func internal(err error) error { return field.InternalError(nil, err) }

func refusal(result plugincel.CompilationResult) error {
	switch err := result.Error; {
	case err == nil:
		return nil
	case err.Type == apiservercel.ErrorTypeInternal:
		return internal(err)
	default:
		return errors.New(err.Detail)
	}
}

// accessor is an expression as the library takes it.
type accessor struct {
	text, name string
	types      []*cel.Type
}

// GetExpression implements plugincel.ExpressionAccessor.
func (a *accessor) GetExpression() string { return a.text }

// ReturnTypes implements plugincel.ExpressionAccessor.
func (a *accessor) ReturnTypes() []*cel.Type { return a.types }

// GetName implements plugincel.NamedExpressionAccessor.
func (a *accessor) GetName() string { return a.name }
