package custom

import (
	"math"
	"slices"
	"unicode/utf8"

	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
)

// sound reports whether an object is valid by the schema of its version, as far as that is told without upstream's validator.
func (v *Version) sound(object map[string]any) bool {
	s := v.schema()
	return s != nil && sound(s, object)
}

// soundStatus is sound for a status alone.
func (v *Version) soundStatus(status any) bool {
	s := v.schema()
	if s == nil {
		return false
	}
	of, ok := s.Properties["status"]
	return ok && sound(&of, status)
}

// sound reports whether a value is valid by a schema, where that is told by types and bounds alone. False means that it may not be:
// upstream's validator tells, which makes validators anew for each value.
func sound(s *structural.Structural, value any) bool {
	v := s.ValueValidation
	if v == nil {
		v = &structural.ValueValidation{}
	}
	if len(v.AllOf) > 0 || len(v.AnyOf) > 0 || len(v.OneOf) > 0 || v.Not != nil || v.Pattern != "" || v.MultipleOf != nil || v.UniqueItems || s.XEmbeddedResource {
		return false
	}
	if value == nil {
		return s.Nullable && len(v.Enum) == 0
	}
	if len(v.Enum) > 0 && !slices.ContainsFunc(v.Enum, func(e structural.JSON) bool { return e.Object == value && isScalar(value) }) {
		return false
	}
	switch s.Type {
	case "object":
		object, ok := value.(map[string]any)
		return ok && soundObject(s, v, object)
	case "array":
		list, ok := value.([]any)
		return ok && inRange(len(list), v.MinItems, v.MaxItems) && v.Format == "" &&
			(s.Items == nil || !slices.ContainsFunc(list, func(item any) bool { return !sound(s.Items, item) }))
	case "string":
		text, ok := value.(string)
		if !ok || v.Format != "" && (v.Format != "date-time" || !strfmt.IsDateTime(text)) {
			return false
		}
		return v.MinLength == nil && v.MaxLength == nil || inRange(utf8.RuneCountInString(text), v.MinLength, v.MaxLength)
	case "integer":
		n, ok := value.(int64)
		return ok && soundInteger(v, n)
	case "number":
		_, whole := value.(int64)
		_, broken := value.(float64)
		return (whole || broken) && v.Format == "" && v.Minimum == nil && v.Maximum == nil
	case "boolean":
		_, ok := value.(bool)
		return ok && v.Format == ""
	case "":
		plain := s.ValueValidation == nil && len(s.Properties) == 0 && s.AdditionalProperties == nil && s.Items == nil
		return plain && (s.XPreserveUnknownFields || s.XIntOrString && isScalar(value) && value != true && value != false)
	}
	return false
}

func isScalar(value any) bool {
	switch value.(type) {
	case string, int64, bool:
		return true
	}
	return false
}

func soundObject(s *structural.Structural, v *structural.ValueValidation, object map[string]any) bool {
	if v.Format != "" || !inRange(len(object), v.MinProperties, v.MaxProperties) {
		return false
	}
	for _, name := range v.Required {
		if _, ok := object[name]; !ok {
			return false
		}
	}
	for name, value := range object {
		of, known := s.Properties[name]
		switch more := s.AdditionalProperties; {
		case known:
			if !sound(&of, value) {
				return false
			}
		case more == nil:
		case more.Structural != nil:
			if !sound(more.Structural, value) {
				return false
			}
		case !more.Bool:
			return false
		}
	}
	return true
}

// soundInteger leaves large numbers and bounds that are no integers to upstream.
func soundInteger(v *structural.ValueValidation, n int64) bool {
	if v.Format != "" && v.Format != "int32" && v.Format != "int64" || n < math.MinInt32 || n > math.MaxInt32 {
		return false
	}
	for _, bound := range []*float64{v.Minimum, v.Maximum} {
		if bound != nil && (math.Trunc(*bound) != *bound || math.Abs(*bound) > math.MaxInt32) {
			return false
		}
	}
	f := float64(n)
	return (v.Minimum == nil || f > *v.Minimum || f == *v.Minimum && !v.ExclusiveMinimum) &&
		(v.Maximum == nil || f < *v.Maximum || f == *v.Maximum && !v.ExclusiveMaximum)
}

func inRange(n int, least, most *int64) bool {
	return (least == nil || int64(n) >= *least) && (most == nil || int64(n) <= *most)
}
