// Package cel compiles expressions of package oidc with upstream's library: they know its functions and optional values, and may
// write a field whose name is no identifier as upstream does: claims.foo__dot__bar is the claim foo.bar.
//
// Everything is safe for concurrent use.
package cel

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	library "k8s.io/apiserver/pkg/authentication/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/lazy"

	"github.com/keelson-dev/keelson/authn/oidc"
)

// Compiler compiles expressions. Make one with New.
type Compiler struct{ library func() library.Compiler }

var _ oidc.Compiler = (*Compiler)(nil)

// New returns a Compiler. What it needs is made when the first expression is compiled.
func New() *Compiler { return &Compiler{sync.OnceValue(library.NewDefaultCompiler)} }

// Claims implements oidc.Compiler.
func (c *Compiler) Claims(text string, condition bool) (oidc.Expression, error) {
	var of library.ExpressionAccessor = &library.ClaimMappingExpression{Expression: text}
	if condition {
		of = &library.ClaimValidationCondition{Expression: text}
	}
	result, err := c.library().CompileClaimsExpression(of)
	if err != nil {
		return nil, err
	}
	return &expression{result, library.NewClaimsMapper([]library.CompilationResult{result}), nil}, nil
}

// User implements oidc.Compiler.
func (c *Compiler) User(text string) (oidc.Expression, error) {
	result, err := c.library().CompileUserExpression(&library.UserValidationCondition{Expression: text})
	if err != nil {
		return nil, err
	}
	return &expression{result, nil, library.NewUserMapper([]library.CompilationResult{result})}, nil
}

type expression struct {
	result library.CompilationResult
	claims library.ClaimsMapper // nil if it is about the user
	user   library.UserMapper
}

// Evaluate implements oidc.Expression.
func (e *expression) Evaluate(ctx context.Context, on oidc.Variables) (any, error) {
	var results []library.EvaluationResult
	var err error
	if e.claims != nil {
		results, err = e.claims.EvalClaimMappings(ctx, claims(on.Claims))
	} else {
		results, err = e.user.EvalUser(ctx, user(on))
	}
	if err != nil {
		return nil, err
	}
	return native(results[0].EvalResult), nil
}

// native converts a value. Lists whose elements are Go values of other types than any stay what they are, as in upstream.
func native(value ref.Val) any {
	if value.Type() == types.NullType {
		return nil
	}
	if value.Type() != types.ListType {
		return value.Value()
	}
	switch all := value.Value().(type) {
	case []any:
		return all
	case []ref.Val:
		out := make([]any, len(all))
		for i, v := range all {
			out[i] = v.Value()
		}
		return out
	}
	return value
}

// claims returns the variable claims. A claim is decoded when it is read.
func claims(all oidc.Claims) traits.Mapper {
	value := lazy.NewMapValue(types.NewObjectType("kubernetes.claims"))
	for name, text := range all {
		value.Append(name, func(*lazy.MapValue) ref.Val {
			var decoded any
			if err := json.Unmarshal(text, &decoded); err != nil {
				return types.WrapErr(fmt.Errorf("claim %q failed to unmarshal: %w", name, err))
			}
			return adapted(decoded)
		})
	}
	return value
}

// user returns the variable user.
func user(on oidc.Variables) traits.Mapper {
	value := lazy.NewMapValue(types.NewObjectType("kubernetes.UserInfo"))
	add := func(name string, v any) {
		value.Append(name, func(*lazy.MapValue) ref.Val { return adapted(v) })
	}
	add("username", on.User.Name)
	add("uid", on.User.UID)
	add("groups", on.User.Groups)
	add("extra", on.User.Extra)
	return value
}

func adapted(v any) ref.Val { return unescaping(types.DefaultTypeAdapter.NativeToValue(v)) }

// unescaping returns a value whose fields, and those of all values in it, are found by escaped names, too.
func unescaping(v ref.Val) ref.Val {
	switch v := v.(type) {
	case traits.Mapper:
		return mapper{v}
	case traits.Lister:
		return lister{v}
	}
	return v
}

type mapper struct{ traits.Mapper }

// Find implements traits.Mapper.
func (m mapper) Find(key ref.Val) (ref.Val, bool) {
	if escaped, ok := key.(types.String); ok {
		if name, ok := apiservercel.Unescape(string(escaped)); ok {
			key = types.String(name)
		}
	}
	v, ok := m.Mapper.Find(key)
	return unescaping(v), ok
}

type lister struct{ traits.Lister }

// Get implements traits.Indexer.
func (l lister) Get(index ref.Val) ref.Val { return unescaping(l.Lister.Get(index)) }

// Selects implements oidc.Expression.
func (e *expression) Selects(field string) bool {
	found := false
	ast.PreOrderVisit(ast.NavigateAST(e.result.AST.NativeRep()), ast.NewExprVisitor(func(at ast.Expr) {
		found = found || selects(at, field)
	}))
	return found
}

// selects reports whether an expression is claims.field or claims.?field.
func selects(at ast.Expr, field string) bool {
	switch at.Kind() {
	case ast.SelectKind:
		return isClaims(at.AsSelect().Operand()) && at.AsSelect().FieldName() == field
	case ast.CallKind:
		call := at.AsCall()
		args := call.Args()
		return call.FunctionName() == operators.OptSelect && isClaims(args[0]) && args[1].AsLiteral() == types.String(field)
	}
	return false
}

func isClaims(at ast.Expr) bool { return at.AsIdent() == "claims" }
