package storage

import (
	"context"
	"math"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/podspec"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/internal/check"
)

const (
	// maxAttachmentBytes is the maximum length of the metadata of an attachment.
	maxAttachmentBytes = 256 << 10
	// maxVolumeError is the maximum length of the message of an error, in bytes.
	maxVolumeError = 1024
)

func volumeAttachments() registry.Kind {
	parts := registry.Parts[*storagev1.VolumeAttachment]{
		Spec:      registry.PartOf(func(a *storagev1.VolumeAttachment) *storagev1.VolumeAttachmentSpec { return &a.Spec }),
		Status:    registry.PartOf(func(a *storagev1.VolumeAttachment) *storagev1.VolumeAttachmentStatus { return &a.Status }),
		Uncounted: true,
	}
	return registry.Definition[*storagev1.VolumeAttachment]{
		Names:        registry.Names{Kind: "VolumeAttachment", Plural: "volumeattachments", Singular: "volumeattachment"},
		GroupVersion: storagev1.SchemeGroupVersion,
		Older:        older(func() registry.Object { return &storagev1.VolumeAttachment{} }, "v1beta1", "v1alpha1"),
		New:          func() *storagev1.VolumeAttachment { return &storagev1.VolumeAttachment{} },
		NewList:      func() runtime.Object { return &storagev1.VolumeAttachmentList{} },
		Columns:      attachmentColumns(),
		Rules: registry.Rules[*storagev1.VolumeAttachment]{
			Default: func(a *storagev1.VolumeAttachment) {
				if inline := a.Spec.Source.InlineVolumeSpec; inline != nil {
					podspec.DefaultInlineVolume(inline)
				}
			},
			PrepareCreate:     parts.PrepareCreate,
			PrepareUpdate:     parts.PrepareUpdate,
			Validate:          validateAttachment,
			ValidateUpdate:    validateAttachmentUpdate,
			ConditionalUpdate: true,
			Deletion:          registry.Deletion[*storagev1.VolumeAttachment]{ReturnsObject: true},
		},
		Sub: registry.Subresources[*storagev1.VolumeAttachment]{Views: map[string]registry.View[*storagev1.VolumeAttachment]{"status": {
			PrepareUpdate: func(ctx context.Context, a, old *storagev1.VolumeAttachment) {
				parts.PrepareStatus(ctx, a, old)
				metav1.ResetObjectMetaForStatus(&a.ObjectMeta, old.ObjectMeta.DeepCopy())
			},
			ValidateUpdate: validateAttachmentUpdate,
			Resets:         []string{"metadata", "spec"},
		}}},
	}.Kind()
}

// validateAttachment validates a new attachment. Rules that upstream states as declarations on the API types come last.
func validateAttachment(a *storagev1.VolumeAttachment) field.ErrorList {
	return append(validateAttachmentRest(a), validateAttacher(a.Spec.Attacher, field.NewPath("spec", "attacher"))...)
}

// validateAttacher is validateDriverName in the words of upstream's declarations.
func validateAttacher(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	errs := check.Messages(path, name, content.IsDNS1123SubdomainCaseless(name)) //nolint:staticcheck // upstream's rule for this field
	if len(name) > maxDriverName {
		errs = append(errs, field.TooLongCharacters(path, name, maxDriverName))
	}
	return errs
}

// validateAttachmentUpdate refuses changes of the spec. Declarations are about what is changed, so that a spec that stays is
// validated in other words than a new one.
func validateAttachmentUpdate(a, old *storagev1.VolumeAttachment) field.ErrorList {
	errs := validateDriverName(a.Spec.Attacher, field.NewPath("spec", "attacher"))
	errs = append(errs, validateAttachmentRest(a)...)
	if !equality.Semantic.DeepEqual(a.Spec, old.Spec) {
		errs = append(errs, immutable(field.NewPath("spec")))
	}
	return errs
}

// validateAttachmentRest validates an attachment except for the attacher.
func validateAttachmentRest(a *storagev1.VolumeAttachment) field.ErrorList {
	spec, status := field.NewPath("spec"), field.NewPath("status")
	errs := validateSource(&a.Spec.Source, spec.Child("source"))
	errs = append(errs, check.NodeName(spec.Child("nodeName"), a.Spec.NodeName)...)
	size := 0
	for key, value := range a.Status.AttachmentMetadata {
		size += len(key) + len(value)
	}
	if size > maxAttachmentBytes {
		errs = append(errs, field.TooLong(status.Child("attachmentMetadata"), "", maxAttachmentBytes))
	}
	errs = append(errs, validateVolumeError(a.Status.AttachError, status.Child("attachError"))...)
	errs = append(errs, validateVolumeError(a.Status.DetachError, status.Child("detachError"))...)
	if name := a.Spec.Source.PersistentVolumeName; name != nil {
		errs = append(errs, check.DNSSubdomain(field.NewPath("spec.source.persistentVolumeName"), *name)...)
	}
	return errs
}

func validateSource(source *storagev1.VolumeAttachmentSource, path *field.Path) field.ErrorList {
	const one = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
	inline, name := source.InlineVolumeSpec, source.PersistentVolumeName
	switch {
	case inline == nil && name == nil:
		return field.ErrorList{field.Required(path, one)}
	case inline != nil && name != nil:
		return field.ErrorList{field.Forbidden(path, one)}
	case inline != nil:
		return validateInline(inline, path.Child("inlineVolumeSpec"))
	case *name == "":
		return field.ErrorList{field.Required(path.Child("persistentVolumeName"), "must specify non empty persistentVolumeName")}
	}
	return nil
}

func validateVolumeError(e *storagev1.VolumeError, path *field.Path) field.ErrorList {
	if e == nil {
		return nil
	}
	var errs field.ErrorList
	if len(e.Message) > maxVolumeError {
		errs = append(errs, field.TooLong(path.Child("message"), "", maxVolumeError))
	}
	if e.ErrorCode != nil && *e.ErrorCode < 0 {
		errs = append(errs, field.Invalid(path.Child("errorCode"), *e.ErrorCode, validation.InclusiveRangeError(0, math.MaxInt32)))
	}
	return errs
}
