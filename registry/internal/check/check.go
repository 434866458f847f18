package check

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Messages returns an error for each message about an invalid value.
func Messages(path *field.Path, value any, messages []string) field.ErrorList {
	var errs field.ErrorList
	for _, m := range messages {
		errs = append(errs, field.Invalid(path, value, m))
	}
	return errs
}

// DNSLabel requires an RFC 1123 label.
func DNSLabel(path *field.Path, value string) field.ErrorList {
	return Messages(path, value, validation.IsDNS1123Label(value))
}

// DNSSubdomain requires an RFC 1123 subdomain.
func DNSSubdomain(path *field.Path, value string) field.ErrorList {
	return Messages(path, value, validation.IsDNS1123Subdomain(value))
}

// QualifiedName requires a name with an optional DNS prefix, as label keys are.
func QualifiedName(path *field.Path, value string) field.ErrorList {
	return Messages(path, value, validation.IsQualifiedName(value))
}

// NodeName requires a valid node name.
func NodeName(path *field.Path, value string) field.ErrorList {
	return Messages(path, value, apivalidation.NameIsDNSSubdomain(value, false))
}

// PortNumber requires 1 to 65535.
func PortNumber(path *field.Path, value int32) field.ErrorList {
	return Messages(path, value, validation.IsValidPortNum(int(value)))
}

// Nonnegative requires zero or more.
func Nonnegative[N ~int32 | ~int64](path *field.Path, value N) field.ErrorList {
	return apivalidation.ValidateNonnegativeField(int64(value), path)
}

// NonnegativeIfSet requires nil, or zero or more.
func NonnegativeIfSet(path *field.Path, value *int32) field.ErrorList {
	if value == nil {
		return nil
	}
	return Nonnegative(path, *value)
}

// Immutable requires the value to equal the old one.
func Immutable(path *field.Path, value, old any) field.ErrorList {
	return ImmutableAs(path, value, old, value)
}

// ImmutableAs is Immutable for a value whose form in the error differs.
func ImmutableAs(path *field.Path, value, old, shown any) field.ErrorList {
	if equality.Semantic.DeepEqual(value, old) {
		return nil
	}
	return field.ErrorList{field.Invalid(path, shown, apivalidation.FieldImmutableErrorMsg)}
}

// OneOf requires one of the supported values, which the error lists in the given order.
func OneOf[T ~string](path *field.Path, value T, supported ...T) field.ErrorList {
	if slices.Contains(supported, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, value, supported)}
}

// RequiredOneOf is OneOf except that an empty value is required instead of unsupported.
func RequiredOneOf[T ~string](path *field.Path, value T, supported ...T) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	return OneOf(path, value, supported...)
}
