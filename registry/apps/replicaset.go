package apps

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/podspec"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/internal/check"
)

func replicaSets() registry.Kind {
	parts := registry.Parts[*appsv1.ReplicaSet]{
		Spec:   registry.PartOf(func(rs *appsv1.ReplicaSet) *appsv1.ReplicaSetSpec { return &rs.Spec }),
		Status: registry.PartOf(func(rs *appsv1.ReplicaSet) *appsv1.ReplicaSetStatus { return &rs.Status }),
	}
	return registry.Definition[*appsv1.ReplicaSet]{
		Names: registry.Names{
			Kind: "ReplicaSet", Plural: "replicasets", Singular: "replicaset",
			Short: []string{"rs"}, Categories: []string{"all"},
		},
		GroupVersion: appsv1.SchemeGroupVersion,
		Namespaced:   true,
		New:          func() *appsv1.ReplicaSet { return &appsv1.ReplicaSet{} },
		NewList:      func() runtime.Object { return &appsv1.ReplicaSetList{} },
		Rules: registry.Rules[*appsv1.ReplicaSet]{
			Default: func(rs *appsv1.ReplicaSet) {
				if rs.Spec.Replicas == nil {
					rs.Spec.Replicas = new(int32(1))
				}
				podspec.Default(&rs.Spec.Template.Spec)
			},
			PrepareCreate: func(ctx context.Context, rs *appsv1.ReplicaSet) {
				parts.PrepareCreate(ctx, rs)
				podspec.DropTemplate(&rs.Spec.Template, nil)
			},
			PrepareUpdate: func(ctx context.Context, rs, old *appsv1.ReplicaSet) {
				podspec.DropTemplate(&rs.Spec.Template, &old.Spec.Template)
				parts.PrepareUpdate(ctx, rs, old)
			},
			Validate: func(rs *appsv1.ReplicaSet) field.ErrorList {
				return validateReplicaSet(rs, podspec.Options{})
			},
			ValidateUpdate: func(rs, old *appsv1.ReplicaSet) field.ErrorList {
				return append(validateReplicaSet(rs, podspec.TemplateUpdate(&old.Spec.Template)),
					check.Immutable(field.NewPath("spec", "selector"), rs.Spec.Selector, old.Spec.Selector)...)
			},
		},
		Sub: registry.Subresources[*appsv1.ReplicaSet]{
			Views: map[string]registry.View[*appsv1.ReplicaSet]{"status": {
				PrepareUpdate: parts.PrepareStatus,
				ValidateUpdate: func(rs, _ *appsv1.ReplicaSet) field.ErrorList {
					return validateReplicaSetStatus(&rs.Status, field.NewPath("status"))
				},
			}},
			Scale: &registry.Scale[*appsv1.ReplicaSet]{
				Spec: func(rs *appsv1.ReplicaSet) int32 { return valueOf(rs.Spec.Replicas) },
				Status: func(rs *appsv1.ReplicaSet) (int32, string) {
					return rs.Status.Replicas, scaleSelector(rs.Spec.Selector)
				},
				Set: func(rs *appsv1.ReplicaSet, replicas int32) { rs.Spec.Replicas = &replicas },
			},
		},
		Columns: replicaSetColumns(),
	}.Kind()
}

func validateReplicaSet(rs *appsv1.ReplicaSet, o podspec.Options) field.ErrorList {
	spec, path := &rs.Spec, field.NewPath("spec")
	errs := check.Nonnegative(path.Child("replicas"), valueOf(spec.Replicas))
	errs = append(errs, check.Nonnegative(path.Child("minReadySeconds"), spec.MinReadySeconds)...)
	return append(errs, validateSelected(spec.Selector, &spec.Template, o, path)...)
}

func validateReplicaSetStatus(s *appsv1.ReplicaSetStatus, path *field.Path) field.ErrorList {
	errs := check.Nonnegative(path.Child("replicas"), s.Replicas)
	errs = append(errs, check.Nonnegative(path.Child("fullyLabeledReplicas"), s.FullyLabeledReplicas)...)
	errs = append(errs, check.Nonnegative(path.Child("readyReplicas"), s.ReadyReplicas)...)
	errs = append(errs, check.Nonnegative(path.Child("availableReplicas"), s.AvailableReplicas)...)
	errs = append(errs, check.Nonnegative(path.Child("observedGeneration"), s.ObservedGeneration)...)
	errs = append(errs, check.NonnegativeIfSet(path.Child("terminatingReplicas"), s.TerminatingReplicas)...)
	errs = append(errs, validateCounts(path, s.Replicas, []count{
		{"fullyLabeledReplicas", s.FullyLabeledReplicas}, {"readyReplicas", s.ReadyReplicas}, {"availableReplicas", s.AvailableReplicas},
	})...)
	if s.AvailableReplicas > s.ReadyReplicas {
		errs = append(errs, field.Invalid(path.Child("availableReplicas"), s.AvailableReplicas, "cannot be greater than readyReplicas"))
	}
	return errs
}
