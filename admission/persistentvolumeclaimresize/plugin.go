package persistentvolumeclaimresize

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/keelson-dev/keelson/admission"
)

// Name is the plugin's name.
const Name = "PersistentVolumeClaimResize"

// Classes is the cache that the plugin reads; an informer of StorageClasses is one.
type Classes interface {
	// Get returns the class of that name; the first argument is empty.
	Get(namespace, name string) (*storagev1.StorageClass, bool)
}

// Plugin is the admission plugin. Make one with New.
type Plugin struct{ classes Classes }

var _ admission.Validator = (*Plugin)(nil)

// New returns the plugin.
func New(classes Classes) *Plugin { return &Plugin{classes} }

// Name implements admission.Plugin.
func (*Plugin) Name() string { return Name }

// Handles implements admission.Plugin.
func (*Plugin) Handles(op admission.Operation) bool { return op == admission.Update }

// Validate implements admission.Validator.
func (p *Plugin) Validate(_ context.Context, r *admission.Request) error {
	claim, ok := r.Object.(*corev1.PersistentVolumeClaim)
	old, had := r.OldObject.(*corev1.PersistentVolumeClaim)
	if r.Subresource != "" || !ok || !had {
		return nil
	}
	before, now := old.Spec.Resources.Requests[corev1.ResourceStorage], claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if now.Cmp(before) <= 0 {
		return nil
	}
	switch {
	case old.Status.Phase != corev1.ClaimBound:
		return admission.Forbidden(r, "Only bound persistent volume claims can be expanded")
	case !p.expands(claim, old):
		return admission.Forbidden(r, "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize")
	}
	return nil
}

// expands reports whether a claim has kept its class, which allows volumes to grow.
func (p *Plugin) expands(claim, old *corev1.PersistentVolumeClaim) bool {
	name := classOf(claim)
	if name != classOf(old) {
		return false
	}
	class, ok := p.classes.Get("", name) // none is named ""
	return ok && class.AllowVolumeExpansion != nil && *class.AllowVolumeExpansion
}

// classOf returns a claim's class; the annotation of old clients has precedence.
func classOf(claim *corev1.PersistentVolumeClaim) string {
	if class, found := claim.Annotations[corev1.BetaStorageClassAnnotation]; found {
		return class
	}
	if claim.Spec.StorageClassName == nil {
		return ""
	}
	return *claim.Spec.StorageClassName
}
