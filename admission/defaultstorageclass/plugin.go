package defaultstorageclass

import (
	"cmp"
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/admission"
)

// Name is the plugin's name.
const Name = "DefaultStorageClass"

// Classes is the cache that the plugin reads.
type Classes interface {
	// List returns all classes; the argument is empty. They are shared and must not be changed.
	List(namespace string) []*storagev1.StorageClass
}

// Plugin is the admission plugin. Make one with New.
type Plugin struct{ classes Classes }

var _ admission.Mutator = (*Plugin)(nil)

// New returns the plugin.
func New(classes Classes) *Plugin { return &Plugin{classes} }

// Name implements admission.Plugin.
func (*Plugin) Name() string { return Name }

// Handles implements admission.Plugin.
func (*Plugin) Handles(op admission.Operation) bool { return op == admission.Create }

// Admit implements admission.Mutator.
func (p *Plugin) Admit(_ context.Context, r *admission.Request) error {
	if r.Resource.GroupResource() != (schema.GroupResource{Resource: "persistentvolumeclaims"}) || r.Subresource != "" {
		return nil
	}
	claim, ok := r.Object.(*corev1.PersistentVolumeClaim)
	if !ok || claim.Spec.StorageClassName != nil {
		return nil
	}
	if _, has := claim.Annotations[corev1.BetaStorageClassAnnotation]; has {
		return nil
	}
	if name := defaultName(p.classes.List("")); name != "" {
		claim.Spec.StorageClassName = &name
	}
	return nil
}

// defaultName returns the name of the default class, or nothing if there is none.
func defaultName(classes []*storagev1.StorageClass) string {
	marked := slices.DeleteFunc(slices.Clone(classes), func(class *storagev1.StorageClass) bool {
		return class.Annotations["storageclass.kubernetes.io/is-default-class"] != "true" &&
			class.Annotations["storageclass.beta.kubernetes.io/is-default-class"] != "true"
	})
	if len(marked) == 0 {
		return ""
	}
	return slices.MinFunc(marked, func(a, b *storagev1.StorageClass) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	}).Name
}
