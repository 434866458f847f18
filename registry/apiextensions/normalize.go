package apiextensions

import (
	"bytes"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/json"
)

// normalize gives the JSON values in a schema upstream's form: without spaces, fields sorted by name, and null as if it
// were left out. Malformed values, which only protobuf can contain, stay what they are, for validation to report. It
// returns whether anything has changed.
func normalize(s *apiextensionsv1.JSONSchemaProps) (changed bool) {
	if s == nil {
		return false
	}
	for _, value := range []**apiextensionsv1.JSON{&s.Default, &s.Example} {
		if *value == nil {
			continue
		}
		changed = normalizeJSON(*value) || changed
		if (*value).Raw == nil {
			*value, changed = nil, true
		}
	}
	for i := range s.Enum {
		changed = normalizeJSON(&s.Enum[i]) || changed
	}
	single := []*apiextensionsv1.JSONSchemaProps{s.Not}
	lists := [][]apiextensionsv1.JSONSchemaProps{s.AllOf, s.AnyOf, s.OneOf}
	if s.Items != nil {
		single, lists = append(single, s.Items.Schema), append(lists, s.Items.JSONSchemas)
	}
	for _, extra := range []*apiextensionsv1.JSONSchemaPropsOrBool{s.AdditionalProperties, s.AdditionalItems} {
		if extra != nil {
			single = append(single, extra.Schema)
		}
	}
	for _, d := range s.Dependencies {
		single = append(single, d.Schema)
	}
	for _, below := range single {
		changed = normalize(below) || changed
	}
	for _, list := range lists {
		for i := range list {
			changed = normalize(&list[i]) || changed
		}
	}
	for _, named := range []map[string]apiextensionsv1.JSONSchemaProps{s.Properties, s.PatternProperties, s.Definitions} {
		for name, p := range named {
			if normalize(&p) {
				named[name], changed = p, true
			}
		}
	}
	return changed
}

// normalizeJSON returns whether the value has changed.
func normalizeJSON(v *apiextensionsv1.JSON) bool {
	if v.Raw == nil {
		return false
	}
	var parsed any
	if len(v.Raw) > 0 {
		if err := json.Unmarshal(v.Raw, &parsed); err != nil {
			return false
		}
	}
	if parsed == nil {
		v.Raw = nil
		return true
	}
	raw, err := json.Marshal(parsed)
	if err != nil || bytes.Equal(raw, v.Raw) {
		return false
	}
	v.Raw = raw
	return true
}
