package storage

import (
	"context"
	"fmt"
	"maps"
	"slices"

	storagev1 "k8s.io/api/storage/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/internal/check"
)

// csiStorageCapacities has no columns of its own: upstream's server shows none.
func csiStorageCapacities() registry.Kind {
	return registry.Definition[*storagev1.CSIStorageCapacity]{
		Names:        registry.Names{Kind: "CSIStorageCapacity", Plural: "csistoragecapacities", Singular: "csistoragecapacity"},
		GroupVersion: storagev1.SchemeGroupVersion,
		Older:        older(func() registry.Object { return &storagev1.CSIStorageCapacity{} }, "v1beta1", "v1alpha1"),
		Namespaced:   true,
		New:          func() *storagev1.CSIStorageCapacity { return &storagev1.CSIStorageCapacity{} },
		NewList:      func() runtime.Object { return &storagev1.CSIStorageCapacityList{} },
		Rules: registry.Rules[*storagev1.CSIStorageCapacity]{
			Validate:       func(c *storagev1.CSIStorageCapacity) field.ErrorList { return validateCapacity(c, false) },
			ValidateUpdate: validateCapacityUpdate,
			Guard: func(ctx context.Context, c, _ *storagev1.CSIStorageCapacity) error {
				warnTopology(ctx, c.NodeTopology, field.NewPath("nodeTopology"))
				return nil
			},
			ConditionalUpdate: true,
		},
	}.Kind()
}

// warnTopology warns of deprecated labels of nodes in a selector.
func warnTopology(ctx context.Context, nodes *metav1.LabelSelector, path *field.Path) {
	if nodes == nil {
		return
	}
	for i, expression := range nodes.MatchExpressions {
		if text, deprecated := check.DeprecatedNodeLabel(expression.Key); deprecated {
			registry.Warn(ctx, fmt.Sprintf("%s: %s is %s", path.Child("matchExpressions").Index(i).Child("key"), expression.Key, text))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(nodes.MatchLabels)) {
		warnNodeLabel(ctx, path.Child("matchLabels").Child(key), key)
	}
}

func validateCapacity(c *storagev1.CSIStorageCapacity, invalidValues bool) field.ErrorList {
	errs := metavalidation.ValidateLabelSelector(c.NodeTopology,
		metavalidation.LabelSelectorValidationOptions{AllowInvalidLabelValueInSelector: invalidValues}, field.NewPath("nodeTopology"))
	errs = append(errs, check.DNSSubdomain(field.NewPath("storageClassName"), c.StorageClassName)...)
	if c.Capacity != nil && c.Capacity.Sign() < 0 {
		errs = append(errs, field.Invalid(field.NewPath("capacity"), c.Capacity.String(), apivalidation.IsNegativeErrorMsg))
	}
	return errs
}

// validateCapacityUpdate keeps what the capacity is of. A selector that older rules accepted may stay.
func validateCapacityUpdate(c, old *storagev1.CSIStorageCapacity) field.ErrorList {
	hadInvalid := len(metavalidation.ValidateLabelSelector(old.NodeTopology, metavalidation.LabelSelectorValidationOptions{}, nil)) > 0
	errs := validateCapacity(c, hadInvalid)
	errs = append(errs, check.Immutable(field.NewPath("nodeTopology"), c.NodeTopology, old.NodeTopology)...)
	return append(errs, check.Immutable(field.NewPath("storageClassName"), c.StorageClassName, old.StorageClassName)...)
}
