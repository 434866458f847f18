package apps

import (
	"context"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/podspec"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/internal/check"
)

func daemonSets() registry.Kind {
	parts := daemonSetParts{registry.Parts[*appsv1.DaemonSet]{
		Spec:   registry.PartOf(func(d *appsv1.DaemonSet) *appsv1.DaemonSetSpec { return &d.Spec }),
		Status: registry.PartOf(func(d *appsv1.DaemonSet) *appsv1.DaemonSetStatus { return &d.Status }),
	}}
	return registry.Definition[*appsv1.DaemonSet]{
		Names: registry.Names{
			Kind: "DaemonSet", Plural: "daemonsets", Singular: "daemonset",
			Short: []string{"ds"}, Categories: []string{"all"},
		},
		GroupVersion: appsv1.SchemeGroupVersion,
		Namespaced:   true,
		New:          func() *appsv1.DaemonSet { return &appsv1.DaemonSet{} },
		NewList:      func() runtime.Object { return &appsv1.DaemonSetList{} },
		Rules: registry.Rules[*appsv1.DaemonSet]{
			Default:       defaultDaemonSet,
			PrepareCreate: parts.prepareCreate,
			PrepareUpdate: parts.prepareUpdate,
			Validate: func(d *appsv1.DaemonSet) field.ErrorList {
				return validateDaemonSet(&d.Spec, podspec.Options{}, false)
			},
			ValidateUpdate: func(d, old *appsv1.DaemonSet) field.ErrorList {
				return append(check.Immutable(field.NewPath("spec", "selector"), d.Spec.Selector, old.Spec.Selector),
					validateDaemonSet(&d.Spec, podspec.TemplateUpdate(&old.Spec.Template),
						metavalidation.LabelSelectorHasInvalidLabelValue(old.Spec.Selector))...)
			},
			Guard: guardTemplateGeneration,
		},
		Sub: registry.Subresources[*appsv1.DaemonSet]{
			Views: map[string]registry.View[*appsv1.DaemonSet]{"status": {
				PrepareUpdate:  parts.prepareStatus,
				ValidateUpdate: validateDaemonSetStatus,
			}},
		},
		Columns: daemonSetColumns(),
	}.Kind()
}

func defaultDaemonSet(d *appsv1.DaemonSet) {
	spec := &d.Spec
	if spec.UpdateStrategy.Type == "" {
		spec.UpdateStrategy.Type = appsv1.RollingUpdateDaemonSetStrategyType
	}
	unavailable := int32(0) // with another strategy, too, upstream does not store that it is missing
	if spec.UpdateStrategy.Type == appsv1.RollingUpdateDaemonSetStrategyType {
		if spec.UpdateStrategy.RollingUpdate == nil {
			spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateDaemonSet{}
		}
		unavailable = 1
	}
	if rolling := spec.UpdateStrategy.RollingUpdate; rolling != nil {
		if rolling.MaxUnavailable == nil {
			rolling.MaxUnavailable = new(intstr.FromInt32(unavailable))
		}
		if rolling.MaxSurge == nil {
			rolling.MaxSurge = new(intstr.FromInt32(0))
		}
	}
	if spec.RevisionHistoryLimit == nil {
		spec.RevisionHistoryLimit = new(int32(10))
	}
	podspec.Default(&spec.Template.Spec)
	if n, err := templateGeneration(d); err == nil {
		setTemplateGeneration(d, n)
	}
}

// templateGeneration returns how often the template has changed. It was once a field of the spec and is kept in an
// annotation, which every DaemonSet has.
func templateGeneration(d *appsv1.DaemonSet) (int64, error) {
	text, ok := d.Annotations[appsv1.DeprecatedTemplateGeneration]
	if !ok {
		return 0, nil
	}
	return strconv.ParseInt(text, 10, 64)
}

func setTemplateGeneration(d *appsv1.DaemonSet, n int64) {
	if d.Annotations == nil {
		d.Annotations = map[string]string{}
	}
	d.Annotations[appsv1.DeprecatedTemplateGeneration] = strconv.FormatInt(n, 10)
}

// guardTemplateGeneration refuses an annotation that upstream cannot convert.
func guardTemplateGeneration(_ context.Context, d, _ *appsv1.DaemonSet) error {
	if _, err := templateGeneration(d); err != nil {
		at := registry.ObjectKey{Resource: appsv1.Resource("daemonsets"), Namespace: d.Namespace, Name: d.Name}
		return registry.Errorf(registry.ErrBadRequest, at, `DaemonSet in version "v1" cannot be handled as a DaemonSet: %v`, err)
	}
	return nil
}

type daemonSetParts struct {
	registry.Parts[*appsv1.DaemonSet]
}

func (p daemonSetParts) prepareCreate(ctx context.Context, d *appsv1.DaemonSet) {
	p.PrepareCreate(ctx, d)
	if n, err := templateGeneration(d); err == nil {
		setTemplateGeneration(d, max(n, 1))
	}
	podspec.DropTemplate(&d.Spec.Template, nil)
}

// prepareUpdate also counts changes of the template. An annotation that is no number stays, to be refused.
func (p daemonSetParts) prepareUpdate(ctx context.Context, d, old *appsv1.DaemonSet) {
	podspec.DropTemplate(&d.Spec.Template, &old.Spec.Template)
	p.PrepareUpdate(ctx, d, old)
	if _, err := templateGeneration(d); err != nil {
		return
	}
	n, _ := templateGeneration(old) // what is stored is a number
	if !equality.Semantic.DeepEqual(d.Spec.Template, old.Spec.Template) {
		n++
	}
	setTemplateGeneration(d, n)
}

// prepareStatus also keeps the annotation that was once a field of the spec.
func (p daemonSetParts) prepareStatus(ctx context.Context, d, old *appsv1.DaemonSet) {
	p.PrepareStatus(ctx, d, old)
	if n, err := templateGeneration(old); err == nil {
		setTemplateGeneration(d, n)
	}
}

func validateDaemonSet(spec *appsv1.DaemonSetSpec, o podspec.Options, anyValue bool) field.ErrorList {
	path := field.NewPath("spec")
	template := path.Child("template")
	errs := metavalidation.ValidateLabelSelector(spec.Selector,
		metavalidation.LabelSelectorValidationOptions{AllowInvalidLabelValueInSelector: anyValue}, path.Child("selector"))
	if s, err := metav1.LabelSelectorAsSelector(spec.Selector); err == nil && !s.Matches(labels.Set(spec.Template.Labels)) {
		errs = append(errs, field.Invalid(template.Child("metadata", "labels"), spec.Template.Labels, "`selector` does not match template `labels`"))
	}
	if s := spec.Selector; s != nil && len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		errs = append(errs, field.Invalid(path.Child("selector"), s, "empty selector is invalid for daemonset"))
	}
	errs = append(errs, podspec.ValidateTemplate(&spec.Template, template, o)...)
	if policy := spec.Template.Spec.RestartPolicy; policy != corev1.RestartPolicyAlways {
		errs = append(errs, field.NotSupported(template.Child("spec", "restartPolicy"), policy, []corev1.RestartPolicy{corev1.RestartPolicyAlways}))
	}
	if spec.Template.Spec.ActiveDeadlineSeconds != nil {
		errs = append(errs, field.Forbidden(template.Child("spec", "activeDeadlineSeconds"), "activeDeadlineSeconds in DaemonSet is not Supported"))
	}
	errs = append(errs, check.Nonnegative(path.Child("minReadySeconds"), spec.MinReadySeconds)...)
	errs = append(errs, validateDaemonSetStrategy(&spec.UpdateStrategy, path.Child("updateStrategy"))...)
	return append(errs, check.NonnegativeIfSet(path.Child("revisionHistoryLimit"), spec.RevisionHistoryLimit)...)
}

// shownDaemonSetStrategy is the form of a strategy in errors.
type shownDaemonSetStrategy struct {
	Type          appsv1.DaemonSetUpdateStrategyType
	RollingUpdate *shownRollingUpdate
}

func validateDaemonSetStrategy(s *appsv1.DaemonSetUpdateStrategy, path *field.Path) field.ErrorList {
	var rolling *shownRollingUpdate
	if s.RollingUpdate != nil {
		rolling = new(rollingUpdate(&appsv1.RollingUpdateDeployment{
			MaxUnavailable: s.RollingUpdate.MaxUnavailable, MaxSurge: s.RollingUpdate.MaxSurge,
		}))
	}
	switch s.Type {
	case appsv1.OnDeleteDaemonSetStrategyType:
		return nil
	case appsv1.RollingUpdateDaemonSetStrategyType:
		if rolling == nil {
			return field.ErrorList{field.Required(path.Child("rollingUpdate"), "")}
		}
		return validateDaemonSetRolling(*rolling, path.Child("rollingUpdate"))
	}
	return field.ErrorList{field.NotSupported(path, shownDaemonSetStrategy{s.Type, rolling}, []appsv1.DaemonSetUpdateStrategyType{
		appsv1.RollingUpdateDaemonSetStrategyType, appsv1.OnDeleteDaemonSetStrategyType,
	})}
}

// validateDaemonSetRolling requires that exactly one of the two limits allows a step.
func validateDaemonSetRolling(r shownRollingUpdate, path *field.Path) field.ErrorList {
	unavailable, surge := path.Child("maxUnavailable"), path.Child("maxSurge")
	errs := check.IntOrPercent(unavailable, r.MaxUnavailable)
	errs = append(errs, check.IntOrPercent(surge, r.MaxSurge)...)
	errs = append(errs, check.AtMost100Percent(unavailable, r.MaxUnavailable)...)
	errs = append(errs, check.AtMost100Percent(surge, r.MaxSurge)...)
	switch noneUnavailable, noSurge := check.IsZero(r.MaxUnavailable), check.IsZero(r.MaxSurge); {
	case noneUnavailable && noSurge:
		errs = append(errs, field.Required(unavailable, "cannot be 0 when maxSurge is 0"))
	case !noneUnavailable && !noSurge:
		errs = append(errs, field.Invalid(surge, r.MaxSurge, "may not be set when maxUnavailable is non-zero"))
	}
	return errs
}

func validateDaemonSetStatus(d, old *appsv1.DaemonSet) field.ErrorList {
	s, path := &d.Status, field.NewPath("status")
	errs := check.Nonnegative(path.Child("currentNumberScheduled"), s.CurrentNumberScheduled)
	errs = append(errs, check.Nonnegative(path.Child("numberMisscheduled"), s.NumberMisscheduled)...)
	errs = append(errs, check.Nonnegative(path.Child("desiredNumberScheduled"), s.DesiredNumberScheduled)...)
	errs = append(errs, check.Nonnegative(path.Child("numberReady"), s.NumberReady)...)
	errs = append(errs, check.Nonnegative(path.Child("observedGeneration"), s.ObservedGeneration)...)
	errs = append(errs, check.Nonnegative(path.Child("updatedNumberScheduled"), s.UpdatedNumberScheduled)...)
	errs = append(errs, check.Nonnegative(path.Child("numberAvailable"), s.NumberAvailable)...)
	errs = append(errs, check.Nonnegative(path.Child("numberUnavailable"), s.NumberUnavailable)...)
	errs = append(errs, check.NonnegativeIfSet(path.Child("collisionCount"), s.CollisionCount)...)
	return append(errs, validateCollisions(s.CollisionCount, old.Status.CollisionCount, path)...)
}
