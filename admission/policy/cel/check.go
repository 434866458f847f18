package cel

import (
	"errors"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// ErrInternal means that it is not the fault of an expression that it does not compile.
var ErrInternal = errors.New("the compiler of expressions failed")

// Type is what an expression of a policy has to evaluate to.
type Type int

// The types of expressions.
const (
	Bool Type = iota
	Any
	String
	StringOrNull
	Configuration // Object
	Patch         // a list of JSONPatch
)

// Expression is an expression of a policy.
type Expression struct {
	Text string
	Type Type
	// Variable is the name under which the policy's other expressions use its value; empty for those that are no variables.
	Variable string
	// Params and Authorizer tell that there are these variables.
	Params, Authorizer bool
	// Stored expressions may use what the library knows but does not allow in new ones yet, because an older server would
	// not know it.
	Stored bool
}

// Checker checks the expressions of one policy. Make one with Compiler.Checker. It is not safe for concurrent use.
type Checker struct {
	compiler plugincel.Compiler
	composed *plugincel.CompositedCompiler // nil: without variables
	err      error
}

// Checker returns a checker of the expressions of one policy. composed tells that they may use the policy's variables.
func (c *Compiler) Checker(composed bool) *Checker {
	if !composed {
		return &Checker{compiler: c.alone()}
	}
	compiler, err := plugincel.NewCompositedCompiler(c.base())
	return &Checker{compiler: compiler, composed: compiler, err: err}
}

// Check returns what is wrong with an expression, for users. Variables are checked before the expressions that use them.
// An error that is not the expression's wraps ErrInternal.
func (k *Checker) Check(e Expression) error {
	if k.err != nil {
		return errors.Join(ErrInternal, k.err)
	}
	mode := environment.NewExpressions
	if e.Stored {
		mode = environment.StoredExpressions
	}
	of := &expression{name: e.Variable, text: e.Text, returns: returns(e.Type)}
	declared := plugincel.OptionalVariableDeclarations{
		HasParams: e.Params, HasAuthorizer: e.Authorizer, HasPatchTypes: e.Type == Configuration || e.Type == Patch,
	}
	var result plugincel.CompilationResult
	if e.Variable != "" && k.composed != nil {
		result = k.composed.CompileAndStoreVariable(of, declared, mode)
	} else {
		result = k.compiler.CompileCELExpression(of, declared, mode)
	}
	switch {
	case result.Error == nil:
		return nil
	case result.Error.Type == apiservercel.ErrorTypeInternal:
		return errors.Join(ErrInternal, result.Error)
	}
	return errors.New(result.Error.Detail)
}

// returns are the types as the library has them.
func returns(t Type) []*cel.Type {
	switch t {
	case Bool:
		return []*cel.Type{cel.BoolType}
	case String:
		return []*cel.Type{cel.StringType}
	case StringOrNull:
		return []*cel.Type{cel.StringType, cel.NullType}
	case Configuration:
		return []*cel.Type{types.NewObjectType("Object")}
	case Patch:
		return []*cel.Type{cel.ListType(types.NewObjectType("JSONPatch"))}
	case Any:
	}
	return []*cel.Type{cel.AnyType, cel.DynType}
}
