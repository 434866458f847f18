package storage

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/internal/check"
)

const (
	// maxParameters is the maximum number of a class's parameters.
	maxParameters = 512
	// maxParameterBytes is the maximum length of all parameters with their names.
	maxParameterBytes = 256 << 10
)

func storageClasses() registry.Kind {
	return registry.Definition[*storagev1.StorageClass]{
		Names: registry.Names{
			Kind: "StorageClass", Plural: "storageclasses", Singular: "storageclass", Short: []string{"sc"},
		},
		GroupVersion: storagev1.SchemeGroupVersion,
		Older:        older(func() registry.Object { return &storagev1.StorageClass{} }, "v1beta1"),
		New:          func() *storagev1.StorageClass { return &storagev1.StorageClass{} },
		NewList:      func() runtime.Object { return &storagev1.StorageClassList{} },
		Columns:      storageClassColumns(),
		Rules: registry.Rules[*storagev1.StorageClass]{
			Default: func(class *storagev1.StorageClass) {
				if class.ReclaimPolicy == nil {
					class.ReclaimPolicy = new(corev1.PersistentVolumeReclaimDelete)
				}
				if class.VolumeBindingMode == nil {
					class.VolumeBindingMode = new(storagev1.VolumeBindingImmediate)
				}
			},
			Validate: func(class *storagev1.StorageClass) field.ErrorList {
				errs := validateStorageClass(class)
				if class.Provisioner == "" {
					errs = append(errs, field.Required(field.NewPath("provisioner"), ""))
				}
				return errs
			},
			ValidateUpdate: validateStorageClassUpdate,
			Guard: func(ctx context.Context, class, _ *storagev1.StorageClass) error {
				warnTopologies(ctx, class.AllowedTopologies)
				return nil
			},
			Deletion: registry.Deletion[*storagev1.StorageClass]{ReturnsObject: true},
		},
	}.Kind()
}

// warnTopologies warns of deprecated labels of nodes.
func warnTopologies(ctx context.Context, terms []corev1.TopologySelectorTerm) {
	for i, term := range terms {
		path := field.NewPath("allowedTopologies").Index(i).Child("matchLabelExpressions")
		for j, expression := range term.MatchLabelExpressions {
			warnNodeLabel(ctx, path.Index(j).Child("key"), expression.Key)
		}
	}
}

func warnNodeLabel(ctx context.Context, path *field.Path, key string) {
	if text, deprecated := check.DeprecatedNodeLabel(key); deprecated {
		registry.Warn(ctx, fmt.Sprintf("%s: %s", path, text))
	}
}

// validateStorageClass validates a class except that it has a provisioner.
func validateStorageClass(class *storagev1.StorageClass) field.ErrorList {
	errs := validateProvisioner(field.NewPath("provisioner"), class.Provisioner)
	errs = append(errs, validateParameters(field.NewPath("parameters"), class.Parameters)...)
	if policy := class.ReclaimPolicy; policy != nil && *policy != "" {
		errs = append(errs, check.OneOf(field.NewPath("reclaimPolicy"), *policy,
			corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRetain)...)
	}
	mode := field.NewPath("volumeBindingMode")
	if class.VolumeBindingMode == nil {
		errs = append(errs, field.Required(mode, ""))
	} else {
		errs = append(errs, check.OneOf(mode, *class.VolumeBindingMode,
			storagev1.VolumeBindingImmediate, storagev1.VolumeBindingWaitForFirstConsumer)...)
	}
	return append(errs, validateTopologies(field.NewPath("allowedTopologies"), class.AllowedTopologies)...)
}

// validateProvisioner requires a qualified name in any case, if there is one.
func validateProvisioner(path *field.Path, name string) field.ErrorList {
	if name == "" {
		return nil
	}
	return check.QualifiedName(path, strings.ToLower(name))
}

func validateParameters(path *field.Path, parameters map[string]string) field.ErrorList {
	if len(parameters) > maxParameters {
		return field.ErrorList{field.TooLong(path, "", maxParameters)}
	}
	var errs field.ErrorList
	size := 0
	for key, value := range parameters {
		if key == "" {
			errs = append(errs, field.Invalid(path, key, "field can not be empty."))
		}
		size += len(key) + len(value)
	}
	if size > maxParameterBytes {
		errs = append(errs, field.TooLong(path, "", maxParameterBytes))
	}
	return errs
}

// validateTopologies requires terms that differ. Upstream compares each also with as many empty terms as there are
// terms, and so refuses an empty term once for each.
func validateTopologies(path *field.Path, terms []corev1.TopologySelectorTerm) field.ErrorList {
	var errs field.ErrorList
	seen := slices.Repeat([]map[string]sets.Set[string]{nil}, len(terms))
	for i, term := range terms {
		path := path.Index(i).Child("matchLabelExpressions")
		values, termErrs := validateTopologyTerm(path, term)
		errs = append(errs, termErrs...)
		for _, before := range seen {
			if equality.Semantic.DeepEqual(values, before) {
				errs = append(errs, field.Duplicate(path, ""))
			}
		}
		seen = append(seen, values)
	}
	return errs
}

// validateTopologyTerm returns the values by key.
func validateTopologyTerm(path *field.Path, term corev1.TopologySelectorTerm) (map[string]sets.Set[string], field.ErrorList) {
	var errs field.ErrorList
	all := map[string]sets.Set[string]{}
	for i, expression := range term.MatchLabelExpressions {
		path := path.Index(i)
		values := sets.New[string]()
		if len(expression.Values) == 0 {
			errs = append(errs, field.Required(path.Child("values"), ""))
		}
		for j, value := range expression.Values {
			if values.Has(value) {
				errs = append(errs, field.Duplicate(path.Child("values").Index(j), value))
			}
			values.Insert(value)
		}
		errs = append(errs, check.QualifiedName(path.Child("key"), expression.Key)...)
		if _, twice := all[expression.Key]; twice {
			errs = append(errs, field.Duplicate(path.Child("key"), expression.Key))
		}
		all[expression.Key] = values
	}
	return all, errs
}

// validateStorageClassUpdate lets users change the mount options, the topologies and whether volumes may grow. Rules that
// upstream states as declarations on the API types come last; they are about what is changed.
func validateStorageClassUpdate(class, old *storagev1.StorageClass) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("provisioner")
	if class.Provisioner == "" && old.Provisioner == "" {
		errs = append(errs, field.Required(path, ""))
	}
	errs = append(errs, validateStorageClass(class)...)
	if class.Provisioner != old.Provisioner {
		if class.Provisioner == "" {
			errs = append(errs, field.Required(path, ""))
		}
		errs = append(errs, immutable(path))
	}
	if !equality.Semantic.DeepEqual(class.Parameters, old.Parameters) {
		errs = append(errs, immutable(field.NewPath("parameters")))
	}
	if !equality.Semantic.DeepEqual(class.ReclaimPolicy, old.ReclaimPolicy) {
		errs = append(errs, immutable(field.NewPath("reclaimPolicy")))
	}
	if !equality.Semantic.DeepEqual(class.VolumeBindingMode, old.VolumeBindingMode) {
		errs = append(errs, immutable(field.NewPath("volumeBindingMode")))
	}
	return errs
}

// immutable is the error of upstream's declarations, which do not show the value.
func immutable(path *field.Path) *field.Error { return field.Invalid(path, nil, "field is immutable") }
