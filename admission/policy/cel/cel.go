package cel

import (
	"context"
	"fmt"
	"sync"

	"github.com/google/cel-go/cel"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/keelson-dev/keelson/admission/internal/expressions"
	"github.com/keelson-dev/keelson/authz"
)

// Options are the options of a Compiler. The zero value is valid.
type Options struct {
	// Authorizer answers the variable authorizer; nil has no opinion on anything.
	Authorizer authz.Authorizer
	// Spent, if set, is told what expressions cost, after each evaluation that did not exceed its limit. An expression that was
	// stopped because of its own cost counts as nothing.
	Spent func(ctx context.Context, c Cost)
}

// Cost is what expressions of one kind in one policy cost for one request, in upstream's units.
type Cost struct {
	// Plugin is policy.ValidatingName or policy.MutatingName.
	Plugin string
	Policy string
	// Part is the kind: "matchConditions", "validations", "messageExpressions", "auditAnnotations", or a mutation by its index,
	// such as "mutations[0]".
	Part string
	// Units is the cost; Limit is where the evaluation ends. Messages have what the validations left.
	Units, Limit int64
}

// Compiler compiles policies. Make one with New.
type Compiler struct {
	authorizer authorizer.UnconditionalAuthorizer
	spent      func(ctx context.Context, c Cost)
	base       func() *environment.EnvSet
	// plain compiles policies that define no variables, which all need the same environment.
	plain func() (*plugincel.CompositedCompiler, error)
}

// New returns a Compiler.
func New(o Options) *Compiler {
	base := sync.OnceValue(func() *environment.EnvSet {
		return environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
	})
	spent := o.Spent
	if spent == nil {
		spent = func(context.Context, Cost) {}
	}
	return &Compiler{
		authorizer: expressions.NewAuthorizer(o.Authorizer), spent: spent, base: base,
		plain: sync.OnceValues(func() (*plugincel.CompositedCompiler, error) { return plugincel.NewCompositedCompiler(base()) }),
	}
}

// charge tells what an evaluation cost that left some of its limit. One that exceeded it left less than nothing.
func (c *Compiler) charge(ctx context.Context, cost Cost, left int64) {
	if left >= 0 {
		cost.Units = cost.Limit - left
		c.spent(ctx, cost)
	}
}

// expression is an expression as the library takes it.
type expression struct {
	name, text string
	returns    []*cel.Type
}

// GetName implements plugincel.NamedExpressionAccessor.
func (e *expression) GetName() string { return e.name }

// GetExpression implements plugincel.ExpressionAccessor.
func (e *expression) GetExpression() string { return e.text }

// ReturnTypes implements plugincel.ExpressionAccessor.
func (e *expression) ReturnTypes() []*cel.Type { return e.returns }

// compiler returns a compiler for a policy with the given variables.
func (c *Compiler) compiler(variables []registrationv1.Variable, declared plugincel.OptionalVariableDeclarations) (*plugincel.CompositedCompiler, error) {
	if len(variables) == 0 {
		return c.plain()
	}
	compiler, err := plugincel.NewCompositedCompiler(c.base())
	if err != nil {
		return nil, fmt.Errorf("failed to initialize CEL compiler: %w", err)
	}
	for _, v := range variables {
		compiler.CompileAndStoreVariable(&expression{name: v.Name, text: v.Expression, returns: anything()},
			declared, environment.StoredExpressions)
	}
	return compiler, nil
}

// conditions compiles match conditions; it returns nil if there are none.
func conditions(compiler *plugincel.CompositedCompiler, list []registrationv1.MatchCondition, declared plugincel.OptionalVariableDeclarations) plugincel.ConditionEvaluator {
	if len(list) == 0 {
		return nil
	}
	of := make([]plugincel.ExpressionAccessor, len(list))
	for i := range list {
		of[i] = &expression{name: list[i].Name, text: list[i].Expression, returns: aBool()}
	}
	return compiler.CompileCondition(of, declared, environment.StoredExpressions)
}
