package resource

import (
	"context"
	"fmt"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/registry"
)

type slice = *resourcev1.ResourceSlice

func resourceSlices() registry.Kind {
	parts := registry.Parts[slice]{Spec: registry.PartOf(func(s slice) *resourcev1.ResourceSliceSpec { return &s.Spec })}
	return registry.Definition[slice]{
		Names:        registry.Names{Kind: "ResourceSlice", Plural: "resourceslices", Singular: "resourceslice"},
		GroupVersion: resourcev1.SchemeGroupVersion,
		Older:        append(older(func() registry.Object { return &resourcev1.ResourceSlice{} }, "v1beta2"), slicesOfV1beta1()),
		New:          func() slice { return &resourcev1.ResourceSlice{} },
		NewList:      func() runtime.Object { return &resourcev1.ResourceSliceList{} },
		Columns:      sliceColumns(),
		Fields: func(s slice) fields.Set {
			node := ""
			if s.Spec.NodeName != nil {
				node = *s.Spec.NodeName
			}
			return fields.Set{
				resourcev1.ResourceSliceSelectorNodeName: node,
				resourcev1.ResourceSliceSelectorDriver:   s.Spec.Driver,
				resourcev1.ResourceSliceSelectorPoolName: s.Spec.Pool.Name,
			}
		},
		Rules: registry.Rules[slice]{
			Default: func(s slice) {
				for i := range s.Spec.Devices {
					for j := range s.Spec.Devices[i].Taints {
						defaultTaint(&s.Spec.Devices[i].Taints[j])
					}
				}
			},
			PrepareCreate: func(ctx context.Context, s slice) {
				parts.PrepareCreate(ctx, s)
				dropUnsupported(&s.Spec, &resourcev1.ResourceSliceSpec{})
			},
			PrepareUpdate: func(ctx context.Context, s, old slice) {
				parts.PrepareUpdate(ctx, s, old) // upstream counts changes of what it drops, too
				dropUnsupported(&s.Spec, &old.Spec)
			},
			Validate:       func(s slice) field.ErrorList { return validateSlice(&s.Spec, nil) },
			ValidateUpdate: func(s, old slice) field.ErrorList { return validateSlice(&s.Spec, &old.Spec) },
			Guard: func(ctx context.Context, s, _ slice) error {
				if driver := s.Spec.Driver; driver != strings.ToLower(driver) {
					registry.Warn(ctx, fmt.Sprintf("spec.driver: driver names should be lowercase; %q contains uppercase characters", driver))
				}
				return nil
			},
			Deletion: registry.Deletion[slice]{ReturnsObject: true},
		},
	}.Kind()
}

// dropUnsupported drops fields of features that are off by default, unless old has some of the same feature.
func dropUnsupported(s, old *resourcev1.ResourceSliceSpec) {
	if !some(old, func(d *resourcev1.Device) bool { return len(groups(d)) > 0 }) {
		each(s, func(d *resourcev1.Device) {
			for i := range d.ConsumesCounters {
				d.ConsumesCounters[i].CompatibilityGroups = nil
			}
		})
	}
	if !some(old, func(d *resourcev1.Device) bool { return len(d.NodeAllocatableResources) > 0 }) {
		each(s, func(d *resourcev1.Device) { d.NodeAllocatableResources = nil })
	}
	if !some(old, hasLists) {
		each(s, func(d *resourcev1.Device) {
			for name, a := range d.Attributes {
				a.IntValues, a.BoolValues, a.StringValues, a.VersionValues = nil, nil, nil, nil
				d.Attributes[name] = a
			}
		})
	}
	if old.PartitionTypeAttribute == nil {
		s.PartitionTypeAttribute = nil
	}
	if len(old.SkipNodeOperations) == 0 {
		s.SkipNodeOperations = nil
	}
}

func some(s *resourcev1.ResourceSliceSpec, is func(*resourcev1.Device) bool) bool {
	for i := range s.Devices {
		if is(&s.Devices[i]) {
			return true
		}
	}
	return false
}

func each(s *resourcev1.ResourceSliceSpec, do func(*resourcev1.Device)) {
	for i := range s.Devices {
		do(&s.Devices[i])
	}
}

func groups(d *resourcev1.Device) []string {
	var all []string
	for i := range d.ConsumesCounters {
		all = append(all, d.ConsumesCounters[i].CompatibilityGroups...)
	}
	return all
}

// hasLists reports whether a device has attributes with several values.
func hasLists(d *resourcev1.Device) bool {
	for _, a := range d.Attributes {
		if a.BoolValues != nil || a.IntValues != nil || a.StringValues != nil || a.VersionValues != nil {
			return true
		}
	}
	return false
}
