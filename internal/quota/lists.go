package quota

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Add returns a + b for every name that is in either.
func Add(a, b corev1.ResourceList) corev1.ResourceList {
	sum := make(corev1.ResourceList, max(len(a), len(b)))
	for name, quantity := range a {
		quantity = quantity.DeepCopy()
		if other, ok := b[name]; ok {
			quantity.Add(other)
		}
		sum[name] = quantity
	}
	for name, quantity := range b {
		if _, ok := sum[name]; !ok {
			sum[name] = quantity.DeepCopy()
		}
	}
	return sum
}

// Sub returns a - b for every name that is in either; results may be negative.
func Sub(a, b corev1.ResourceList) corev1.ResourceList {
	negative := make(corev1.ResourceList, len(b))
	for name, quantity := range b {
		quantity = quantity.DeepCopy()
		quantity.Neg()
		negative[name] = quantity
	}
	return Add(a, negative)
}

// Positive returns the entries of a list that are above zero.
func Positive(a corev1.ResourceList) corev1.ResourceList {
	rest := make(corev1.ResourceList, len(a))
	for name, quantity := range a {
		if quantity.Sign() > 0 {
			rest[name] = quantity
		}
	}
	return rest
}

// Mask returns the entries of a whose names are in b.
func Mask(a, b corev1.ResourceList) corev1.ResourceList {
	masked := make(corev1.ResourceList, len(b))
	for name, quantity := range a {
		if _, ok := b[name]; ok {
			masked[name] = quantity.DeepCopy()
		}
	}
	return masked
}

// Equal reports whether both have the same names with equal quantities.
func Equal(a, b corev1.ResourceList) bool {
	if len(a) != len(b) {
		return false
	}
	for name, quantity := range a {
		other, ok := b[name]
		if !ok || quantity.Cmp(other) != 0 {
			return false
		}
	}
	return true
}

// names returns the names in a list that pass, in order.
func names(list corev1.ResourceList, pass func(corev1.ResourceName) bool) []corev1.ResourceName {
	var passed []corev1.ResourceName
	for name := range list {
		if pass(name) {
			passed = append(passed, name)
		}
	}
	slices.Sort(passed)
	return passed
}

// format formats the named quantities for messages.
func format(list corev1.ResourceList, names []corev1.ResourceName) string {
	var parts []string
	for _, name := range names {
		if quantity, ok := list[name]; ok {
			parts = append(parts, string(name)+"="+quantity.String())
		}
	}
	return strings.Join(parts, ",")
}

func join(names []corev1.ResourceName) string {
	parts := make([]string, len(names))
	for i, name := range names {
		parts[i] = string(name)
	}
	return strings.Join(parts, ",")
}

func count(n int) resource.Quantity { return *resource.NewQuantity(int64(n), resource.DecimalSI) }

// Refund returns used - amount for the names in used, and zero where that would be negative.
func Refund(used, amount corev1.ResourceList) corev1.ResourceList {
	rest := make(corev1.ResourceList, len(used))
	for name, quantity := range used {
		quantity = quantity.DeepCopy()
		if back, ok := amount[name]; ok {
			quantity.Sub(back)
		}
		if quantity.Sign() < 0 {
			quantity = resource.Quantity{Format: quantity.Format}
		}
		rest[name] = quantity
	}
	return rest
}
