package custom

import (
	"errors"
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/json"
)

// Bounds for schemas, far beyond those that are in use: the time to read a schema grows with the square of its depth,
// and a rule takes milliseconds to compile.
const (
	maxDepth = 500
	maxRules = 2000 // in one version
)

var (
	errTooDeep      = fmt.Errorf("the schema is nested more than %d deep", maxDepth)
	errTooManyRules = fmt.Errorf("the schema has more than %d CEL rules", maxRules)
	errNoObject     = errors.New("the JSON value is not an object")
)

// bounded refuses schemas that would take too long to interpret.
func bounded(s *apiextensionsv1.JSONSchemaProps) error {
	rules := 0
	var visit func(s *apiextensionsv1.JSONSchemaProps, depth int) error
	visit = func(s *apiextensionsv1.JSONSchemaProps, depth int) error {
		if s == nil {
			return nil
		}
		if depth > maxDepth {
			return errTooDeep
		}
		if rules += len(s.XValidations); rules > maxRules {
			return errTooManyRules
		}
		for _, below := range within(s) {
			if err := visit(below, depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	return visit(s, 1)
}

// within returns the schemas directly inside a schema; some are nil.
func within(s *apiextensionsv1.JSONSchemaProps) []*apiextensionsv1.JSONSchemaProps {
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
	for _, named := range []map[string]apiextensionsv1.JSONSchemaProps{s.Properties, s.PatternProperties, s.Definitions} {
		for _, p := range named {
			single = append(single, &p)
		}
	}
	for _, list := range lists {
		for i := range list {
			single = append(single, &list[i])
		}
	}
	return single
}

// certain reports whether a schema, which is bounded, is certain to be interpreted without an error, so that this can wait
// until the schema is used. Those of validated definitions are.
func certain(s *apiextensionsv1.JSONSchemaProps) bool {
	defaults := false
	var visit func(s *apiextensionsv1.JSONSchemaProps) bool
	visit = func(s *apiextensionsv1.JSONSchemaProps) bool {
		if s == nil {
			return true
		}
		defaults = defaults || s.Default != nil
		return supported(s) && parsable(s) && !slices.ContainsFunc(within(s), func(below *apiextensionsv1.JSONSchemaProps) bool { return !visit(below) })
	}
	// What has defaults must be an object.
	return visit(s) && (!defaults || s.Default == nil && s.Items == nil)
}

// supported reports whether a schema has no fields that structural schemas do not have.
func supported(s *apiextensionsv1.JSONSchemaProps) bool {
	preserve := s.XPreserveUnknownFields == nil || *s.XPreserveUnknownFields
	return preserve && s.ID == "" && s.Schema == "" && s.Ref == nil && s.PatternProperties == nil && s.Dependencies == nil && s.AdditionalItems == nil &&
		s.Definitions == nil && (s.Items == nil || s.Items.Schema != nil && s.Items.JSONSchemas == nil)
}

// parsable reports whether the values in a schema are JSON.
func parsable(s *apiextensionsv1.JSONSchemaProps) bool {
	values := s.Enum
	for _, v := range []*apiextensionsv1.JSON{s.Default, s.Example} {
		if v != nil {
			values = append(values[:len(values):len(values)], *v)
		}
	}
	return !slices.ContainsFunc(values, func(v apiextensionsv1.JSON) bool {
		var value any
		return len(v.Raw) > 0 && json.Unmarshal(v.Raw, &value) != nil
	})
}
