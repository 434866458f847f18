package podspec

import (
	"fmt"
	"reflect"
	"slices"
	"unicode"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// claimTemplate validates the claim that a generic ephemeral volume creates (KEP-1698).
func (v *validator) claimTemplate(t *corev1.PersistentVolumeClaimTemplate, p *field.Path) {
	v.templateMetadata(&t.ObjectMeta, p.Child("metadata"))
	v.claimSpec(&t.Spec, p.Child("spec"), claimLeniency{})
}

func (r *report) templateMetadata(meta *metav1.ObjectMeta, p *field.Path) {
	r.add(apivalidation.ValidateAnnotations(meta.Annotations, p.Child("annotations"))...)
	r.add(metavalidation.ValidateLabels(meta.Labels, p.Child("labels"))...)
	r.onlyFields(p, *meta, "cannot be set", "Annotations", "Labels")
}

// claimLeniency lists what an old claim may keep.
type claimLeniency struct{ invalidSelectorValues, invalidAPIGroup bool }

func (r *report) claimSpec(s *corev1.PersistentVolumeClaimSpec, p *field.Path, allow claimLeniency) {
	if len(s.AccessModes) == 0 {
		r.required(p.Child("accessModes"), "at least 1 access mode is required")
	}
	if s.Selector != nil {
		r.add(metavalidation.ValidateLabelSelector(s.Selector,
			metavalidation.LabelSelectorValidationOptions{AllowInvalidLabelValueInSelector: allow.invalidSelectorValues}, p.Child("selector"))...)
	}
	r.accessModes(s.AccessModes, p.Child("accessModes"))
	storage := p.Child("resources").Key(string(corev1.ResourceStorage))
	if q, ok := s.Resources.Requests[corev1.ResourceStorage]; !ok {
		r.required(storage, "")
	} else if q.Sign() <= 0 {
		r.invalid(storage, q.String(), notPositive)
	}
	if s.StorageClassName != nil && *s.StorageClassName != "" {
		r.name(p.Child("storageClassName"), *s.StorageClassName, false)
	}
	if s.VolumeMode != nil {
		oneOf(r, p.Child("volumeMode"), *s.VolumeMode, corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem)
	}
	r.dataSources(s, p, allow.invalidAPIGroup)
	if s.VolumeAttributesClassName != nil && *s.VolumeAttributesClassName != "" {
		r.name(p.Child("volumeAttributesClassName"), *s.VolumeAttributesClassName, false)
	}
}

func (r *report) accessModes(modes []corev1.PersistentVolumeAccessMode, p *field.Path) {
	known := []corev1.PersistentVolumeAccessMode{
		corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOnce, corev1.ReadWriteOncePod,
	}
	shared := false
	for _, mode := range modes {
		oneOf(r, p, mode, known...)
		shared = shared || mode != corev1.ReadWriteOncePod && slices.Contains(known, mode)
	}
	if shared && slices.Contains(modes, corev1.ReadWriteOncePod) {
		r.forbidden(p, "may not use ReadWriteOncePod with other access modes")
	}
}

func (r *report) dataSources(s *corev1.PersistentVolumeClaimSpec, p *field.Path, anyGroup bool) {
	from, ref := s.DataSource, s.DataSourceRef
	if from != nil {
		r.dataSource(p.Child("dataSource"), corev1.TypedObjectReference{APIGroup: from.APIGroup, Kind: from.Kind, Name: from.Name}, anyGroup)
	}
	if ref != nil {
		r.dataSource(p.Child("dataSourceRef"), *ref, anyGroup)
		if ref.Namespace != nil && *ref.Namespace != "" {
			r.invalid(p.Child("dataSourceRef", "namespace"), *ref.Namespace, apivalidation.ValidateNamespaceName(*ref.Namespace, false)...)
		}
	}
	if from == nil || ref == nil {
		return
	}
	if ref.Namespace != nil && *ref.Namespace != "" {
		r.invalid(p, p.Child("dataSource"), "may not be specified when dataSourceRef.namespace is specified")
	} else if !reflect.DeepEqual(from.APIGroup, ref.APIGroup) || from.Kind != ref.Kind || from.Name != ref.Name {
		r.invalid(p, p.Child("dataSource"), "must match dataSourceRef")
	}
}

func (r *report) dataSource(p *field.Path, ref corev1.TypedObjectReference, anyGroup bool) {
	r.need(p.Child("name"), ref.Name)
	r.need(p.Child("kind"), ref.Kind)
	switch {
	case ref.APIGroup == nil || *ref.APIGroup == "":
		if ref.Kind != "PersistentVolumeClaim" {
			r.invalid(p, ref.Kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup")
		}
	case !anyGroup:
		r.subdomain(p.Child("apiGroup"), *ref.APIGroup)
	}
}

// onlyFields forbids every field of a struct that is set and not allowed. The allowed fields are given by their Go
// names; fields added to the API later are forbidden by default.
func (r *report) onlyFields(p *field.Path, of any, detail string, allowed ...string) {
	value := reflect.ValueOf(of)
	for i := range value.NumField() {
		name := value.Type().Field(i).Name
		if slices.Contains(allowed, name) || value.Field(i).IsZero() {
			continue
		}
		first, size := utf8.DecodeRuneInString(name)
		r.forbidden(p.Child(fmt.Sprintf("%c%s", unicode.ToLower(first), name[size:])), detail)
	}
}
