package podspec

import (
	"fmt"
	"reflect"
	"slices"
	"unicode"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// claimTemplate validates the claim that a generic ephemeral volume creates (KEP-1698).
func (v *validator) claimTemplate(t *corev1.PersistentVolumeClaimTemplate, p *field.Path) {
	meta := p.Child("metadata")
	v.add(apivalidation.ValidateAnnotations(t.Annotations, meta.Child("annotations"))...)
	v.add(metavalidation.ValidateLabels(t.Labels, meta.Child("labels"))...)
	v.onlyFields(meta, t.ObjectMeta, "cannot be set", "Annotations", "Labels")
	v.claimSpec(&t.Spec, p.Child("spec"))
}

func (v *validator) claimSpec(s *corev1.PersistentVolumeClaimSpec, p *field.Path) {
	if len(s.AccessModes) == 0 {
		v.required(p.Child("accessModes"), "at least 1 access mode is required")
	}
	if s.Selector != nil {
		v.add(metavalidation.ValidateLabelSelector(s.Selector, metavalidation.LabelSelectorValidationOptions{}, p.Child("selector"))...)
	}
	v.accessModes(s.AccessModes, p.Child("accessModes"))
	storage := p.Child("resources").Key(string(corev1.ResourceStorage))
	if q, ok := s.Resources.Requests[corev1.ResourceStorage]; !ok {
		v.required(storage, "")
	} else if q.Sign() <= 0 {
		v.invalid(storage, q.String(), notPositive)
	}
	if s.StorageClassName != nil && *s.StorageClassName != "" {
		v.name(p.Child("storageClassName"), *s.StorageClassName, false)
	}
	if s.VolumeMode != nil {
		oneOf(&v.report, p.Child("volumeMode"), *s.VolumeMode, corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem)
	}
	v.dataSources(s, p)
	if s.VolumeAttributesClassName != nil && *s.VolumeAttributesClassName != "" {
		v.name(p.Child("volumeAttributesClassName"), *s.VolumeAttributesClassName, false)
	}
}

func (v *validator) accessModes(modes []corev1.PersistentVolumeAccessMode, p *field.Path) {
	known := []corev1.PersistentVolumeAccessMode{
		corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOnce, corev1.ReadWriteOncePod,
	}
	shared := false
	for _, mode := range modes {
		oneOf(&v.report, p, mode, known...)
		shared = shared || mode != corev1.ReadWriteOncePod && slices.Contains(known, mode)
	}
	if shared && slices.Contains(modes, corev1.ReadWriteOncePod) {
		v.forbidden(p, "may not use ReadWriteOncePod with other access modes")
	}
}

func (v *validator) dataSources(s *corev1.PersistentVolumeClaimSpec, p *field.Path) {
	from, ref := s.DataSource, s.DataSourceRef
	if from != nil {
		v.dataSource(p.Child("dataSource"), from.APIGroup, from.Kind, from.Name)
	}
	if ref != nil {
		v.dataSource(p.Child("dataSourceRef"), ref.APIGroup, ref.Kind, ref.Name)
		if ref.Namespace != nil && *ref.Namespace != "" {
			v.invalid(p.Child("dataSourceRef", "namespace"), *ref.Namespace, apivalidation.ValidateNamespaceName(*ref.Namespace, false)...)
		}
	}
	if from == nil || ref == nil {
		return
	}
	if ref.Namespace != nil && *ref.Namespace != "" {
		v.invalid(p, p.Child("dataSource"), "may not be specified when dataSourceRef.namespace is specified")
	} else if !reflect.DeepEqual(from.APIGroup, ref.APIGroup) || from.Kind != ref.Kind || from.Name != ref.Name {
		v.invalid(p, p.Child("dataSource"), "must match dataSourceRef")
	}
}

func (v *validator) dataSource(p *field.Path, group *string, kind, name string) {
	v.need(p.Child("name"), name)
	v.need(p.Child("kind"), kind)
	if group != nil && *group != "" {
		v.invalid(p.Child("apiGroup"), *group, validation.IsDNS1123Subdomain(*group)...)
	} else if kind != "PersistentVolumeClaim" {
		v.invalid(p, kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup")
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
