package custom

import (
	"math"
	"regexp"
	"slices"
	"unicode/utf8"

	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
)

// sure recognises values that are certainly valid by a schema, at a small part of the cost of the library that words what is
// wrong with the others. It does not know all rules of schemas: what has one that it does not know is not certain. A nil one
// takes everything.
type sure struct {
	unknown bool // there are rules that it does not know
	types   []string
	null    bool // null is valid
	format  string
	enum    []any

	number             interval
	length, size, keys bounds
	pattern            *regexp.Regexp

	object *sureObject
	items  *sure
	all    []*sure
	any    []*sure
}

// sureObject are the rules of objects.
type sureObject struct {
	properties map[string]*sure
	required   []string
	other      *sure // what has no property of its own
	closed     bool  // there is nothing else
}

// interval is where a number must be.
type interval struct {
	minimum, maximum *float64
	above, below     bool // the minimum, the maximum is not in it
}

func (i interval) holds(n float64) bool {
	if i.minimum != nil && (n < *i.minimum || i.above && n == *i.minimum) {
		return false
	}
	return i.maximum == nil || n < *i.maximum || !i.below && n == *i.maximum
}

// bounds are the least and the greatest number of something.
type bounds struct{ least, most *int64 }

func (b bounds) holds(n int) bool {
	return (b.least == nil || int64(n) >= *b.least) && (b.most == nil || int64(n) <= *b.most)
}

// newSure compiles a schema.
func newSure(s *spec.Schema) *sure {
	if s == nil {
		return nil
	}
	out := &sure{
		types: s.Type, null: s.Nullable || len(s.Type) == 0 && s.Format == "", format: s.Format, enum: s.Enum,
		number: interval{s.Minimum, s.Maximum, s.ExclusiveMinimum, s.ExclusiveMaximum},
		length: bounds{s.MinLength, s.MaxLength}, size: bounds{s.MinItems, s.MaxItems}, keys: bounds{s.MinProperties, s.MaxProperties},
		object: &sureObject{required: s.Required},
	}
	out.unknown = len(s.OneOf)+len(s.PatternProperties)+len(s.Dependencies) > 0 || s.Not != nil || s.AdditionalItems != nil ||
		s.UniqueItems || s.MultipleOf != nil || s.Ref.String() != "" || !exact(s.Minimum) || !exact(s.Maximum)
	if s.Pattern != "" {
		var err error
		out.pattern, err = regexp.Compile(s.Pattern)
		out.unknown = out.unknown || err != nil
	}
	if s.Items != nil {
		out.unknown = out.unknown || len(s.Items.Schemas) > 0
		out.items = newSure(s.Items.Schema)
	}
	if len(s.Properties) > 0 {
		out.object.properties = make(map[string]*sure, len(s.Properties))
		for name, p := range s.Properties {
			out.object.properties[name] = newSure(&p)
		}
	}
	if a := s.AdditionalProperties; a != nil {
		out.object.other, out.object.closed = newSure(a.Schema), !a.Allows
	}
	for i := range s.AllOf {
		out.all = append(out.all, newSure(&s.AllOf[i]))
	}
	for i := range s.AnyOf {
		out.any = append(out.any, newSure(&s.AnyOf[i]))
	}
	return out
}

// exact reports whether a bound, if there is one, is an integer of 32 bits, which all comparisons treat alike.
func exact(bound *float64) bool { return bound == nil || *bound == float64(int32(*bound)) }

// valid reports whether a value, as decoded from JSON, is certainly valid.
func (s *sure) valid(value any) bool {
	switch {
	case s == nil:
		return true
	case s.unknown || value == nil && !s.null || len(s.enum) > 0 && !s.listed(value):
		return false
	}
	for _, other := range s.all {
		if !other.valid(value) {
			return false
		}
	}
	if len(s.any) > 0 && !slices.ContainsFunc(s.any, func(other *sure) bool { return other.valid(value) }) {
		return false
	}
	switch value := value.(type) {
	case nil:
		return true
	case string:
		return s.takes("string") && s.validText(value)
	case bool:
		return s.takes("boolean") && s.format == ""
	case int64:
		return (s.takes("integer") || s.takes("number")) && s.validInteger(value)
	case float64:
		return s.takes("number") && (s.format == "" || s.format == "double") && s.number.holds(value)
	case []any:
		return s.takes("array") && s.format == "" && s.validList(value)
	case map[string]any:
		return s.takes("object") && s.format == "" && s.validObject(value)
	}
	return false
}

func (s *sure) takes(kind string) bool { return len(s.types) == 0 || slices.Contains(s.types, kind) }

// listed reports whether a text is in the enumeration. Other values are compared in ways of their own.
func (s *sure) listed(value any) bool {
	text, ok := value.(string)
	return ok && slices.ContainsFunc(s.enum, func(allowed any) bool { return allowed == text })
}

func (s *sure) validText(text string) bool {
	if s.format != "" && !strfmt.Default.Validates(s.format, text) {
		return false
	}
	if (s.length.least != nil || s.length.most != nil) && !s.length.holds(utf8.RuneCountInString(text)) {
		return false
	}
	return s.pattern == nil || s.pattern.MatchString(text)
}

func (s *sure) validInteger(n int64) bool {
	switch s.format {
	case "", "int64":
	case "int32":
		if n < math.MinInt32 || n > math.MaxInt32 {
			return false
		}
	default:
		return false
	}
	return s.number.minimum == nil && s.number.maximum == nil || n == int64(int32(n)) && s.number.holds(float64(n)) //nolint:gosec // to compare
}

func (s *sure) validList(list []any) bool {
	if !s.size.holds(len(list)) {
		return false
	}
	for _, value := range list {
		if !s.items.valid(value) {
			return false
		}
	}
	return true
}

func (s *sure) validObject(object map[string]any) bool {
	if !s.keys.holds(len(object)) {
		return false
	}
	for _, name := range s.object.required {
		if _, ok := object[name]; !ok {
			return false
		}
	}
	for name, value := range object {
		rules, ok := s.object.properties[name]
		if !ok {
			if s.object.closed {
				return false
			}
			rules = s.object.other
		}
		if !rules.valid(value) {
			return false
		}
	}
	return true
}
