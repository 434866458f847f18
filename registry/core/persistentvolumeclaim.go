package core

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/podspec"
	"github.com/keelson-dev/keelson/registry"
)

func persistentVolumeClaims() registry.Kind {
	parts := registry.Parts[*corev1.PersistentVolumeClaim]{
		Spec:      registry.PartOf(func(c *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaimSpec { return &c.Spec }),
		Status:    registry.PartOf(func(c *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaimStatus { return &c.Status }),
		Uncounted: true,
	}
	return registry.Definition[*corev1.PersistentVolumeClaim]{
		Names: registry.Names{
			Kind: "PersistentVolumeClaim", Plural: "persistentvolumeclaims", Singular: "persistentvolumeclaim", Short: []string{"pvc"},
		},
		GroupVersion: corev1.SchemeGroupVersion,
		Namespaced:   true,
		New:          func() *corev1.PersistentVolumeClaim { return &corev1.PersistentVolumeClaim{} },
		NewList:      func() runtime.Object { return &corev1.PersistentVolumeClaimList{} },
		Rules: registry.Rules[*corev1.PersistentVolumeClaim]{
			Default: podspec.DefaultClaim,
			Reading: registry.Reading[*corev1.PersistentVolumeClaim]{
				Restore: func(claim *corev1.PersistentVolumeClaim) { pairDataSources(&claim.Spec) },
			},
			PrepareCreate: func(ctx context.Context, claim *corev1.PersistentVolumeClaim) {
				claim.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}
				prepareDataSources(&claim.Spec, &corev1.PersistentVolumeClaimSpec{})
				warnClaim(ctx, claim)
			},
			PrepareUpdate: func(ctx context.Context, claim, old *corev1.PersistentVolumeClaim) {
				parts.PrepareUpdate(ctx, claim, old)
				prepareDataSources(&claim.Spec, &old.Spec)
				warnClaim(ctx, claim)
			},
			Validate:       podspec.ValidateClaim,
			ValidateUpdate: podspec.ValidateClaimUpdate,
			Deletion:       registry.Deletion[*corev1.PersistentVolumeClaim]{ReturnsObject: true},
		},
		Sub: registry.Subresources[*corev1.PersistentVolumeClaim]{Views: map[string]registry.View[*corev1.PersistentVolumeClaim]{"status": {
			PrepareUpdate: func(ctx context.Context, claim, old *corev1.PersistentVolumeClaim) {
				parts.PrepareStatus(ctx, claim, old)
				if old.Status.HealthStatus == nil { // CSIVolumeHealth is off by default
					claim.Status.HealthStatus = nil
				}
			},
			ValidateUpdate: podspec.ValidateClaimStatusUpdate,
		}}},
		Columns: claimColumns(),
	}.Kind()
}

// prepareDataSources drops data sources of other namespaces, whose feature is off by default, and those that the field
// dataSource has always ignored: anything but claims and snapshots (KEP-1495). What the old spec has, stays.
func prepareDataSources(spec, old *corev1.PersistentVolumeClaimSpec) {
	if ref := spec.DataSourceRef; ref != nil && ref.Namespace != nil && *ref.Namespace != "" && old.DataSourceRef == nil {
		spec.DataSourceRef = nil
	}
	if old.DataSource == nil && old.DataSourceRef == nil && spec.DataSourceRef == nil && !copyable(spec.DataSource) {
		spec.DataSource = nil
	}
	pairDataSources(spec)
}

func copyable(source *corev1.TypedLocalObjectReference) bool {
	if source == nil {
		return false
	}
	group := ""
	if source.APIGroup != nil {
		group = *source.APIGroup
	}
	return source.Kind == "PersistentVolumeClaim" && group == "" ||
		source.Kind == "VolumeSnapshot" && group == "snapshot.storage.k8s.io"
}

// pairDataSources fills the one of the two fields that is not set.
func pairDataSources(spec *corev1.PersistentVolumeClaimSpec) {
	clone := func(group *string) *string {
		if group == nil {
			return nil
		}
		return new(*group)
	}
	source, ref := spec.DataSource, spec.DataSourceRef
	switch {
	case source != nil && ref == nil:
		spec.DataSourceRef = &corev1.TypedObjectReference{APIGroup: clone(source.APIGroup), Kind: source.Kind, Name: source.Name}
	case source == nil && ref != nil && (ref.Namespace == nil || *ref.Namespace == ""):
		spec.DataSource = &corev1.TypedLocalObjectReference{APIGroup: clone(ref.APIGroup), Kind: ref.Kind, Name: ref.Name}
	}
}

func warnClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim) {
	if _, used := claim.Annotations[corev1.BetaStorageClassAnnotation]; used {
		registry.Warn(ctx, fmt.Sprintf(`metadata.annotations[%s]: deprecated since v1.8; use "storageClassName" attribute instead`, corev1.BetaStorageClassAnnotation))
	}
	resources := &claim.Spec.Resources
	warnFraction(ctx, "requests", resources.Requests[corev1.ResourceStorage])
	warnFraction(ctx, "limits", resources.Limits[corev1.ResourceStorage])
}

func warnFraction(ctx context.Context, list string, q resource.Quantity) {
	if q.MilliValue()%1000 != 0 {
		registry.Warn(ctx, fmt.Sprintf("spec.resources.%s[storage]: fractional byte value %q is invalid, must be an integer", list, q.String()))
	}
}
