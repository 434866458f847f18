package controllermanager

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/keelson-dev/keelson/component"
	"github.com/keelson-dev/keelson/controllers/validatingadmissionpolicystatus"
	"github.com/keelson-dev/keelson/lifecycle"
)

// ValidatingAdmissionPolicyStatus returns the component that writes the status of ValidatingAdmissionPolicies, with the service
// account that upstream runs it as. It is not among Components, because only clusters with admission policies have the kind,
// and because check needs CEL: admission/policy/typecheck has one.
func ValidatingAdmissionPolicyStatus(check validatingadmissionpolicystatus.TypeChecker) component.Component {
	const name = "validatingadmissionpolicy-status-controller"
	return component.Component{
		Name: name, Identity: account(name), Program: program,
		New: func(p *component.Parts) (lifecycle.Runnable, error) {
			in := validatingadmissionpolicystatus.Sources{Policies: component.Informer[*admissionv1.ValidatingAdmissionPolicy](
				p.Informers, admissionv1.SchemeGroupVersion.WithResource("validatingadmissionpolicies"))}
			if err := p.Informers.Err(); err != nil {
				return nil, err
			}
			return p.Loop(validatingadmissionpolicystatus.New(in, p.Client, check)), nil
		},
	}
}
