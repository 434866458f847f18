package v1alpha1

import (
	"context"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/registry"
)

const wildcard = "*"

// Kinds returns the kind.
func Kinds() []registry.Kind {
	type configuration = *InitializerConfiguration
	return []registry.Kind{registry.Definition[configuration]{
		Names: registry.Names{
			Kind: "InitializerConfiguration", Plural: "initializerconfigurations", Singular: "initializerconfiguration",
		},
		GroupVersion: GroupVersion(),
		New:          func() configuration { return &InitializerConfiguration{} },
		NewList:      func() runtime.Object { return &InitializerConfigurationList{} },
		Rules: registry.Rules[configuration]{
			PrepareCreate: func(_ context.Context, c configuration) { c.Generation = 1 },
			PrepareUpdate: func(_ context.Context, c, old configuration) {
				if !reflect.DeepEqual(c.Initializers, old.Initializers) {
					c.Generation = old.Generation + 1
				}
			},
			Validate:          validate,
			ValidateUpdate:    func(c, _ configuration) field.ErrorList { return validate(c) },
			AnyFinalizer:      true,
			ConditionalUpdate: true,
		},
	}.Kind()}
}

func validate(c *InitializerConfiguration) field.ErrorList {
	var errs field.ErrorList
	for i, in := range c.Initializers {
		p := field.NewPath("initializers").Index(i)
		errs = append(errs, validation.IsFullyQualifiedName(p.Child("name"), in.Name)...)
		for j, r := range in.Rules {
			errs = append(errs, validateRule(r, p.Child("rules").Index(j))...)
		}
	}
	return errs
}

func validateRule(r Rule, p *field.Path) field.ErrorList {
	errs := validateList(r.APIGroups, p.Child("apiGroups"), "API groups")
	errs = append(errs, validateList(r.APIVersions, p.Child("apiVersions"), "API versions")...)
	for i, v := range r.APIVersions {
		if v == "" {
			errs = append(errs, field.Required(p.Child("apiVersions").Index(i), ""))
		}
	}
	return append(errs, validateResources(r.Resources, p.Child("resources"))...)
}

func validateList(list []string, p *field.Path, what string) field.ErrorList {
	var errs field.ErrorList
	if len(list) == 0 {
		errs = append(errs, field.Required(p, ""))
	}
	if len(list) > 1 && slices.Contains(list, wildcard) {
		errs = append(errs, field.Invalid(p, list, "if '*' is present, must not specify other "+what))
	}
	return errs
}

func validateResources(list []string, p *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(list) == 0 {
		errs = append(errs, field.Required(p, ""))
	}
	for i, resource := range list {
		if resource == "" {
			errs = append(errs, field.Required(p.Index(i), ""))
		}
		if strings.Contains(resource, "/") {
			errs = append(errs, field.Invalid(p.Index(i), resource, "must not specify subresources"))
		}
	}
	if len(list) > 1 && slices.Contains(list, wildcard) {
		errs = append(errs, field.Invalid(p, list, "if '*' is present, must not specify other resources"))
	}
	return errs
}
