package core

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/internal/check"
)

func configMaps() registry.Kind {
	return registry.Definition[*corev1.ConfigMap]{
		Names:        registry.Names{Kind: "ConfigMap", Plural: "configmaps", Singular: "configmap", Short: []string{"cm"}},
		GroupVersion: corev1.SchemeGroupVersion,
		Namespaced:   true,
		New:          func() *corev1.ConfigMap { return &corev1.ConfigMap{} },
		NewList:      func() runtime.Object { return &corev1.ConfigMapList{} },
		Rules: registry.Rules[*corev1.ConfigMap]{
			Default: func(cm *corev1.ConfigMap) {
				if cm.Data == nil {
					cm.Data = map[string]string{}
				}
			},
			Validate:       validateConfigMap,
			ValidateUpdate: validateConfigMapUpdate,
		},
		Columns: configMapColumns(),
	}.Kind()
}

func validateConfigMap(cm *corev1.ConfigMap) field.ErrorList {
	var errs field.ErrorList
	size := 0
	for _, key := range slices.Sorted(maps.Keys(cm.Data)) {
		path := field.NewPath("data").Key(key)
		errs = append(errs, check.Messages(path, key, validation.IsConfigMapKey(key))...)
		if _, twice := cm.BinaryData[key]; twice {
			errs = append(errs, field.Invalid(path, key, "duplicate of key present in binaryData"))
		}
		size += len(cm.Data[key])
	}
	for _, key := range slices.Sorted(maps.Keys(cm.BinaryData)) {
		errs = append(errs, check.Messages(field.NewPath("binaryData").Key(key), key, validation.IsConfigMapKey(key))...)
		size += len(cm.BinaryData[key])
	}
	if size > corev1.MaxSecretSize {
		errs = append(errs, field.TooLong(field.NewPath(""), "", corev1.MaxSecretSize))
	}
	return errs
}

func validateConfigMapUpdate(cm, old *corev1.ConfigMap) field.ErrorList {
	var errs field.ErrorList
	if old.Immutable != nil && *old.Immutable {
		errs = append(errs, validateFrozen(cm.Immutable,
			!equality.Semantic.DeepEqual(cm.Data, old.Data), !equality.Semantic.DeepEqual(cm.BinaryData, old.BinaryData))...)
	}
	return append(errs, validateConfigMap(cm)...)
}

// validateFrozen refuses to unset immutable or to change the data of an immutable object.
func validateFrozen(immutable *bool, data, binaryData bool) field.ErrorList {
	var errs field.ErrorList
	refuse := func(changed bool, name string) {
		if changed {
			errs = append(errs, field.Forbidden(field.NewPath(name), "field is immutable when `immutable` is set"))
		}
	}
	refuse(immutable == nil || !*immutable, "immutable")
	refuse(data, "data")
	refuse(binaryData, "binaryData")
	return errs
}
