package storage

import (
	"context"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/internal/check"
)

const (
	// minUpdatePeriod is the shortest period for updating what is allocatable, in seconds.
	minUpdatePeriod = 10
	// minExpiration and maxExpiration limit how long a token is valid, in seconds.
	minExpiration, maxExpiration = 600, 1 << 32
)

func csiDrivers() registry.Kind {
	parts := registry.Parts[*storagev1.CSIDriver]{
		Spec: registry.PartOf(func(d *storagev1.CSIDriver) *storagev1.CSIDriverSpec { return &d.Spec }),
	}
	return registry.Definition[*storagev1.CSIDriver]{
		Names:        registry.Names{Kind: "CSIDriver", Plural: "csidrivers", Singular: "csidriver"},
		GroupVersion: storagev1.SchemeGroupVersion,
		Older:        older(func() registry.Object { return &storagev1.CSIDriver{} }, "v1beta1"),
		New:          func() *storagev1.CSIDriver { return &storagev1.CSIDriver{} },
		NewList:      func() runtime.Object { return &storagev1.CSIDriverList{} },
		Columns:      csiDriverColumns(),
		Rules: registry.Rules[*storagev1.CSIDriver]{
			Default:       func(d *storagev1.CSIDriver) { defaultDriver(&d.Spec) },
			PrepareUpdate: parts.PrepareUpdate, // a new driver has no generation
			Validate: func(d *storagev1.CSIDriver) field.ErrorList {
				return validateDriverSpec(&d.Spec, field.NewPath("spec"))
			},
			ValidateUpdate: func(d, old *storagev1.CSIDriver) field.ErrorList {
				path := field.NewPath("spec")
				errs := validateDriverSpec(&d.Spec, path)
				errs = append(errs, check.Immutable(path.Child("attachedRequired"), d.Spec.AttachRequired, old.Spec.AttachRequired)...)
				return append(errs, check.Immutable(path.Child("volumeLifecycleModes"), d.Spec.VolumeLifecycleModes, old.Spec.VolumeLifecycleModes)...)
			},
			Guard:             warnTokens,
			ConditionalUpdate: true,
			Deletion:          registry.Deletion[*storagev1.CSIDriver]{ReturnsObject: true},
		},
	}.Kind()
}

func defaultDriver(spec *storagev1.CSIDriverSpec) {
	unset := func(value **bool, to bool) {
		if *value == nil {
			*value = &to
		}
	}
	unset(&spec.AttachRequired, true)
	unset(&spec.PodInfoOnMount, false)
	unset(&spec.StorageCapacity, false)
	unset(&spec.RequiresRepublish, false)
	unset(&spec.SELinuxMount, false)
	unset(&spec.PreventPodSchedulingIfMissing, false)
	if spec.FSGroupPolicy == nil {
		spec.FSGroupPolicy = new(storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy)
	}
	if len(spec.VolumeLifecycleModes) == 0 {
		spec.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent}
	}
}

// warnTokens warns of tokens in volume attributes, which drivers may log, when they are asked for.
func warnTokens(ctx context.Context, d, old *storagev1.CSIDriver) error {
	asks := len(d.Spec.TokenRequests) > 0 && d.Spec.ServiceAccountTokenInSecrets == nil
	if asks && (old == nil || !equality.Semantic.DeepEqual(d.Spec.TokenRequests, old.Spec.TokenRequests)) {
		registry.Warn(ctx, "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, "+
			"set to true to prevent possible logging of tokens in volume attributes")
	}
	return nil
}

func validateDriverSpec(spec *storagev1.CSIDriverSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	require := func(name string, value *bool) {
		if value == nil {
			errs = append(errs, field.Required(path.Child(name), ""))
		}
	}
	require("attachedRequired", spec.AttachRequired) // upstream's name in errors
	require("podInfoOnMount", spec.PodInfoOnMount)
	require("storageCapacity", spec.StorageCapacity)
	if policy := spec.FSGroupPolicy; policy != nil {
		errs = append(errs, check.OneOf(path.Child("fsGroupPolicy"), *policy,
			storagev1.FileFSGroupPolicy, storagev1.NoneFSGroupPolicy, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy)...)
	}
	errs = append(errs, validateTokens(path.Child("tokenRequests"), spec.TokenRequests)...)
	for _, mode := range spec.VolumeLifecycleModes {
		errs = append(errs, check.OneOf(path.Child("volumeLifecycleModes"), mode,
			storagev1.VolumeLifecyclePersistent, storagev1.VolumeLifecycleEphemeral)...)
	}
	require("seLinuxMount", spec.SELinuxMount)
	if period := spec.NodeAllocatableUpdatePeriodSeconds; period != nil && *period < minUpdatePeriod {
		errs = append(errs, field.Invalid(path.Child("nodeAllocatableUpdatePeriodSeconds"), *period,
			"must be greater than or equal to 10 seconds"))
	}
	if spec.ServiceAccountTokenInSecrets != nil && len(spec.TokenRequests) == 0 {
		errs = append(errs, field.Invalid(path.Child("serviceAccountTokenInSecrets"), spec.ServiceAccountTokenInSecrets,
			"serviceAccountTokenInSecrets is set but no tokenRequests are specified"))
	}
	require("preventPodSchedulingIfMissing", spec.PreventPodSchedulingIfMissing)
	return errs
}

// validateTokens requires tokens for different audiences.
func validateTokens(path *field.Path, requests []storagev1.TokenRequest) field.ErrorList {
	var errs field.ErrorList
	audiences := map[string]bool{}
	for i, request := range requests {
		path := path.Index(i)
		if audiences[request.Audience] {
			errs = append(errs, field.Duplicate(path.Child("audience"), request.Audience))
			continue
		}
		audiences[request.Audience] = true
		expiration := path.Child("expirationSeconds")
		switch seconds := request.ExpirationSeconds; {
		case seconds == nil:
		case *seconds < minExpiration:
			errs = append(errs, field.Invalid(expiration, *seconds, "may not specify a duration less than 10 minutes"))
		case *seconds > maxExpiration:
			errs = append(errs, field.Invalid(expiration, *seconds, "may not specify a duration larger than 2^32 seconds"))
		}
	}
	return errs
}
