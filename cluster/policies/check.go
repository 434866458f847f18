package policies

import (
	"github.com/keelson-dev/keelson/admission/policy/typecheck"
	"github.com/keelson-dev/keelson/registry/admissionregistration"
)

// check is admissionregistration.PolicyOptions.Compiler.
func (p *Policies) check(composed bool) admissionregistration.Compiler {
	compile := p.checker.Policy(composed)
	return func(e admissionregistration.Expression) error { return compile(typecheck.Expression(e)) }
}
