package resource

import (
	"context"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/internal/check"
)

// deviceTaintRules are stored as v1beta2, like upstream's, whose last minor version does not know v1.
func deviceTaintRules() registry.Kind {
	type rule = *resourcev1.DeviceTaintRule
	parts := registry.Parts[rule]{
		Spec:   registry.PartOf(func(r rule) *resourcev1.DeviceTaintRuleSpec { return &r.Spec }),
		Status: registry.PartOf(func(r rule) *resourcev1.DeviceTaintRuleStatus { return &r.Status }),
	}
	before := older(func() registry.Object { return &resourcev1.DeviceTaintRule{} }, "v1beta2", "v1alpha3")
	before[0].Written = true
	return registry.Definition[rule]{
		Names:        registry.Names{Kind: "DeviceTaintRule", Plural: "devicetaintrules", Singular: "devicetaintrule"},
		GroupVersion: resourcev1.SchemeGroupVersion,
		Older:        before,
		New:          func() rule { return &resourcev1.DeviceTaintRule{} },
		NewList:      func() runtime.Object { return &resourcev1.DeviceTaintRuleList{} },
		Columns:      taintRuleColumns(),
		Rules: registry.Rules[rule]{
			Default:       func(r rule) { defaultTaint(&r.Spec.Taint) },
			PrepareCreate: parts.PrepareCreate,
			PrepareUpdate: func(ctx context.Context, r, old rule) {
				// When the effect changes, time begins anew, unless the client sets it.
				if taint, before := &r.Spec.Taint, &old.Spec.Taint; taint.Effect != before.Effect && taint.TimeAdded.Equal(before.TimeAdded) {
					taint.TimeAdded = now()
				}
				parts.PrepareUpdate(ctx, r, old)
			},
			Validate:          func(r rule) field.ErrorList { return validateTaintRule(r, nil) },
			ValidateUpdate:    validateTaintRule,
			ConditionalUpdate: true,
		},
		Sub: registry.Subresources[rule]{Views: map[string]registry.View[rule]{"status": {
			PrepareUpdate: func(ctx context.Context, r, old rule) {
				parts.PrepareStatus(ctx, r, old)
				metav1.ResetObjectMetaForStatus(&r.ObjectMeta, old.ObjectMeta.DeepCopy())
			},
			ValidateUpdate: func(r, _ rule) field.ErrorList { return validateTaintRuleStatus(&r.Status) },
			Resets:         []string{"metadata", "spec"},
		}}},
	}.Kind()
}

// now is the time in the resolution of the API.
func now() *metav1.Time { return &metav1.Time{Time: time.Now().Truncate(time.Second)} }

func defaultTaint(t *resourcev1.DeviceTaint) {
	if t.TimeAdded == nil {
		t.TimeAdded = now()
	}
}

func validateTaintRule(r, old *resourcev1.DeviceTaintRule) field.ErrorList {
	p := field.NewPath("spec")
	var errs field.ErrorList
	if s, at := r.Spec.DeviceSelector, p.Child("deviceSelector"); s != nil {
		if s.Driver != nil {
			errs = append(errs, validateDriver(*s.Driver, at.Child("driver"))...)
		}
		if s.Pool != nil {
			errs = append(errs, validatePool(*s.Pool, at.Child("pool"))...)
		}
		if s.Device != nil {
			errs = append(errs, validateLabel(*s.Device, at.Child("device"))...)
		}
	}
	var before *resourcev1.DeviceTaint
	if old != nil {
		before = &old.Spec.Taint
	}
	errs = append(errs, validateTaint(&r.Spec.Taint, p.Child("taint"))...)
	return check.Declared(errs, declarations{}.taint(&r.Spec.Taint, before, p.Child("taint")))
}

func validateTaintRuleStatus(s *resourcev1.DeviceTaintRuleStatus) field.ErrorList {
	p := field.NewPath("status", "conditions")
	errs := metavalidation.ValidateConditions(s.Conditions, p)
	if n := len(s.Conditions); n > resourcev1.DeviceTaintRuleStatusMaxConditions {
		errs = append(errs, field.TooMany(p, n, resourcev1.DeviceTaintRuleStatusMaxConditions))
	}
	return errs
}

// effects are those of taints, in the order of messages.
func effects() []resourcev1.DeviceTaintEffect {
	return []resourcev1.DeviceTaintEffect{
		resourcev1.DeviceTaintEffectNoExecute, resourcev1.DeviceTaintEffectNoSchedule, resourcev1.DeviceTaintEffectNone,
	}
}

// validateTaint validates a taint but its effect, of which there is a declaration.
func validateTaint(t *resourcev1.DeviceTaint, p *field.Path) field.ErrorList {
	errs := metavalidation.ValidateLabelName(t.Key, p.Child("key"))
	if t.Value != "" {
		errs = append(errs, validateLabelValue(t.Value, p.Child("value"))...)
	}
	return errs
}

func validateToleration(t *resourcev1.DeviceToleration, p *field.Path) field.ErrorList {
	var errs field.ErrorList
	if t.Key != "" {
		errs = append(errs, metavalidation.ValidateLabelName(t.Key, p.Child("key")).MarkCoveredByDeclarative()...)
	}
	value := p.Child("value")
	switch t.Operator {
	case resourcev1.DeviceTolerationOpExists:
		if t.Value != "" {
			errs = append(errs, field.Invalid(value, t.Value, "must be empty for operator `Exists`"))
		}
	case resourcev1.DeviceTolerationOpEqual:
		errs = append(errs, validateLabelValue(t.Value, value)...)
	default:
		errs = append(errs, check.RequiredOneOf(p.Child("operator"), t.Operator, operators()...).MarkCoveredByDeclarative()...)
	}
	if t.Effect != "" {
		errs = append(errs, check.OneOf(p.Child("effect"), t.Effect, effects()...).MarkCoveredByDeclarative()...)
	}
	return errs
}

func operators() []resourcev1.DeviceTolerationOperator {
	return []resourcev1.DeviceTolerationOperator{resourcev1.DeviceTolerationOpEqual, resourcev1.DeviceTolerationOpExists}
}

func validateLabelValue(value string, p *field.Path) field.ErrorList {
	return check.Messages(p, value, validation.IsValidLabelValue(value))
}
