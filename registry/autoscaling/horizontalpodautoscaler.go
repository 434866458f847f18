package autoscaling

import (
	"context"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/registry"
)

func horizontalPodAutoscalers() registry.Kind {
	names := registry.Names{
		Kind: "HorizontalPodAutoscaler", Plural: "horizontalpodautoscalers", Singular: "horizontalpodautoscaler",
		Short: []string{"hpa"}, Categories: []string{"all"},
	}
	parts := registry.Parts[*autoscalingv2.HorizontalPodAutoscaler]{
		Spec: registry.PartOf(func(a *autoscalingv2.HorizontalPodAutoscaler) *autoscalingv2.HorizontalPodAutoscalerSpec {
			return &a.Spec
		}),
		Status: registry.PartOf(func(a *autoscalingv2.HorizontalPodAutoscaler) *autoscalingv2.HorizontalPodAutoscalerStatus {
			return &a.Status
		}),
	}
	k := registry.Definition[*autoscalingv2.HorizontalPodAutoscaler]{
		Names:        names,
		GroupVersion: autoscalingv2.SchemeGroupVersion,
		Namespaced:   true,
		New:          func() *autoscalingv2.HorizontalPodAutoscaler { return &autoscalingv2.HorizontalPodAutoscaler{} },
		NewList:      func() runtime.Object { return &autoscalingv2.HorizontalPodAutoscalerList{} },
		Rules: registry.Rules[*autoscalingv2.HorizontalPodAutoscaler]{
			Default:        setDefaults,
			PrepareCreate:  parts.PrepareCreate,
			PrepareUpdate:  parts.PrepareUpdate,
			Validate:       func(a *autoscalingv2.HorizontalPodAutoscaler) field.ErrorList { return validate(a, nil) },
			ValidateUpdate: validate,
			Store:          setDefaults, // those of what was sent in v1
		},
		Sub: registry.Subresources[*autoscalingv2.HorizontalPodAutoscaler]{
			Views: map[string]registry.View[*autoscalingv2.HorizontalPodAutoscaler]{"status": {
				PrepareUpdate:  parts.PrepareStatus,
				ValidateUpdate: validateStatus,
				Resets:         []string{"spec"},
			}},
		},
		Also: []registry.Version{{
			Names:        names,
			GroupVersion: autoscalingv1.SchemeGroupVersion,
			New:          func() registry.Object { return &autoscalingv1.HorizontalPodAutoscaler{} },
			NewList:      func() runtime.Object { return &autoscalingv1.HorizontalPodAutoscalerList{} },
			FromStored: func(_ context.Context, obj registry.Object) (registry.Object, error) {
				return toV1(obj.(*autoscalingv2.HorizontalPodAutoscaler))
			},
			ToStored: func(_ context.Context, obj registry.Object) (registry.Object, error) {
				return fromV1(obj.(*autoscalingv1.HorizontalPodAutoscaler)), nil
			},
		}},
		Columns: columns(),
	}.Kind()
	v1 := k.Rules
	v1.Default = func(obj registry.Object) { defaultMinimum(&obj.(*autoscalingv2.HorizontalPodAutoscaler).Spec) }
	k.Also[0].Rules = &v1
	return k
}
