package check

import (
	"strconv"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// IntOrPercent requires zero or more, or a percentage.
func IntOrPercent(path *field.Path, value intstr.IntOrString) field.ErrorList {
	switch value.Type {
	case intstr.String:
		return Messages(path, value, validation.IsValidPercent(value.StrVal))
	case intstr.Int:
		return Nonnegative(path, int64(value.IntValue()))
	}
	return field.ErrorList{field.Invalid(path, value, "must be an integer or percentage (e.g '5%%')")}
}

// AtMost100Percent refuses a percentage above 100%.
func AtMost100Percent(path *field.Path, value intstr.IntOrString) field.ErrorList {
	if p, _ := percent(value); p > 100 {
		return field.ErrorList{field.Invalid(path, value, "must not be greater than 100%")}
	}
	return nil
}

// IsZero reports whether value is 0 or 0%.
func IsZero(value intstr.IntOrString) bool {
	if p, ok := percent(value); ok {
		return p == 0
	}
	return value.IntValue() == 0
}

// percent returns 0 and false for a value that is no percentage; a number too large is the largest int.
func percent(value intstr.IntOrString) (int, bool) {
	if value.Type != intstr.String || len(validation.IsValidPercent(value.StrVal)) > 0 {
		return 0, false
	}
	p, _ := strconv.Atoi(value.StrVal[:len(value.StrVal)-1])
	return p, true
}
