package apps

import (
	"context"
	"maps"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/podspec"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/internal/check"
)

func deployments() registry.Kind {
	parts := deploymentParts{registry.Parts[*appsv1.Deployment]{
		Spec:   registry.PartOf(func(d *appsv1.Deployment) *appsv1.DeploymentSpec { return &d.Spec }),
		Status: registry.PartOf(func(d *appsv1.Deployment) *appsv1.DeploymentStatus { return &d.Status }),
	}}
	return registry.Definition[*appsv1.Deployment]{
		Names: registry.Names{
			Kind: "Deployment", Plural: "deployments", Singular: "deployment",
			Short: []string{"deploy"}, Categories: []string{"all"},
		},
		GroupVersion: appsv1.SchemeGroupVersion,
		Namespaced:   true,
		New:          func() *appsv1.Deployment { return &appsv1.Deployment{} },
		NewList:      func() runtime.Object { return &appsv1.DeploymentList{} },
		Rules: registry.Rules[*appsv1.Deployment]{
			Default: defaultDeployment,
			PrepareCreate: func(ctx context.Context, d *appsv1.Deployment) {
				parts.PrepareCreate(ctx, d)
				podspec.DropTemplate(&d.Spec.Template, nil)
			},
			PrepareUpdate: parts.prepareUpdate,
			Validate: func(d *appsv1.Deployment) field.ErrorList {
				return validateDeployment(d, podspec.Options{})
			},
			ValidateUpdate: func(d, old *appsv1.Deployment) field.ErrorList {
				return append(validateDeployment(d, podspec.TemplateUpdate(&old.Spec.Template)),
					check.Immutable(field.NewPath("spec", "selector"), d.Spec.Selector, old.Spec.Selector)...)
			},
		},
		Sub: registry.Subresources[*appsv1.Deployment]{
			Views: map[string]registry.View[*appsv1.Deployment]{"status": {
				PrepareUpdate:  parts.prepareStatus,
				ValidateUpdate: validateDeploymentStatus,
				Resets:         []string{"spec", "metadata.labels"},
			}},
			Scale: &registry.Scale[*appsv1.Deployment]{
				Spec: func(d *appsv1.Deployment) int32 { return valueOf(d.Spec.Replicas) },
				Status: func(d *appsv1.Deployment) (int32, string) {
					return d.Status.Replicas, scaleSelector(d.Spec.Selector)
				},
				Set: func(d *appsv1.Deployment, replicas int32) { d.Spec.Replicas = &replicas },
			},
		},
		Columns: deploymentColumns(),
	}.Kind()
}

func defaultDeployment(d *appsv1.Deployment) {
	spec := &d.Spec
	if spec.Replicas == nil {
		spec.Replicas = new(int32(1))
	}
	if spec.Strategy.Type == "" {
		spec.Strategy.Type = appsv1.RollingUpdateDeploymentStrategyType
	}
	if spec.Strategy.Type == appsv1.RollingUpdateDeploymentStrategyType {
		if spec.Strategy.RollingUpdate == nil {
			spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{}
		}
		rolling := spec.Strategy.RollingUpdate
		if rolling.MaxUnavailable == nil {
			rolling.MaxUnavailable = new(intstr.FromString("25%"))
		}
		if rolling.MaxSurge == nil {
			rolling.MaxSurge = new(intstr.FromString("25%"))
		}
	}
	if spec.RevisionHistoryLimit == nil {
		spec.RevisionHistoryLimit = new(int32(10))
	}
	if spec.ProgressDeadlineSeconds == nil {
		spec.ProgressDeadlineSeconds = new(int32(600))
	}
	podspec.Default(&spec.Template.Spec)
	if d.Annotations[appsv1.DeprecatedRollbackTo] == "" { // means no rollback
		delete(d.Annotations, appsv1.DeprecatedRollbackTo)
	}
}

type deploymentParts struct {
	registry.Parts[*appsv1.Deployment]
}

// prepareUpdate also raises the generation when annotations change: they are copied to the replica sets.
func (p deploymentParts) prepareUpdate(ctx context.Context, d, old *appsv1.Deployment) {
	podspec.DropTemplate(&d.Spec.Template, &old.Spec.Template)
	p.PrepareUpdate(ctx, d, old)
	if !maps.Equal(d.Annotations, old.Annotations) {
		d.Generation = old.Generation + 1
	}
}

// prepareStatus also keeps the labels, and the rollback annotation, which was once a field of the spec.
func (p deploymentParts) prepareStatus(ctx context.Context, d, old *appsv1.Deployment) {
	p.PrepareStatus(ctx, d, old)
	d.Labels = maps.Clone(old.Labels)
	delete(d.Annotations, appsv1.DeprecatedRollbackTo)
	if revision := old.Annotations[appsv1.DeprecatedRollbackTo]; revision != "" {
		if d.Annotations == nil {
			d.Annotations = map[string]string{}
		}
		d.Annotations[appsv1.DeprecatedRollbackTo] = revision
	}
}

func validateDeployment(d *appsv1.Deployment, o podspec.Options) field.ErrorList {
	spec, path := &d.Spec, field.NewPath("spec")
	errs := check.Nonnegative(path.Child("replicas"), valueOf(spec.Replicas))
	errs = append(errs, validateSelected(spec.Selector, &spec.Template, o, path)...)
	errs = append(errs, validateStrategy(&spec.Strategy, path.Child("strategy"))...)
	errs = append(errs, check.Nonnegative(path.Child("minReadySeconds"), spec.MinReadySeconds)...)
	errs = append(errs, check.NonnegativeIfSet(path.Child("revisionHistoryLimit"), spec.RevisionHistoryLimit)...)
	if revision, err := strconv.ParseInt(d.Annotations[appsv1.DeprecatedRollbackTo], 10, 64); err == nil {
		errs = append(errs, check.Nonnegative(path.Child("rollback", "version"), revision)...)
	}
	errs = append(errs, check.NonnegativeIfSet(path.Child("progressDeadlineSeconds"), spec.ProgressDeadlineSeconds)...)
	if deadline := spec.ProgressDeadlineSeconds; deadline != nil && *deadline <= spec.MinReadySeconds {
		errs = append(errs, field.Invalid(path.Child("progressDeadlineSeconds"), *deadline, "must be greater than minReadySeconds"))
	}
	return errs
}

// shownStrategy is the form of a strategy in errors.
type shownStrategy struct {
	Type          appsv1.DeploymentStrategyType
	RollingUpdate *shownRollingUpdate
}

type shownRollingUpdate struct {
	MaxUnavailable intstr.IntOrString
	MaxSurge       intstr.IntOrString
}

func validateStrategy(s *appsv1.DeploymentStrategy, path *field.Path) field.ErrorList {
	switch s.Type {
	case appsv1.RecreateDeploymentStrategyType:
		if s.RollingUpdate != nil {
			return field.ErrorList{field.Forbidden(path.Child("rollingUpdate"), "may not be specified when strategy `type` is 'Recreate'")}
		}
		return nil
	case appsv1.RollingUpdateDeploymentStrategyType:
		if s.RollingUpdate == nil {
			return field.ErrorList{field.Required(path.Child("rollingUpdate"), "this should be defaulted and never be nil")}
		}
		return validateRollingUpdate(rollingUpdate(s.RollingUpdate), path.Child("rollingUpdate"))
	}
	shown := shownStrategy{Type: s.Type}
	if s.RollingUpdate != nil {
		shown.RollingUpdate = new(rollingUpdate(s.RollingUpdate))
	}
	return field.ErrorList{field.NotSupported(path, shown, []appsv1.DeploymentStrategyType{
		appsv1.RecreateDeploymentStrategyType, appsv1.RollingUpdateDeploymentStrategyType,
	})}
}

func rollingUpdate(r *appsv1.RollingUpdateDeployment) shownRollingUpdate {
	var u shownRollingUpdate
	if r.MaxUnavailable != nil {
		u.MaxUnavailable = *r.MaxUnavailable
	}
	if r.MaxSurge != nil {
		u.MaxSurge = *r.MaxSurge
	}
	return u
}

func validateRollingUpdate(r shownRollingUpdate, path *field.Path) field.ErrorList {
	unavailable := path.Child("maxUnavailable")
	errs := check.IntOrPercent(unavailable, r.MaxUnavailable)
	errs = append(errs, check.IntOrPercent(path.Child("maxSurge"), r.MaxSurge)...)
	if check.IsZero(r.MaxUnavailable) && check.IsZero(r.MaxSurge) {
		errs = append(errs, field.Invalid(unavailable, r.MaxUnavailable, "may not be 0 when `maxSurge` is 0"))
	}
	return append(errs, check.AtMost100Percent(unavailable, r.MaxUnavailable)...)
}

func validateDeploymentStatus(d, old *appsv1.Deployment) field.ErrorList {
	s, path := &d.Status, field.NewPath("status")
	errs := check.Nonnegative(path.Child("observedGeneration"), s.ObservedGeneration)
	errs = append(errs, check.Nonnegative(path.Child("replicas"), s.Replicas)...)
	errs = append(errs, check.Nonnegative(path.Child("updatedReplicas"), s.UpdatedReplicas)...)
	errs = append(errs, check.Nonnegative(path.Child("readyReplicas"), s.ReadyReplicas)...)
	errs = append(errs, check.Nonnegative(path.Child("availableReplicas"), s.AvailableReplicas)...)
	errs = append(errs, check.Nonnegative(path.Child("unavailableReplicas"), s.UnavailableReplicas)...)
	errs = append(errs, check.NonnegativeIfSet(path.Child("terminatingReplicas"), s.TerminatingReplicas)...)
	errs = append(errs, check.NonnegativeIfSet(path.Child("collisionCount"), s.CollisionCount)...)
	errs = append(errs, validateCounts(path, s.Replicas, []count{
		{"updatedReplicas", s.UpdatedReplicas}, {"readyReplicas", s.ReadyReplicas}, {"availableReplicas", s.AvailableReplicas},
	})...)
	if s.AvailableReplicas > s.ReadyReplicas {
		errs = append(errs, field.Invalid(path.Child("availableReplicas"), s.AvailableReplicas, "cannot be greater than readyReplicas"))
	}
	return append(errs, validateCollisions(s.CollisionCount, old.Status.CollisionCount, path)...)
}
