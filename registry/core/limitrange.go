package core

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/registry"
)

// limitRanges has no columns of its own, as upstream.
func limitRanges() registry.Kind {
	return registry.Definition[*corev1.LimitRange]{
		Names: registry.Names{
			Kind: "LimitRange", Plural: "limitranges", Singular: "limitrange", Short: []string{"limits"},
		},
		GroupVersion: corev1.SchemeGroupVersion,
		Namespaced:   true,
		New:          func() *corev1.LimitRange { return &corev1.LimitRange{} },
		NewList:      func() runtime.Object { return &corev1.LimitRangeList{} },
		Rules: registry.Rules[*corev1.LimitRange]{
			Default: func(r *corev1.LimitRange) {
				for i := range r.Spec.Limits {
					defaultLimits(&r.Spec.Limits[i])
				}
			},
			PrepareCreate: func(_ context.Context, r *corev1.LimitRange) {
				if r.Name == "" {
					r.Name = string(uuid.NewUUID())
				}
			},
			Validate:       validateLimitRange,
			ValidateUpdate: func(r, _ *corev1.LimitRange) field.ErrorList { return validateLimitRange(r) },
			CreateOnUpdate: true,
		},
	}.Kind()
}

// defaultLimits completes the defaults for containers: a limit is the maximum, a request the limit, or else the minimum.
func defaultLimits(item *corev1.LimitRangeItem) {
	if item.Type == corev1.LimitTypeContainer {
		if item.Default == nil {
			item.Default = corev1.ResourceList{}
		}
		if item.DefaultRequest == nil {
			item.DefaultRequest = corev1.ResourceList{}
		}
		fill(item.Default, item.Max)
		fill(item.DefaultRequest, item.Default)
		fill(item.DefaultRequest, item.Min)
	}
	for _, list := range []corev1.ResourceList{item.Max, item.Min, item.Default, item.DefaultRequest, item.MaxLimitRequestRatio} {
		roundUp(list)
	}
}

// fill adds to a list what it lacks of another.
func fill(list, from corev1.ResourceList) {
	for name, quantity := range from {
		if _, ok := list[name]; !ok {
			list[name] = quantity.DeepCopy()
		}
	}
}
