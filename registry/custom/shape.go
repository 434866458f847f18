package custom

import (
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
)

// shape recognises objects that a step of a write leaves as they are, so that the step can be left out: most objects are
// complete and have only the fields of their schema, and steps are repeated after admission. It is in doubt rather than
// wrong. A nil one is of fields that no schema specifies.
type shape struct {
	properties map[string]*shape
	open       bool // there may be other fields, of shape other
	other      *shape
	items      *shape
	preserve   bool // unknown fields are kept
	defaulted  bool // what is missing has a default

	// Here or below there are:
	embeds   bool // embedded resources
	lists    bool // lists with keys or without duplicates
	defaults bool

	unique bool // it is such a list
}

func newShape(s *structural.Structural) *shape {
	if s == nil {
		return nil
	}
	out := &shape{
		items: newShape(s.Items), preserve: s.XPreserveUnknownFields, defaulted: s.Default.Object != nil, embeds: s.XEmbeddedResource,
		unique: s.XListType != nil && *s.XListType != "atomic",
	}
	out.lists, out.defaults = out.unique, out.defaulted
	if len(s.Properties) > 0 {
		out.properties = make(map[string]*shape, len(s.Properties))
		for name, p := range s.Properties {
			out.properties[name] = newShape(&p)
			out.contains(out.properties[name])
		}
	}
	if a := s.AdditionalProperties; a != nil {
		out.open, out.other = true, newShape(a.Structural)
		out.contains(out.other)
	}
	out.contains(out.items)
	return out
}

func (s *shape) contains(below *shape) {
	if below != nil {
		s.embeds, s.lists, s.defaults = s.embeds || below.embeds, s.lists || below.lists, s.defaults || below.defaults
	}
}

// of returns the shape of a field and whether it is specified.
func (s *shape) of(field string) (*shape, bool) {
	if below, ok := s.properties[field]; ok {
		return below, true
	}
	return s.other, s.open
}

// pruned reports whether pruning leaves an object, whose own type and metadata are exempt, as it is.
func (s *shape) pruned(object map[string]any) bool {
	if s == nil || s.embeds {
		return false
	}
	for name, value := range object {
		switch name {
		case "apiVersion", "kind", "metadata":
			continue
		}
		if below, ok := s.of(name); !s.keeps(below, ok, value) {
			return false
		}
	}
	return true
}

// keeps reports whether a field of a shape stays.
func (s *shape) keeps(below *shape, specified bool, value any) bool {
	if !specified {
		return s.preserve
	}
	return below.clean(value)
}

// clean reports whether a value has neither unknown fields nor nulls.
func (s *shape) clean(value any) bool {
	switch value := value.(type) {
	case nil:
		return false
	case map[string]any:
		if s == nil {
			return len(value) == 0
		}
		for name, value := range value {
			if below, ok := s.of(name); !s.keeps(below, ok, value) {
				return false
			}
		}
	case []any:
		if s != nil && s.preserve {
			return s.items == nil
		}
		for _, value := range value {
			var items *shape
			if s != nil {
				items = s.items
			}
			if !items.clean(value) {
				return false
			}
		}
	}
	return true
}

// complete reports whether a value lacks nothing that has a default.
func (s *shape) complete(value any) bool {
	if s == nil || !s.defaults {
		return true
	}
	switch value := value.(type) {
	case map[string]any:
		for name, below := range s.properties {
			if below.defaulted && value[name] == nil {
				return false
			}
		}
		for name, value := range value {
			if below, _ := s.of(name); value == nil && below != nil && below.defaulted || !below.complete(value) {
				return false
			}
		}
	case []any:
		for _, value := range value {
			if value == nil && s.items != nil && s.items.defaulted || !s.items.complete(value) {
				return false
			}
		}
	}
	return true
}

// hasUnique reports whether a value has a list, which is not empty, with keys or without duplicates.
func (s *shape) hasUnique(value any) bool {
	if s == nil || !s.lists {
		return false
	}
	switch value := value.(type) {
	case map[string]any:
		for name, value := range value {
			if below, _ := s.of(name); below.hasUnique(value) {
				return true
			}
		}
	case []any:
		if s.unique && len(value) > 0 {
			return true
		}
		for _, value := range value {
			if s.items.hasUnique(value) {
				return true
			}
		}
	}
	return false
}
