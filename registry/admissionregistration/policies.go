package admissionregistration

import (
	"context"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/registry"
)

// PolicyOptions are the options of the kinds of policies. The zero value is valid.
type PolicyOptions struct {
	// Compiler returns what compiles the expressions of one policy; composed tells that they may use the policy's variables.
	// Without Compiler, new policies and other expressions than before are refused.
	Compiler func(composed bool) Compiler
	// Access decides who may name which parameters; nil means anybody any.
	Access *Access
}

// PolicyKinds returns the kinds of admission policies and of their bindings, in discovery order. They are apart from
// those of webhooks, because a cluster may have the ones without the others.
func PolicyKinds(o PolicyOptions) []registry.Kind {
	return []registry.Kind{mutatingPolicies(o), mutatingBindings(o), validatingPolicies(o), validatingBindings(o)}
}

func validatingPolicies(o PolicyOptions) registry.Kind {
	type policy = *admissionv1.ValidatingAdmissionPolicy
	parts := registry.Parts[policy]{
		Spec:   registry.PartOf(func(p policy) *admissionv1.ValidatingAdmissionPolicySpec { return &p.Spec }),
		Status: registry.PartOf(func(p policy) *admissionv1.ValidatingAdmissionPolicyStatus { return &p.Status }),
	}
	return registry.Definition[policy]{
		Names: registry.Names{
			Kind: "ValidatingAdmissionPolicy", Plural: "validatingadmissionpolicies", Singular: "validatingadmissionpolicy",
			Categories: []string{"api-extensions"},
		},
		GroupVersion: admissionv1.SchemeGroupVersion,
		Older:        olderPolicy(func() policy { return &admissionv1.ValidatingAdmissionPolicy{} }, nil),
		New:          func() policy { return &admissionv1.ValidatingAdmissionPolicy{} },
		NewList:      func() runtime.Object { return &admissionv1.ValidatingAdmissionPolicyList{} },
		Rules: registry.Rules[policy]{
			Default: func(p policy) {
				unset(&p.Spec.FailurePolicy, admissionv1.Fail)
				defaultMatch(p.Spec.MatchConstraints)
			},
			PrepareCreate: parts.PrepareCreate, PrepareUpdate: parts.PrepareUpdate,
			Guard: guarded("ValidatingAdmissionPolicy", "validatingadmissionpolicies", func(ctx context.Context, p, old policy) *field.Error {
				var was *admissionv1.ParamKind
				if old != nil {
					was = old.Spec.ParamKind
				}
				return o.Access.guardKind(ctx, p.Spec.ParamKind, was)
			}),
			Validate: func(p policy) field.ErrorList {
				return append(validateValidating(o, p, nil), validateName(p.Name)...)
			},
			ValidateUpdate: func(p, old policy) field.ErrorList { return validateValidating(o, p, old) },
			AnyFinalizer:   true, ConditionalUpdate: true,
		},
		Sub: registry.Subresources[policy]{Views: map[string]registry.View[policy]{"status": {
			PrepareUpdate: func(ctx context.Context, p, old policy) {
				parts.PrepareStatus(ctx, p, old)
				metav1.ResetObjectMetaForStatus(p, old.DeepCopy())
			},
			ValidateUpdate: func(p, _ policy) field.ErrorList { return validateTypeChecks(&p.Status) },
			Resets:         []string{"spec", "metadata"},
		}}},
		Columns: policyColumns("Validations", "Validations indicates the number of validation rules defined in this configuration",
			func(p policy) (int, *admissionv1.ParamKind) { return len(p.Spec.Validations), p.Spec.ParamKind }),
	}.Kind()
}

func mutatingPolicies(o PolicyOptions) registry.Kind {
	type policy = *admissionv1.MutatingAdmissionPolicy
	parts := registry.Parts[policy]{
		Spec: registry.PartOf(func(p policy) *admissionv1.MutatingAdmissionPolicySpec { return &p.Spec }),
	}
	return registry.Definition[policy]{
		Names: registry.Names{
			Kind: "MutatingAdmissionPolicy", Plural: "mutatingadmissionpolicies", Singular: "mutatingadmissionpolicy",
			Categories: []string{"api-extensions"},
		},
		GroupVersion: admissionv1.SchemeGroupVersion,
		Older:        olderPolicy(func() policy { return &admissionv1.MutatingAdmissionPolicy{} }, nil),
		New:          func() policy { return &admissionv1.MutatingAdmissionPolicy{} },
		NewList:      func() runtime.Object { return &admissionv1.MutatingAdmissionPolicyList{} },
		Rules: registry.Rules[policy]{
			Default: func(p policy) {
				unset(&p.Spec.FailurePolicy, admissionv1.Fail)
				defaultMatch(p.Spec.MatchConstraints)
			},
			PrepareCreate: parts.PrepareCreate, PrepareUpdate: parts.PrepareUpdate,
			Guard: guarded("MutatingAdmissionPolicy", "mutatingadmissionpolicies", func(ctx context.Context, p, old policy) *field.Error {
				var was *admissionv1.ParamKind
				if old != nil {
					was = old.Spec.ParamKind
				}
				return o.Access.guardKind(ctx, p.Spec.ParamKind, was)
			}),
			Validate: func(p policy) field.ErrorList {
				return append(validateMutating(o, p, nil), validateName(p.Name)...)
			},
			ValidateUpdate: func(p, old policy) field.ErrorList { return validateMutating(o, p, old) },
			AnyFinalizer:   true, ConditionalUpdate: true,
		},
		Columns: policyColumns("Mutations", "Mutation indicates the number of mutations rules defined in this configuration",
			func(p policy) (int, *admissionv1.ParamKind) { return len(p.Spec.Mutations), p.Spec.ParamKind }),
	}.Kind()
}

func validatingBindings(o PolicyOptions) registry.Kind {
	type binding = *admissionv1.ValidatingAdmissionPolicyBinding
	parts := registry.Parts[binding]{
		Spec: registry.PartOf(func(b binding) *admissionv1.ValidatingAdmissionPolicyBindingSpec { return &b.Spec }),
	}
	return registry.Definition[binding]{
		Names: registry.Names{
			Kind: "ValidatingAdmissionPolicyBinding", Plural: "validatingadmissionpolicybindings", Singular: "validatingadmissionpolicybinding",
			Categories: []string{"api-extensions"},
		},
		GroupVersion: admissionv1.SchemeGroupVersion,
		Older: olderPolicy(func() binding { return &admissionv1.ValidatingAdmissionPolicyBinding{} },
			func(b binding) { defaultAlphaParams(b.Spec.ParamRef) }),
		New:     func() binding { return &admissionv1.ValidatingAdmissionPolicyBinding{} },
		NewList: func() runtime.Object { return &admissionv1.ValidatingAdmissionPolicyBindingList{} },
		Rules: registry.Rules[binding]{
			Default:       func(b binding) { defaultMatch(b.Spec.MatchResources) },
			PrepareCreate: parts.PrepareCreate, PrepareUpdate: parts.PrepareUpdate,
			Guard: guarded("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", func(ctx context.Context, b, _ binding) *field.Error {
				return o.Access.guardRef(ctx, admissionv1.Resource("validatingadmissionpolicies"), b.Spec.PolicyName, b.Spec.ParamRef)
			}),
			Validate: func(b binding) field.ErrorList {
				return append(validateValidatingBinding(b, nil), validateName(b.Name)...)
			},
			ValidateUpdate: validateValidatingBinding,
			AnyFinalizer:   true, ConditionalUpdate: true,
		},
		Columns: bindingColumns(func(b binding) (string, *admissionv1.ParamRef) { return b.Spec.PolicyName, b.Spec.ParamRef }),
	}.Kind()
}

func mutatingBindings(o PolicyOptions) registry.Kind {
	type binding = *admissionv1.MutatingAdmissionPolicyBinding
	parts := registry.Parts[binding]{
		Spec: registry.PartOf(func(b binding) *admissionv1.MutatingAdmissionPolicyBindingSpec { return &b.Spec }),
	}
	return registry.Definition[binding]{
		Names: registry.Names{
			Kind: "MutatingAdmissionPolicyBinding", Plural: "mutatingadmissionpolicybindings", Singular: "mutatingadmissionpolicybinding",
			Categories: []string{"api-extensions"},
		},
		GroupVersion: admissionv1.SchemeGroupVersion,
		Older: olderPolicy(func() binding { return &admissionv1.MutatingAdmissionPolicyBinding{} },
			func(b binding) { defaultAlphaParams(b.Spec.ParamRef) }),
		New:     func() binding { return &admissionv1.MutatingAdmissionPolicyBinding{} },
		NewList: func() runtime.Object { return &admissionv1.MutatingAdmissionPolicyBindingList{} },
		Rules: registry.Rules[binding]{
			Default:       func(b binding) { defaultMatch(b.Spec.MatchResources) },
			PrepareCreate: parts.PrepareCreate, PrepareUpdate: parts.PrepareUpdate,
			Guard: guarded("MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings", func(ctx context.Context, b, _ binding) *field.Error {
				return o.Access.guardRef(ctx, admissionv1.Resource("mutatingadmissionpolicies"), b.Spec.PolicyName, b.Spec.ParamRef)
			}),
			Validate: func(b binding) field.ErrorList {
				return append(validateMutatingBinding(b), validateName(b.Name)...)
			},
			ValidateUpdate: func(b, _ binding) field.ErrorList { return validateMutatingBinding(b) },
			AnyFinalizer:   true, ConditionalUpdate: true,
		},
		Columns: bindingColumns(func(b binding) (string, *admissionv1.ParamRef) { return b.Spec.PolicyName, b.Spec.ParamRef }),
	}.Kind()
}

// defaultMatch sets the defaults of what a policy or a binding matches; nil has none.
func defaultMatch(m *admissionv1.MatchResources) {
	if m == nil {
		return
	}
	unset(&m.MatchPolicy, admissionv1.Equivalent)
	unset(&m.NamespaceSelector, metav1.LabelSelector{})
	unset(&m.ObjectSelector, metav1.LabelSelector{})
	for i := range m.ResourceRules {
		unset(&m.ResourceRules[i].Scope, admissionv1.AllScopes)
	}
	for i := range m.ExcludeResourceRules {
		unset(&m.ExcludeResourceRules[i].Scope, admissionv1.AllScopes)
	}
}
