package core

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/podspec"
	"github.com/keelson-dev/keelson/registry/internal/check"
)

func validateLimitRange(r *corev1.LimitRange) field.ErrorList {
	var errs field.ErrorList
	seen := map[corev1.LimitType]bool{}
	for i := range r.Spec.Limits {
		item, path := &r.Spec.Limits[i], field.NewPath("spec", "limits").Index(i)
		errs = append(errs, validateLimitType(item.Type, path.Child("type"))...)
		if seen[item.Type] {
			errs = append(errs, field.Duplicate(path.Child("type"), item.Type))
		}
		seen[item.Type] = true
		errs = append(errs, validateLimits(item, path)...)
	}
	return errs
}

func validateLimitType(of corev1.LimitType, path *field.Path) field.ErrorList {
	if errs := check.Messages(path, of, validation.IsQualifiedName(string(of))); len(errs) > 0 {
		return errs
	}
	switch of {
	case corev1.LimitTypePod, corev1.LimitTypeContainer, corev1.LimitTypePersistentVolumeClaim:
		return nil
	}
	if strings.Contains(string(of), "/") {
		return nil
	}
	return field.ErrorList{field.Invalid(path, of, "must be a standard limit type or fully qualified")}
}

// validateLimits validates the lists of an item, and then each resource in them.
func validateLimits(item *corev1.LimitRangeItem, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	var names []corev1.ResourceName
	add := func(list corev1.ResourceList, path *field.Path) {
		for _, name := range sortedNames(list) {
			errs = append(errs, validateLimitedName(item.Type, name, path.Key(string(name)))...)
			names = append(names, name)
		}
	}
	forbid := func(list corev1.ResourceList, path *field.Path) {
		if len(list) > 0 {
			errs = append(errs, field.Forbidden(path, "may not be specified when `type` is 'Pod'"))
		}
	}
	add(item.Max, path.Child("max"))
	add(item.Min, path.Child("min"))
	compared := *item
	if item.Type == corev1.LimitTypePod {
		forbid(item.Default, path.Child("default"))
		forbid(item.DefaultRequest, path.Child("defaultRequest"))
		compared.Default, compared.DefaultRequest = nil, nil
	} else {
		add(item.Default, path.Child("default"))
		add(item.DefaultRequest, path.Child("defaultRequest"))
	}
	if item.Type == corev1.LimitTypePersistentVolumeClaim && !has(item.Min, corev1.ResourceStorage) && !has(item.Max, corev1.ResourceStorage) {
		errs = append(errs, field.Required(path.Child("limits"), "either minimum or maximum storage value is required, but neither was provided"))
	}
	add(item.MaxLimitRequestRatio, path.Child("maxLimitRequestRatio"))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		errs = append(errs, compareLimits(&compared, name, path)...)
	}
	return errs
}

func has(list corev1.ResourceList, name corev1.ResourceName) bool {
	_, ok := list[name]
	return ok
}

func validateLimitedName(of corev1.LimitType, name corev1.ResourceName, path *field.Path) field.ErrorList {
	if of == corev1.LimitTypePod || of == corev1.LimitTypeContainer {
		return podspec.ValidateContainerResourceName(name, path)
	}
	return podspec.ValidateResourceName(name, path)
}

// compareLimits requires that minimum, default request, default limit and maximum of a resource are in that order.
func compareLimits(item *corev1.LimitRangeItem, name corev1.ResourceName, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	least, hasLeast := item.Min[name]
	most, hasMost := item.Max[name]
	limit, hasLimit := item.Default[name]
	request, hasRequest := item.DefaultRequest[name]
	refuse := func(list string, value resource.Quantity, format string, args ...any) {
		errs = append(errs, field.Invalid(path.Child(list).Key(string(name)), value, fmt.Sprintf(format, args...)))
	}
	if hasLeast && hasMost && least.Cmp(most) > 0 {
		refuse("min", least, "min value %s is greater than max value %s", least.String(), most.String())
	}
	if hasRequest && hasLeast && least.Cmp(request) > 0 {
		refuse("defaultRequest", request, "min value %s is greater than default request value %s", least.String(), request.String())
	}
	if hasRequest && hasMost && request.Cmp(most) > 0 {
		refuse("defaultRequest", request, "default request value %s is greater than max value %s", request.String(), most.String())
	}
	if hasRequest && hasLimit && request.Cmp(limit) > 0 {
		refuse("defaultRequest", request, "default request value %s is greater than default limit value %s", request.String(), limit.String())
	}
	if hasLimit && hasLeast && least.Cmp(limit) > 0 {
		refuse("default", least, "min value %s is greater than default value %s", least.String(), limit.String())
	}
	if hasLimit && hasMost && limit.Cmp(most) > 0 {
		refuse("default", most, "default value %s is greater than max value %s", limit.String(), most.String())
	}
	errs = append(errs, validateRatio(item, name, path.Child("maxLimitRequestRatio").Key(string(name)))...)
	if hasLimit && hasRequest && limit.Cmp(request) != 0 && !podspec.Overcommittable(name) {
		refuse("defaultRequest", request, "default value %s must equal to defaultRequest value %s in %s", limit.String(), request.String(), name)
	}
	return errs
}

// validateRatio requires a ratio that limits something: between 1 and that of the maximum to the minimum.
func validateRatio(item *corev1.LimitRangeItem, name corev1.ResourceName, path *field.Path) field.ErrorList {
	ratio, ok := item.MaxLimitRequestRatio[name]
	if !ok {
		return nil
	}
	var errs field.ErrorList
	if ratio.Cmp(*resource.NewQuantity(1, resource.DecimalSI)) < 0 {
		errs = append(errs, field.Invalid(path, ratio, fmt.Sprintf("ratio %s is less than 1", ratio.String())))
	}
	least, hasLeast := item.Min[name]
	most, hasMost := item.Max[name]
	if !hasLeast || !hasMost {
		return errs
	}
	value, quotient := float64(ratio.Value()), float64(most.Value())/float64(least.Value())
	if ratio.Value() < resource.MaxMilliValue && least.Value() < resource.MaxMilliValue && most.Value() < resource.MaxMilliValue {
		value, quotient = float64(ratio.MilliValue())/1000, float64(most.MilliValue())/float64(least.MilliValue())
	}
	if value > quotient {
		errs = append(errs, field.Invalid(path, ratio, fmt.Sprintf("ratio %s is greater than max/min = %f", ratio.String(), quotient)))
	}
	return errs
}
