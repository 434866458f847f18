package resource

import (
	"context"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/podspec"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/internal/check"
)

type (
	claim         = *resourcev1.ResourceClaim
	claimTemplate = *resourcev1.ResourceClaimTemplate
)

func (r rules) claims() registry.Kind {
	parts := registry.Parts[claim]{
		Spec:      registry.PartOf(func(c claim) *resourcev1.ResourceClaimSpec { return &c.Spec }),
		Status:    registry.PartOf(func(c claim) *resourcev1.ResourceClaimStatus { return &c.Status }),
		Uncounted: true,
	}
	return registry.Definition[claim]{
		Names:        registry.Names{Kind: "ResourceClaim", Plural: "resourceclaims", Singular: "resourceclaim"},
		GroupVersion: resourcev1.SchemeGroupVersion,
		Older:        append(older(func() registry.Object { return &resourcev1.ResourceClaim{} }, "v1beta2"), claimsOfV1beta1()),
		Namespaced:   true,
		New:          func() claim { return &resourcev1.ResourceClaim{} },
		NewList:      func() runtime.Object { return &resourcev1.ResourceClaimList{} },
		Columns:      claimColumns(),
		Rules: registry.Rules[claim]{
			Default: defaultClaim,
			PrepareCreate: func(ctx context.Context, c claim) {
				parts.PrepareCreate(ctx, c)
				dropDerived(&c.Spec, nil)
			},
			PrepareUpdate: func(ctx context.Context, c, old claim) {
				dropDerived(&c.Spec, &old.Spec)
				parts.PrepareUpdate(ctx, c, old)
			},
			Validate: func(c claim) field.ErrorList {
				p := field.NewPath("spec")
				return check.Declared(r.validateSpec(&c.Spec, p), declarations{}.claim(&c.Spec.Devices, p.Child("devices")))
			},
			ValidateUpdate: func(c, old claim) field.ErrorList {
				if equality.Semantic.DeepEqual(c.Spec, old.Spec) {
					return nil
				}
				return field.ErrorList{field.Invalid(field.NewPath("spec"), nil, "field is immutable")}
			},
			Guard: func(ctx context.Context, c, old claim) error {
				if old != nil {
					return nil // the spec has not changed
				}
				return r.access.administer(ctx, claimNamed(c.Name), c.Namespace, requested(&c.Spec))
			},
			Deletion: registry.Deletion[claim]{ReturnsObject: true},
		},
		Sub: registry.Subresources[claim]{Views: map[string]registry.View[claim]{"status": {
			PrepareUpdate: func(ctx context.Context, c, old claim) {
				parts.PrepareStatus(ctx, c, old)
				metav1.ResetObjectMetaForStatus(&c.ObjectMeta, old.ObjectMeta.DeepCopy())
				dropSkipped(&c.Status, &old.Status)
				dropDeallocated(&c.Status, &old.Status)
			},
			ValidateUpdate: validateClaimStatus,
			Guard:          r.access.guardStatus,
			Resets:         []string{"metadata", "spec"},
		}}},
	}.Kind()
}

func (r rules) claimTemplates() registry.Kind {
	validate := func(t claimTemplate) (field.ErrorList, *field.Path) {
		p := field.NewPath("spec")
		errs := podspec.ValidateTemplateMetadata(&t.Spec.ObjectMeta, p.Child("metadata"))
		return append(errs, r.validateSpec(&t.Spec.Spec, p.Child("spec"))...), p.Child("spec", "devices")
	}
	return registry.Definition[claimTemplate]{
		Names:        registry.Names{Kind: "ResourceClaimTemplate", Plural: "resourceclaimtemplates", Singular: "resourceclaimtemplate"},
		GroupVersion: resourcev1.SchemeGroupVersion,
		Older:        append(older(func() registry.Object { return &resourcev1.ResourceClaimTemplate{} }, "v1beta2"), templatesOfV1beta1()),
		Namespaced:   true,
		New:          func() claimTemplate { return &resourcev1.ResourceClaimTemplate{} },
		NewList:      func() runtime.Object { return &resourcev1.ResourceClaimTemplateList{} },
		Columns:      nameAndAge[claimTemplate](),
		Rules: registry.Rules[claimTemplate]{
			Default:       func(t claimTemplate) { defaultSpec(&t.Spec.Spec) },
			PrepareCreate: func(_ context.Context, t claimTemplate) { dropDerived(&t.Spec.Spec, nil) },
			PrepareUpdate: func(_ context.Context, t, old claimTemplate) { dropDerived(&t.Spec.Spec, &old.Spec.Spec) },
			Validate: func(t claimTemplate) field.ErrorList {
				errs, devices := validate(t)
				return check.Declared(errs, declarations{}.claim(&t.Spec.Spec.Devices, devices))
			},
			ValidateUpdate: func(t, old claimTemplate) field.ErrorList {
				errs, devices := validate(t)
				errs = append(errs, check.ImmutableAs(field.NewPath("spec"), t.Spec, old.Spec, podspec.Shown(t.Spec))...)
				return check.Declared(errs, declarations{}.claimChange(&t.Spec.Spec.Devices, &old.Spec.Spec.Devices, devices))
			},
			Guard: func(ctx context.Context, t, old claimTemplate) error {
				if old != nil {
					return nil
				}
				n := named{resource: "resourceclaimtemplates", kind: "ResourceClaimTemplate", name: t.Name}
				return r.access.administer(ctx, n, t.Namespace, requested(&t.Spec.Spec))
			},
			Deletion: registry.Deletion[claimTemplate]{ReturnsObject: true},
		},
	}.Kind()
}

func defaultClaim(c claim) {
	defaultSpec(&c.Spec)
	if a := c.Status.Allocation; a != nil {
		for i := range a.Devices.Results {
			defaultTolerations(a.Devices.Results[i].Tolerations)
		}
	}
}

func defaultSpec(s *resourcev1.ResourceClaimSpec) {
	for i := range s.Devices.Requests {
		r := &s.Devices.Requests[i]
		if e := r.Exactly; e != nil {
			defaultCount(&e.AllocationMode, &e.Count)
			defaultTolerations(e.Tolerations)
		}
		for j := range r.FirstAvailable {
			sub := &r.FirstAvailable[j]
			defaultCount(&sub.AllocationMode, &sub.Count)
			defaultTolerations(sub.Tolerations)
		}
	}
}

func defaultCount(mode *resourcev1.DeviceAllocationMode, count *int64) {
	if *mode == "" {
		*mode = resourcev1.DeviceAllocationModeExactCount
	}
	if *mode == resourcev1.DeviceAllocationModeExactCount && *count == 0 {
		*count = 1
	}
}

func defaultTolerations(list []resourcev1.DeviceToleration) {
	for i := range list {
		if list[i].Operator == "" {
			list[i].Operator = resourcev1.DeviceTolerationOpEqual
		}
	}
}

// dropDerived drops derived attributes, a feature that is off by default, unless old has some.
func dropDerived(s, old *resourcev1.ResourceClaimSpec) {
	if old != nil && hasDerived(old) {
		return
	}
	for i := range s.Devices.Requests {
		r := &s.Devices.Requests[i]
		if r.Exactly != nil {
			r.Exactly.DerivedAttributes = nil
		}
		for j := range r.FirstAvailable {
			r.FirstAvailable[j].DerivedAttributes = nil
		}
	}
}

func hasDerived(s *resourcev1.ResourceClaimSpec) bool {
	for i := range s.Devices.Requests {
		r := &s.Devices.Requests[i]
		if r.Exactly != nil && len(r.Exactly.DerivedAttributes) > 0 {
			return true
		}
		for j := range r.FirstAvailable {
			if len(r.FirstAvailable[j].DerivedAttributes) > 0 {
				return true
			}
		}
	}
	return false
}

// dropSkipped drops the operations that nodes are to skip, a feature that is off by default, unless old has some.
func dropSkipped(s, old *resourcev1.ResourceClaimStatus) {
	if old.Allocation != nil {
		for _, r := range old.Allocation.Devices.Results {
			if len(r.SkipNodeOperations) > 0 {
				return
			}
		}
	}
	if s.Allocation != nil {
		for i := range s.Allocation.Devices.Results {
			s.Allocation.Devices.Results[i].SkipNodeOperations = nil
		}
	}
}

// dropDeallocated drops the state of devices that the update deallocates.
func dropDeallocated(s, old *resourcev1.ResourceClaimStatus) {
	before, now := allocated(old), allocated(s)
	var kept []resourcev1.AllocatedDeviceStatus
	for _, d := range s.Devices {
		if id := idOf(&d); now[id] || !before[id] {
			kept = append(kept, d)
		}
	}
	s.Devices = kept
}

// deviceID identifies an allocated device, or a share of one. Its encoding is what errors show.
type deviceID struct{ Driver, Pool, Device, ShareID string }

func idOf(d *resourcev1.AllocatedDeviceStatus) deviceID {
	id := deviceID{Driver: d.Driver, Pool: d.Pool, Device: d.Device}
	if d.ShareID != nil {
		id.ShareID = *d.ShareID
	}
	return id
}

// allocated returns the devices that are allocated.
func allocated(s *resourcev1.ResourceClaimStatus) map[deviceID]bool {
	all := map[deviceID]bool{}
	if s.Allocation == nil {
		return all
	}
	for _, r := range s.Allocation.Devices.Results {
		id := deviceID{Driver: r.Driver, Pool: r.Pool, Device: r.Device}
		if r.ShareID != nil {
			id.ShareID = string(*r.ShareID)
		}
		all[id] = true
	}
	return all
}
