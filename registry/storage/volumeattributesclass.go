package storage

import (
	"maps"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/registry"
)

func volumeAttributesClasses() registry.Kind {
	return registry.Definition[*storagev1.VolumeAttributesClass]{
		Names: registry.Names{
			Kind: "VolumeAttributesClass", Plural: "volumeattributesclasses", Singular: "volumeattributesclass", Short: []string{"vac"},
		},
		GroupVersion: storagev1.SchemeGroupVersion,
		Older:        older(func() registry.Object { return &storagev1.VolumeAttributesClass{} }, "v1beta1", "v1alpha1"),
		New:          func() *storagev1.VolumeAttributesClass { return &storagev1.VolumeAttributesClass{} },
		NewList:      func() runtime.Object { return &storagev1.VolumeAttributesClassList{} },
		Columns:      attributesClassColumns(),
		Rules: registry.Rules[*storagev1.VolumeAttributesClass]{
			Validate: validateAttributesClass,
			ValidateUpdate: func(class, old *storagev1.VolumeAttributesClass) field.ErrorList {
				var errs field.ErrorList
				if class.DriverName != old.DriverName {
					errs = append(errs, field.Forbidden(field.NewPath("driverName"), "updates to driverName are forbidden."))
				}
				if !maps.Equal(class.Parameters, old.Parameters) {
					errs = append(errs, field.Forbidden(field.NewPath("parameters"), "updates to parameters are forbidden."))
				}
				return append(errs, validateAttributesClass(class)...)
			},
			Deletion: registry.Deletion[*storagev1.VolumeAttributesClass]{ReturnsObject: true},
		},
	}.Kind()
}

func validateAttributesClass(class *storagev1.VolumeAttributesClass) field.ErrorList {
	driver, parameters := field.NewPath("driverName"), field.NewPath("parameters")
	var errs field.ErrorList
	if class.DriverName == "" {
		errs = append(errs, field.Required(driver, ""))
	}
	errs = append(errs, validateProvisioner(driver, class.DriverName)...)
	errs = append(errs, validateParameters(parameters, class.Parameters)...)
	if len(class.Parameters) == 0 {
		errs = append(errs, field.Required(parameters, "must contain at least one key/value pair"))
	}
	return errs
}
