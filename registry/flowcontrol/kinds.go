package flowcontrol

import (
	"context"
	"encoding/json"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/api/flowcontrol/v1beta1"
	"k8s.io/api/flowcontrol/v1beta2"
	"k8s.io/api/flowcontrol/v1beta3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/registry"
)

type (
	flowSchema    = *flowcontrolv1.FlowSchema
	priorityLevel = *flowcontrolv1.PriorityLevelConfiguration
)

// Kinds returns the kinds of the group in discovery order.
func Kinds() []registry.Kind { return []registry.Kind{flowSchemas(), priorityLevels()} }

func flowSchemas() registry.Kind {
	parts := registry.Parts[flowSchema]{
		Spec:   registry.PartOf(func(s flowSchema) *flowcontrolv1.FlowSchemaSpec { return &s.Spec }),
		Status: registry.PartOf(func(s flowSchema) *flowcontrolv1.FlowSchemaStatus { return &s.Status }),
	}
	return registry.Definition[flowSchema]{
		Names:        registry.Names{Kind: "FlowSchema", Plural: "flowschemas", Singular: "flowschema"},
		GroupVersion: flowcontrolv1.SchemeGroupVersion,
		Older:        olderSchemas(),
		New:          func() flowSchema { return &flowcontrolv1.FlowSchema{} },
		NewList:      func() runtime.Object { return &flowcontrolv1.FlowSchemaList{} },
		Columns:      schemaColumns(),
		Rules: registry.Rules[flowSchema]{
			Default:        DefaultFlowSchema,
			PrepareCreate:  parts.PrepareCreate,
			PrepareUpdate:  parts.PrepareUpdate,
			Validate:       validateSchema,
			ValidateUpdate: func(s, _ flowSchema) field.ErrorList { return validateSchema(s) },
		},
		Sub: registry.Subresources[flowSchema]{Views: map[string]registry.View[flowSchema]{"status": {
			PrepareUpdate: func(ctx context.Context, s, old flowSchema) {
				parts.PrepareStatus(ctx, s, old)
				keepMetadata(&s.ObjectMeta, &old.ObjectMeta)
			},
			ValidateUpdate: func(s, _ flowSchema) field.ErrorList { return validateSchemaStatus(&s.Status) },
			Resets:         []string{"metadata", "spec"},
		}}},
	}.Kind()
}

func priorityLevels() registry.Kind {
	parts := registry.Parts[priorityLevel]{
		Spec:   registry.PartOf(func(l priorityLevel) *flowcontrolv1.PriorityLevelConfigurationSpec { return &l.Spec }),
		Status: registry.PartOf(func(l priorityLevel) *flowcontrolv1.PriorityLevelConfigurationStatus { return &l.Status }),
	}
	return registry.Definition[priorityLevel]{
		Names: registry.Names{
			Kind: "PriorityLevelConfiguration", Plural: "prioritylevelconfigurations", Singular: "prioritylevelconfiguration",
		},
		GroupVersion: flowcontrolv1.SchemeGroupVersion,
		Older:        olderLevels(),
		New:          func() priorityLevel { return &flowcontrolv1.PriorityLevelConfiguration{} },
		NewList:      func() runtime.Object { return &flowcontrolv1.PriorityLevelConfigurationList{} },
		Columns:      levelColumns(),
		Rules: registry.Rules[priorityLevel]{
			Default:        DefaultPriorityLevel,
			PrepareCreate:  parts.PrepareCreate,
			PrepareUpdate:  parts.PrepareUpdate,
			Validate:       func(l priorityLevel) field.ErrorList { return validateLevel(l, nil) },
			ValidateUpdate: validateLevel,
		},
		Sub: registry.Subresources[priorityLevel]{Views: map[string]registry.View[priorityLevel]{"status": {
			PrepareUpdate: func(ctx context.Context, l, old priorityLevel) {
				parts.PrepareStatus(ctx, l, old)
				keepMetadata(&l.ObjectMeta, &old.ObjectMeta)
			},
			ValidateUpdate: func(l, _ priorityLevel) field.ErrorList { return validateLevelStatus(&l.Status) },
			Resets:         []string{"metadata", "spec"},
		}}},
	}.Kind()
}

// keepMetadata restores all metadata but what tells who owns which fields.
func keepMetadata(meta, old *metav1.ObjectMeta) {
	owners := meta.ManagedFields
	old.DeepCopyInto(meta)
	meta.ManagedFields = owners
}

// DefaultFlowSchema fills unset fields with upstream's defaults.
func DefaultFlowSchema(s *flowcontrolv1.FlowSchema) {
	if s.Spec.MatchingPrecedence == 0 {
		s.Spec.MatchingPrecedence = 1000
	}
}

// DefaultPriorityLevel fills unset fields with upstream's defaults.
func DefaultPriorityLevel(l *flowcontrolv1.PriorityLevelConfiguration) {
	fill := func(at **int32, value int32) {
		if *at == nil {
			*at = new(value)
		}
	}
	if e := l.Spec.Exempt; e != nil {
		fill(&e.NominalConcurrencyShares, 0)
		fill(&e.LendablePercent, 0)
	}
	limited := l.Spec.Limited
	if limited == nil {
		return
	}
	fill(&limited.NominalConcurrencyShares, 30)
	fill(&limited.LendablePercent, 0)
	if q := limited.LimitResponse.Queuing; q != nil {
		for _, f := range []struct {
			at    *int32
			value int32
		}{{&q.HandSize, 8}, {&q.Queues, 64}, {&q.QueueLengthLimit, 50}} {
			if *f.at == 0 {
				*f.at = f.value
			}
		}
	}
}

// olderSchemas returns the versions of before v1, which have its fields.
func olderSchemas() []registry.Older {
	var out []registry.Older
	for _, version := range []string{"v1beta3", "v1beta2", "v1beta1"} {
		out = append(out, registry.Older{
			GroupVersion: schema.GroupVersion{Group: flowcontrolv1.GroupName, Version: version},
			New:          func() runtime.Object { return &flowcontrolv1.FlowSchema{} },
			ToStored:     func(obj runtime.Object) registry.Object { return obj.(registry.Object) },
		})
	}
	return out
}

// olderLevels returns the versions of before v1, whose shares of 0 meant the default, unless v1beta3 had an annotation.
func olderLevels() []registry.Older {
	shares := func(n int32) *int32 {
		if n == 0 {
			return nil
		}
		return &n
	}
	older := func(gv schema.GroupVersion, empty func() runtime.Object, from func(runtime.Object, priorityLevel)) registry.Older {
		return registry.Older{GroupVersion: gv, New: empty, ToStored: func(obj runtime.Object) registry.Object {
			out := &flowcontrolv1.PriorityLevelConfiguration{}
			again(obj, out)
			from(obj, out)
			return out
		}}
	}
	return []registry.Older{
		older(v1beta3.SchemeGroupVersion, func() runtime.Object { return &v1beta3.PriorityLevelConfiguration{} }, func(obj runtime.Object, out priorityLevel) {
			_, zero := out.Annotations[v1beta3.PriorityLevelPreserveZeroConcurrencySharesKey]
			delete(out.Annotations, v1beta3.PriorityLevelPreserveZeroConcurrencySharesKey)
			if old := obj.(*v1beta3.PriorityLevelConfiguration).Spec.Limited; old != nil && !zero {
				out.Spec.Limited.NominalConcurrencyShares = shares(old.NominalConcurrencyShares)
			}
		}),
		older(v1beta2.SchemeGroupVersion, func() runtime.Object { return &v1beta2.PriorityLevelConfiguration{} }, func(obj runtime.Object, out priorityLevel) {
			if old := obj.(*v1beta2.PriorityLevelConfiguration).Spec.Limited; old != nil {
				out.Spec.Limited.NominalConcurrencyShares = shares(old.AssuredConcurrencyShares)
			}
		}),
		older(v1beta1.SchemeGroupVersion, func() runtime.Object { return &v1beta1.PriorityLevelConfiguration{} }, func(obj runtime.Object, out priorityLevel) {
			if old := obj.(*v1beta1.PriorityLevelConfiguration).Spec.Limited; old != nil {
				out.Spec.Limited.NominalConcurrencyShares = shares(old.AssuredConcurrencyShares)
			}
		}),
	}
}

// again reads the JSON of one type as another that has most of its fields.
func again(from, into any) {
	if data, err := json.Marshal(from); err == nil {
		_ = json.Unmarshal(data, into)
	}
}
