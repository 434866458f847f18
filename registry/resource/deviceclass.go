package resource

import (
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/internal/check"
)

func (r rules) deviceClasses() registry.Kind {
	parts := registry.Parts[*resourcev1.DeviceClass]{
		Spec: registry.PartOf(func(c *resourcev1.DeviceClass) *resourcev1.DeviceClassSpec { return &c.Spec }),
	}
	return registry.Definition[*resourcev1.DeviceClass]{
		Names:        registry.Names{Kind: "DeviceClass", Plural: "deviceclasses", Singular: "deviceclass"},
		GroupVersion: resourcev1.SchemeGroupVersion,
		Older:        older(func() registry.Object { return &resourcev1.DeviceClass{} }, "v1beta2", "v1beta1"),
		New:          func() *resourcev1.DeviceClass { return &resourcev1.DeviceClass{} },
		NewList:      func() runtime.Object { return &resourcev1.DeviceClassList{} },
		Columns:      nameAndAge[*resourcev1.DeviceClass](),
		Rules: registry.Rules[*resourcev1.DeviceClass]{
			PrepareCreate: parts.PrepareCreate,
			PrepareUpdate: parts.PrepareUpdate,
			Validate:      func(c *resourcev1.DeviceClass) field.ErrorList { return r.validateClass(&c.Spec, nil) },
			ValidateUpdate: func(c, old *resourcev1.DeviceClass) field.ErrorList {
				return r.validateClass(&c.Spec, &old.Spec)
			},
			Deletion: registry.Deletion[*resourcev1.DeviceClass]{ReturnsObject: true},
		},
	}.Kind()
}

// validateClass validates the spec of a class; old is nil in a create. Selectors and configurations that stay are not
// validated as new ones are.
func (r rules) validateClass(s, old *resourcev1.DeviceClassSpec) field.ErrorList {
	p := field.NewPath("spec")
	selectors := r.selectors
	if old != nil && equality.Semantic.DeepEqual(s.Selectors, old.Selectors) {
		selectors = storedSelectors
	}
	errs := selectors(s.Selectors, p.Child("selectors"))
	stored := old != nil && equality.Semantic.DeepEqual(s.Config, old.Config)
	errs = append(errs, validateItems(s.Config, resourcev1.DeviceConfigMaxSize, func(c resourcev1.DeviceClassConfiguration, p *field.Path) field.ErrorList {
		return validateConfiguration(c.DeviceConfiguration, p, stored)
	}, p.Child("config"))...)
	if name := s.ExtendedResourceName; name != nil && !extendedResource(*name) {
		errs = append(errs, field.Invalid(p.Child("extendedResourceName"), *name, "must be a valid extended resource name").
			WithOrigin("format=k8s-extended-resource-name").MarkCoveredByDeclarative())
	}
	return check.Declared(errs, declarations{}.class(s, old, p))
}
