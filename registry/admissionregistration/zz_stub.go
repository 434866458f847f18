package admissionregistration

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/registry"
)

type PolicyOptions struct{}

func defMatch(m *admissionv1.MatchResources) {
	if m == nil {
		return
	}
	if m.MatchPolicy == nil {
		m.MatchPolicy = new(admissionv1.Equivalent)
	}
	if m.NamespaceSelector == nil {
		m.NamespaceSelector = &metav1.LabelSelector{}
	}
	if m.ObjectSelector == nil {
		m.ObjectSelector = &metav1.LabelSelector{}
	}
}

func PolicyKinds(PolicyOptions) []registry.Kind {
	gv := admissionv1.SchemeGroupVersion
	return []registry.Kind{
		registry.Definition[*admissionv1.ValidatingAdmissionPolicy]{
			Names: registry.Names{Kind: "ValidatingAdmissionPolicy", Plural: "validatingadmissionpolicies", Singular: "validatingadmissionpolicy"}, GroupVersion: gv,
			New:     func() *admissionv1.ValidatingAdmissionPolicy { return &admissionv1.ValidatingAdmissionPolicy{} },
			NewList: func() runtime.Object { return &admissionv1.ValidatingAdmissionPolicyList{} },
			Rules: registry.Rules[*admissionv1.ValidatingAdmissionPolicy]{Default: func(p *admissionv1.ValidatingAdmissionPolicy) {
				if p.Spec.FailurePolicy == nil {
					p.Spec.FailurePolicy = new(admissionv1.Fail)
				}
				defMatch(p.Spec.MatchConstraints)
			}},
		}.Kind(),
		registry.Definition[*admissionv1.ValidatingAdmissionPolicyBinding]{
			Names: registry.Names{Kind: "ValidatingAdmissionPolicyBinding", Plural: "validatingadmissionpolicybindings", Singular: "validatingadmissionpolicybinding"}, GroupVersion: gv,
			New: func() *admissionv1.ValidatingAdmissionPolicyBinding {
				return &admissionv1.ValidatingAdmissionPolicyBinding{}
			},
			NewList: func() runtime.Object { return &admissionv1.ValidatingAdmissionPolicyBindingList{} },
			Rules: registry.Rules[*admissionv1.ValidatingAdmissionPolicyBinding]{Default: func(p *admissionv1.ValidatingAdmissionPolicyBinding) {
				defMatch(p.Spec.MatchResources)
			}},
		}.Kind(),
		registry.Definition[*admissionv1.MutatingAdmissionPolicy]{
			Names: registry.Names{Kind: "MutatingAdmissionPolicy", Plural: "mutatingadmissionpolicies", Singular: "mutatingadmissionpolicy"}, GroupVersion: gv,
			New:     func() *admissionv1.MutatingAdmissionPolicy { return &admissionv1.MutatingAdmissionPolicy{} },
			NewList: func() runtime.Object { return &admissionv1.MutatingAdmissionPolicyList{} },
			Rules: registry.Rules[*admissionv1.MutatingAdmissionPolicy]{Default: func(p *admissionv1.MutatingAdmissionPolicy) {
				if p.Spec.FailurePolicy == nil {
					p.Spec.FailurePolicy = new(admissionv1.Fail)
				}
				defMatch(p.Spec.MatchConstraints)
			}},
		}.Kind(),
		registry.Definition[*admissionv1.MutatingAdmissionPolicyBinding]{
			Names: registry.Names{Kind: "MutatingAdmissionPolicyBinding", Plural: "mutatingadmissionpolicybindings", Singular: "mutatingadmissionpolicybinding"}, GroupVersion: gv,
			New: func() *admissionv1.MutatingAdmissionPolicyBinding {
				return &admissionv1.MutatingAdmissionPolicyBinding{}
			},
			NewList: func() runtime.Object { return &admissionv1.MutatingAdmissionPolicyBindingList{} },
			Rules: registry.Rules[*admissionv1.MutatingAdmissionPolicyBinding]{Default: func(p *admissionv1.MutatingAdmissionPolicyBinding) {
				defMatch(p.Spec.MatchResources)
			}},
		}.Kind(),
	}
}
