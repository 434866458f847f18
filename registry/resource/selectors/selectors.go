// Package selectors compiles the CEL expressions with which device classes and resource claims select devices.
//
// It is the only package that depends on upstream's compiler of them, for resource.Options.Compile.
package selectors

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/dynamic-resource-allocation/cel"
)

// Compile compiles a new expression and returns what evaluating it for one device costs at most. An error says what is wrong
// with the expression; one that is not its author's fault is a field.Error of the type field.ErrorTypeInternal. It is safe for
// concurrent use.
func Compile(expression string) (cost uint64, err error) {
	env := environment.NewExpressions
	r := cel.GetCompiler(cel.Features{EnableConsumableCapacity: true}).CompileCELExpression(expression, cel.Options{EnvType: &env})
	switch {
	case r.Error == nil:
		return r.MaxCost, nil
	case r.Error.Type == apiservercel.ErrorTypeInternal:
		return 0, &field.Error{Type: field.ErrorTypeInternal, Detail: r.Error.Error()}
	}
	return 0, invalid(r.Error.Detail)
}

// invalid is what is wrong with an expression.
type invalid string

func (e invalid) Error() string { return string(e) }
