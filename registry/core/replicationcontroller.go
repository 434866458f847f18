package core

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/podspec"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/internal/check"
)

func replicationControllers() registry.Kind {
	parts := registry.Parts[*corev1.ReplicationController]{
		Spec:   registry.PartOf(func(rc *corev1.ReplicationController) *corev1.ReplicationControllerSpec { return &rc.Spec }),
		Status: registry.PartOf(func(rc *corev1.ReplicationController) *corev1.ReplicationControllerStatus { return &rc.Status }),
	}
	return registry.Definition[*corev1.ReplicationController]{
		Names: registry.Names{
			Kind: "ReplicationController", Plural: "replicationcontrollers", Singular: "replicationcontroller",
			Short: []string{"rc"}, Categories: []string{"all"},
		},
		GroupVersion: corev1.SchemeGroupVersion,
		Namespaced:   true,
		Prefix:       "controllers",
		New:          func() *corev1.ReplicationController { return &corev1.ReplicationController{} },
		NewList:      func() runtime.Object { return &corev1.ReplicationControllerList{} },
		Fields: func(rc *corev1.ReplicationController) fields.Set {
			return fields.Set{"status.replicas": strconv.Itoa(int(rc.Status.Replicas))}
		},
		Rules: registry.Rules[*corev1.ReplicationController]{
			Default: defaultReplicationController,
			PrepareCreate: func(ctx context.Context, rc *corev1.ReplicationController) {
				parts.PrepareCreate(ctx, rc)
				dropReplicated(rc, nil)
				warnOfHostname(ctx, rc.Name)
			},
			PrepareUpdate: func(ctx context.Context, rc, old *corev1.ReplicationController) {
				dropReplicated(rc, old.Spec.Template)
				parts.PrepareUpdate(ctx, rc, old)
			},
			Validate: func(rc *corev1.ReplicationController) field.ErrorList {
				return append(validateReplicated(&rc.Spec, podspec.Options{}), validateReplicas(&rc.Spec)...)
			},
			ValidateUpdate: validateReplicationControllerUpdate,
			Deletion:       registry.Deletion[*corev1.ReplicationController]{Orphans: true},
		},
		Sub: registry.Subresources[*corev1.ReplicationController]{
			Views: map[string]registry.View[*corev1.ReplicationController]{"status": {
				PrepareUpdate: parts.PrepareStatus,
				ValidateUpdate: func(rc, _ *corev1.ReplicationController) field.ErrorList {
					return validateReplicationControllerStatus(&rc.Status, field.NewPath("status"))
				},
			}},
			Scale: &registry.Scale[*corev1.ReplicationController]{
				Spec: wanted,
				Status: func(rc *corev1.ReplicationController) (int32, string) {
					return rc.Status.Replicas, labels.SelectorFromSet(rc.Spec.Selector).String()
				},
				Set: func(rc *corev1.ReplicationController, replicas int32) { rc.Spec.Replicas = &replicas },
			},
		},
		Columns: replicationControllerColumns(),
	}.Kind()
}

// wanted is the desired number of pods; 0 if unset.
func wanted(rc *corev1.ReplicationController) int32 {
	if rc.Spec.Replicas == nil {
		return 0
	}
	return *rc.Spec.Replicas
}

// defaultReplicationController takes the selector and the labels from those of the template.
func defaultReplicationController(rc *corev1.ReplicationController) {
	if rc.Spec.Replicas == nil {
		rc.Spec.Replicas = new(int32(1))
	}
	t := rc.Spec.Template
	if t == nil {
		return
	}
	podspec.Default(&t.Spec)
	if len(rc.Spec.Selector) == 0 {
		rc.Spec.Selector = maps.Clone(t.Labels)
	}
	if len(rc.Labels) == 0 {
		rc.Labels = maps.Clone(t.Labels)
	}
}

func dropReplicated(rc *corev1.ReplicationController, old *corev1.PodTemplateSpec) {
	if rc.Spec.Template != nil {
		podspec.DropTemplate(rc.Spec.Template, old)
	}
}

// warnOfHostname warns of a name that pods cannot take over.
func warnOfHostname(ctx context.Context, name string) {
	if errs := validation.IsDNS1123Label(name); len(errs) > 0 {
		registry.Warn(ctx, fmt.Sprintf(
			"metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: %v", errs))
	}
}

func validateReplicationControllerUpdate(rc, old *corev1.ReplicationController) field.ErrorList {
	var o podspec.Options
	if old.Spec.Template != nil {
		o = podspec.TemplateUpdate(old.Spec.Template)
	}
	errs := validateReplicated(&rc.Spec, o)
	errs = append(errs, validateUnconverted(rc, old)...)
	return append(errs, validateReplicas(&rc.Spec)...)
}

func validateReplicated(spec *corev1.ReplicationControllerSpec, o podspec.Options) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("spec")
	if len(spec.Selector) == 0 {
		errs = append(errs, field.Required(path.Child("selector"), ""))
	}
	path = path.Child("template")
	t := spec.Template
	if t == nil {
		return append(errs, field.Required(path, ""))
	}
	if !labels.SelectorFromSet(spec.Selector).Matches(labels.Set(t.Labels)) {
		errs = append(errs, field.Invalid(path.Child("metadata", "labels"), t.Labels, "`selector` does not match template `labels`"))
	}
	errs = append(errs, podspec.ValidateTemplate(t, path, o)...)
	if policy := t.Spec.RestartPolicy; policy != corev1.RestartPolicyAlways {
		errs = append(errs, field.NotSupported(path.Child("spec", "restartPolicy"), policy, []corev1.RestartPolicy{corev1.RestartPolicyAlways}))
	}
	if t.Spec.ActiveDeadlineSeconds != nil {
		errs = append(errs, field.Forbidden(path.Child("spec", "activeDeadlineSeconds"), "activeDeadlineSeconds in ReplicationController is not Supported"))
	}
	return errs
}

// validateReplicas validates what upstream does by declarations, whose errors come last.
func validateReplicas(spec *corev1.ReplicationControllerSpec) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("spec")
	if spec.Replicas == nil {
		errs = append(errs, field.Required(path.Child("replicas"), ""))
	}
	errs = append(errs, check.NonnegativeIfSet(path.Child("replicas"), spec.Replicas)...)
	return append(errs, check.Nonnegative(path.Child("minReadySeconds"), spec.MinReadySeconds)...)
}

// validateUnconverted refuses changes of what annotations say had no equivalent in a former version.
func validateUnconverted(rc, old *corev1.ReplicationController) field.ErrorList {
	var errs field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(old.Annotations)) {
		if !strings.HasPrefix(key, "non-convertible.kubernetes.io") {
			continue
		}
		_, name, found := strings.Cut(key, "/")
		switch {
		case !found || strings.Contains(name, "/"):
		case !strings.Contains(name, "selector"):
			errs = append(errs, &field.Error{
				Type: field.ErrorTypeNotFound, BadValue: old.Annotations[key], Field: name, Detail: "unknown non-convertible field",
			})
		case !equality.Semantic.DeepEqual(rc.Spec.Selector, old.Spec.Selector):
			errs = append(errs, field.Invalid(field.NewPath("spec", "selector"), rc.Spec.Selector, "cannot update non-convertible selector"))
		}
	}
	return errs
}

func validateReplicationControllerStatus(s *corev1.ReplicationControllerStatus, path *field.Path) field.ErrorList {
	errs := check.Nonnegative(path.Child("replicas"), s.Replicas)
	errs = append(errs, check.Nonnegative(path.Child("fullyLabeledReplicas"), s.FullyLabeledReplicas)...)
	errs = append(errs, check.Nonnegative(path.Child("readyReplicas"), s.ReadyReplicas)...)
	errs = append(errs, check.Nonnegative(path.Child("availableReplicas"), s.AvailableReplicas)...)
	errs = append(errs, check.Nonnegative(path.Child("observedGeneration"), s.ObservedGeneration)...)
	for _, part := range []struct {
		field string
		value int32
	}{
		{"fullyLabeledReplicas", s.FullyLabeledReplicas}, {"readyReplicas", s.ReadyReplicas}, {"availableReplicas", s.AvailableReplicas},
	} {
		if part.value > s.Replicas {
			errs = append(errs, field.Invalid(path.Child(part.field), part.value, "cannot be greater than status.replicas"))
		}
	}
	if s.AvailableReplicas > s.ReadyReplicas {
		errs = append(errs, field.Invalid(path.Child("availableReplicas"), s.AvailableReplicas, "cannot be greater than readyReplicas"))
	}
	return errs
}

func replicationControllerColumns() registry.Columns[*corev1.ReplicationController] {
	spec, status := corev1.ReplicationControllerSpec{}.SwaggerDoc(), corev1.ReplicationControllerStatus{}.SwaggerDoc()
	return registry.Columns[*corev1.ReplicationController]{
		Definitions: []metav1.TableColumnDefinition{
			registry.NameColumn(),
			{Name: "Desired", Type: "integer", Description: spec["replicas"]},
			{Name: "Current", Type: "integer", Description: status["replicas"]},
			{Name: "Ready", Type: "integer", Description: status["readyReplicas"]},
			registry.AgeColumn(),
			registry.WideColumn("Containers", "Names of each container in the template."),
			registry.WideColumn("Images", "Images referenced by each container in the template."),
			registry.WideColumn("Selector", spec["selector"]),
		},
		Cells: func(rc *corev1.ReplicationController, now time.Time) []any {
			var names, images []string
			if t := rc.Spec.Template; t != nil {
				for _, c := range t.Spec.Containers {
					names, images = append(names, c.Name), append(images, c.Image)
				}
			}
			return []any{
				rc.Name, int64(wanted(rc)), int64(rc.Status.Replicas), int64(rc.Status.ReadyReplicas), registry.Age(rc.CreationTimestamp, now),
				strings.Join(names, ","), strings.Join(images, ","), labels.FormatLabels(rc.Spec.Selector),
			}
		},
	}
}
