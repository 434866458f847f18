package node

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/podspec"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/internal/check"
)

func runtimeClasses() registry.Kind {
	return registry.Definition[*nodev1.RuntimeClass]{
		Names:        registry.Names{Kind: "RuntimeClass", Plural: "runtimeclasses", Singular: "runtimeclass"},
		GroupVersion: nodev1.SchemeGroupVersion,
		Older:        olderClasses(),
		New:          func() *nodev1.RuntimeClass { return &nodev1.RuntimeClass{} },
		NewList:      func() runtime.Object { return &nodev1.RuntimeClassList{} },
		Rules: registry.Rules[*nodev1.RuntimeClass]{
			Validate: func(class *nodev1.RuntimeClass) field.ErrorList {
				return append(validateRest(class), validateHandler(class, content.IsDNS1123Label)...)
			},
			ValidateUpdate:    validateUpdate,
			Guard:             warn,
			CreateOnUpdate:    true,
			ConditionalUpdate: true,
		},
		Columns: registry.Columns[*nodev1.RuntimeClass]{
			Definitions: []metav1.TableColumnDefinition{registry.NameColumn(), registry.TextColumn("Handler", ""), registry.AgeColumn()},
			Cells: func(class *nodev1.RuntimeClass, now time.Time) []any {
				return []any{class.Name, class.Handler, registry.Age(class.CreationTimestamp, now)}
			},
		},
	}.Kind()
}

// warn warns of deprecated labels of nodes.
func warn(ctx context.Context, class, _ *nodev1.RuntimeClass) error {
	if class.Scheduling == nil {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(class.Scheduling.NodeSelector)) {
		if text, deprecated := check.DeprecatedNodeLabel(key); deprecated {
			registry.Warn(ctx, fmt.Sprintf("%s: %s", field.NewPath("scheduling", "nodeSelector"), text))
		}
	}
	return nil
}

// validateHandler validates the handler as a label, by either of upstream's functions: their words for what is too long differ.
func validateHandler(class *nodev1.RuntimeClass, label func(string) []string) field.ErrorList {
	path := field.NewPath("handler")
	if class.Handler == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	return check.Messages(path, class.Handler, label(class.Handler))
}

// validateUpdate keeps the handler. Rules that upstream states as declarations on the API types come last; of a handler that is
// changed they have no more to say than that.
func validateUpdate(class, old *nodev1.RuntimeClass) field.ErrorList {
	handler := validateHandler(class, validation.IsDNS1123Label)
	if class.Handler == old.Handler {
		return append(handler, validateRest(class)...)
	}
	immutable := field.Invalid(field.NewPath("handler"), nil, "field is immutable")
	if class.Handler == "" {
		return append(append(validateRest(class), immutable), handler...)
	}
	return append(append(handler, validateRest(class)...), immutable)
}

// validateRest validates a class except for the handler.
func validateRest(class *nodev1.RuntimeClass) field.ErrorList {
	var errs field.ErrorList
	if class.Overhead != nil {
		errs = podspec.ValidateContainerResources(&corev1.ResourceRequirements{Limits: class.Overhead.PodFixed}, field.NewPath("overhead"))
	}
	if class.Scheduling == nil {
		return errs
	}
	path := field.NewPath("scheduling")
	errs = append(errs, metavalidation.ValidateLabels(class.Scheduling.NodeSelector, path.Child("nodeSelector"))...)
	return append(errs, validateTolerations(class.Scheduling.Tolerations, path.Child("tolerations"))...)
}

// shownToleration is the form of a toleration in errors.
type shownToleration struct {
	Key               string
	Operator          corev1.TolerationOperator
	Value             string
	Effect            corev1.TaintEffect
	TolerationSeconds *int64
}

// validateTolerations requires tolerations that differ in more than their time.
func validateTolerations(list []corev1.Toleration, path *field.Path) field.ErrorList {
	errs := podspec.ValidateTolerations(list, path)
	seen := map[corev1.Toleration]bool{}
	for i, t := range list {
		key := t
		key.TolerationSeconds = nil
		if seen[key] {
			errs = append(errs, field.Duplicate(path.Index(i), shownToleration(t)))
		}
		seen[key] = true
	}
	return errs
}
