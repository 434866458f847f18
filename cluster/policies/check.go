package policies

import (
	"errors"

	"github.com/keelson-dev/keelson/admission/policy/cel"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/admissionregistration"
)

// check is admissionregistration.PolicyOptions.Compiler.
func (p *Policies) check(composed bool) admissionregistration.Compiler {
	checker := p.compiler.Checker(composed)
	return func(e admissionregistration.Expression) error {
		err := checker.Check(cel.Expression{
			Text: e.Text, Type: typeOf(e.Use), Variable: e.Name, Params: e.Params, Authorizer: e.Use != admissionregistration.Message, Stored: e.Stored,
		})
		if errors.Is(err, cel.ErrInternal) {
			return &registry.Error{Err: registry.ErrInternal, Message: err.Error()}
		}
		return err
	}
}

func typeOf(use admissionregistration.Use) cel.Type {
	switch use {
	case admissionregistration.Condition, admissionregistration.Validation:
		return cel.Bool
	case admissionregistration.Message:
		return cel.String
	case admissionregistration.AuditAnnotation:
		return cel.StringOrNull
	case admissionregistration.ApplyConfiguration:
		return cel.Configuration
	case admissionregistration.JSONPatch:
		return cel.Patch
	case admissionregistration.Variable:
	}
	return cel.Any
}
