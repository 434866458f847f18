package networking

import (
	networkingv1 "k8s.io/api/networking/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/internal/check"
)

// maxController is the maximum length of an ingress controller's name, in bytes.
const maxController = 250

func ingressClasses() registry.Kind {
	parts := registry.Parts[*networkingv1.IngressClass]{
		Spec: registry.PartOf(func(class *networkingv1.IngressClass) *networkingv1.IngressClassSpec { return &class.Spec }),
	}
	return registry.Definition[*networkingv1.IngressClass]{
		Names:        registry.Names{Kind: "IngressClass", Plural: "ingressclasses", Singular: "ingressclass"},
		GroupVersion: networkingv1.SchemeGroupVersion,
		New:          func() *networkingv1.IngressClass { return &networkingv1.IngressClass{} },
		NewList:      func() runtime.Object { return &networkingv1.IngressClassList{} },
		Columns:      classColumns(),
		Rules: registry.Rules[*networkingv1.IngressClass]{
			Default: func(class *networkingv1.IngressClass) {
				if p := class.Spec.Parameters; p != nil && p.Scope == nil {
					p.Scope = new(networkingv1.IngressClassParametersReferenceScopeCluster)
				}
			},
			PrepareCreate: parts.PrepareCreate,
			PrepareUpdate: parts.PrepareUpdate,
			Validate:      validateClass,
			ValidateUpdate: func(class, old *networkingv1.IngressClass) field.ErrorList {
				errs := check.Immutable(field.NewPath("spec", "controller"), class.Spec.Controller, old.Spec.Controller)
				return append(errs, validateClass(class)...)
			},
		},
	}.Kind()
}

// validateClass validates a class. Rules that upstream states as declarations on the API types come last.
func validateClass(class *networkingv1.IngressClass) field.ErrorList {
	path := field.NewPath("spec", "controller")
	var errs, last field.ErrorList
	if len(class.Spec.Controller) > maxController {
		errs = append(errs, field.TooLong(path, "", maxController))
	}
	errs = append(errs, validation.IsDomainPrefixedPath(path, class.Spec.Controller)...)
	p := class.Spec.Parameters
	if p == nil {
		return errs
	}
	path = field.NewPath("spec", "parameters")
	errs = append(errs, apiGroup(path.Child("apiGroup"), p.APIGroup)...)
	for _, f := range []struct{ name, value string }{{"kind", p.Kind}, {"name", p.Name}} {
		if f.value == "" {
			last = append(last, field.Required(path.Child(f.name), ""))
		} else {
			errs = append(errs, pathSegment(path.Child(f.name), f.value)...)
		}
	}
	return append(append(errs, validateScope(p, path)...), last...)
}

func validateScope(p *networkingv1.IngressClassParametersReference, path *field.Path) field.ErrorList {
	const cluster, namespaced = networkingv1.IngressClassParametersReferenceScopeCluster, networkingv1.IngressClassParametersReferenceScopeNamespace
	namespace := path.Child("namespace")
	switch {
	case p.Scope == nil:
		return field.ErrorList{field.Required(path.Child("scope"), "")}
	case *p.Scope == cluster && p.Namespace != nil:
		return field.ErrorList{field.Forbidden(namespace, "`parameters.scope` is set to 'Cluster'")}
	case *p.Scope == namespaced && p.Namespace == nil:
		return field.ErrorList{field.Required(namespace, "`parameters.scope` is set to 'Namespace'")}
	case *p.Scope == namespaced:
		return check.Messages(namespace, *p.Namespace, apivalidation.ValidateNamespaceName(*p.Namespace, false))
	}
	return check.OneOf(path.Child("scope"), *p.Scope, cluster, namespaced)
}
