package storageobjectinuseprotection

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/keelson-dev/keelson/admission"
)

// Name is the plugin's name.
const Name = "StorageObjectInUseProtection"

// The finalizers of volumes, of claims and of VolumeAttributesClasses.
const (
	VolumeFinalizer = "kubernetes.io/pv-protection"
	ClaimFinalizer  = "kubernetes.io/pvc-protection"
	ClassFinalizer  = "kubernetes.io/vac-protection"
)

// Plugin is the admission plugin. Make one with New.
type Plugin struct{}

var _ admission.Mutator = (*Plugin)(nil)

// New returns the plugin.
func New() *Plugin { return &Plugin{} }

// Name implements admission.Plugin.
func (*Plugin) Name() string { return Name }

// Handles implements admission.Plugin.
func (*Plugin) Handles(op admission.Operation) bool { return op == admission.Create }

// Admit implements admission.Mutator.
func (*Plugin) Admit(_ context.Context, r *admission.Request) error {
	if r.Subresource != "" {
		return nil
	}
	switch obj := r.Object.(type) {
	case *corev1.PersistentVolume:
		protect(&obj.Finalizers, VolumeFinalizer)
	case *corev1.PersistentVolumeClaim:
		protect(&obj.Finalizers, ClaimFinalizer)
	case *storagev1.VolumeAttributesClass:
		protect(&obj.Finalizers, ClassFinalizer)
	}
	return nil
}

func protect(finalizers *[]string, name string) {
	if !slices.Contains(*finalizers, name) {
		*finalizers = append(*finalizers, name)
	}
}
