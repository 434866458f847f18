package apps

import (
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/internal/check"
)

func controllerRevisions() registry.Kind {
	return registry.Definition[*appsv1.ControllerRevision]{
		Names: registry.Names{
			Kind: "ControllerRevision", Plural: "controllerrevisions", Singular: "controllerrevision",
		},
		GroupVersion: appsv1.SchemeGroupVersion,
		Namespaced:   true,
		New:          func() *appsv1.ControllerRevision { return &appsv1.ControllerRevision{} },
		NewList:      func() runtime.Object { return &appsv1.ControllerRevisionList{} },
		Rules: registry.Rules[*appsv1.ControllerRevision]{
			Validate: func(r *appsv1.ControllerRevision) field.ErrorList {
				return append(check.Nonnegative(field.NewPath("revision"), r.Revision),
					validateData(r.Data.Raw, field.NewPath("data"))...)
			},
			ValidateUpdate: func(r, old *appsv1.ControllerRevision) field.ErrorList {
				return append(check.Nonnegative(field.NewPath("revision"), r.Revision),
					check.Immutable(field.NewPath("data"), r.Data, old.Data)...)
			},
		},
		Columns: revisionColumns(),
	}.Kind()
}

// validateData requires a JSON object.
func validateData(raw []byte, path *field.Path) field.ErrorList {
	const mandatory = "data is mandatory"
	if raw == nil {
		return field.ErrorList{field.Required(path, mandatory)}
	}
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		return field.ErrorList{field.Invalid(path, "<value omitted>", fmt.Sprintf("error parsing data: %v", err))}
	}
	if value == nil {
		return field.ErrorList{field.Required(path, mandatory)}
	}
	if _, ok := value.(map[string]any); !ok {
		return field.ErrorList{field.Required(path, "data must be a valid JSON object")}
	}
	return nil
}
