package admissionregistration

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/registry"
)

// staticSuffix ends the names of configurations that servers read from files.
const staticSuffix = ".static.k8s.io"

func staticName(name string) (reserved string, is bool) {
	return fmt.Sprintf("names ending with %q are reserved for static manifest-based configurations and cannot be managed via the API", staticSuffix),
		strings.HasSuffix(name, staticSuffix)
}

// validateName refuses reserved names of new configurations.
func validateName(name string) field.ErrorList {
	if reserved, is := staticName(name); is {
		return field.ErrorList{field.Invalid(field.NewPath("metadata", "name"), name, reserved)}
	}
	return nil
}

// warn warns of a reserved name, and of rules that name resources which no webhook sees.
func warn(ctx context.Context, name string, hooks []hook) {
	if reserved, is := staticName(name); is {
		registry.Warn(ctx, "metadata.name: "+reserved)
	}
	for i, h := range hooks {
		for j, rule := range h.Rules {
			path := field.NewPath("webhooks").Index(i).Child("rules").Index(j)
			if slices.Contains(rule.Resources, "*") {
				continue // which may be meant for others
			}
			var told []schema.GroupResource
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					r := schema.GroupResource{Group: group, Resource: resource}
					if !virtual(r) || slices.Contains(told, r) {
						continue
					}
					told = append(told, r)
					registry.Warn(ctx, fmt.Sprintf("%s: %s is excluded from admission webhooks; this rule will have no effect", path, r))
				}
			}
		}
	}
}

// virtual reports whether a resource is one of those by which a cluster decides who may do what: webhooks do not
// see them.
func virtual(r schema.GroupResource) bool {
	switch r.Group {
	case "authentication.k8s.io":
		return r.Resource == "selfsubjectreviews" || r.Resource == "tokenreviews"
	case "authorization.k8s.io":
		return slices.Contains([]string{
			"localsubjectaccessreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews", "subjectaccessreviews",
		}, r.Resource)
	}
	return false
}
