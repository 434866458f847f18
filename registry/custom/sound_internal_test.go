package custom

import (
	"math/rand/v2"
	"strconv"
	"testing"

	upstream "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
)

// TestSound: what is found valid here is valid by upstream's validator, in an update too, and half of what is valid is found so.
func TestSound(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // reproducible
	valid, found := 0, 0
	for range 4000 {
		g := &soundCases{r}
		props := g.schema(3)
		s, err := structural.NewStructural(props)
		if err != nil {
			continue
		}
		by, _, err := validation.NewSchemaValidator(props)
		if err != nil {
			t.Fatal(err)
		}
		for range 8 {
			value := g.value(props)
			errs := validation.ValidateCustomResource(nil, value, by)
			ok := sound(s, value)
			if len(errs) == 0 {
				valid++
				if ok {
					found++
				}
			} else if ok {
				t.Fatalf("found valid: %v\nby %+v\nbut %v", value, props, errs)
			}
			if errs := validation.ValidateCustomResourceUpdate(nil, value, g.value(props), by); ok && len(errs) > 0 {
				t.Fatalf("found valid: %v\nby %+v\nbut in an update %v", value, props, errs)
			}
			if errs := (&validators{monotonic: true}).update(nil, by, value, g.value(props)); monotonic(props) && ok && len(errs) > 0 {
				t.Fatal(errs)
			}
		}
	}
	if valid < 3000 || found < valid/2 {
		t.Errorf("of %d valid values, %d were found", valid, found)
	}
}

// soundCases makes schemas, and values that they nearly describe.
type soundCases struct{ *rand.Rand }

func (g *soundCases) chance(percent int) bool { return g.IntN(100) < percent }

func (g *soundCases) count() *int64 { n := int64(g.IntN(4)); return &n }

func (g *soundCases) schema(depth int) *upstream.JSONSchemaProps {
	s := &upstream.JSONSchemaProps{Nullable: g.chance(10)}
	below := func() *upstream.JSONSchemaProps { return g.schema(depth - 1) }
	kinds := []string{"string", "integer", "boolean", "number", "", "object", "object", "object", "array"}
	if depth == 3 {
		kinds = kinds[5:8]
	} else if depth == 0 {
		kinds = kinds[:5]
	}
	s.Type = kinds[g.IntN(len(kinds))]
	switch s.Type {
	case "":
		if yes := true; g.chance(50) {
			s.XPreserveUnknownFields = &yes
		} else {
			s.XIntOrString = true
		}
	case "string":
		g.text(s)
	case "integer":
		g.integer(s)
	case "array":
		s.Items = &upstream.JSONSchemaPropsOrArray{Schema: below()}
		if g.chance(20) {
			s.MinItems = g.count()
		}
		if g.chance(20) {
			s.MaxItems = g.count()
		}
	case "object":
		g.object(s, below)
	}
	switch g.IntN(60) {
	case 0:
		s.Not = &upstream.JSONSchemaProps{Enum: []upstream.JSON{"a"}}
	case 1:
		s.OneOf = []upstream.JSONSchemaProps{{Enum: []upstream.JSON{"a"}}, {Required: []string{"0"}}}
	case 2:
		s.AllOf = []upstream.JSONSchemaProps{{Enum: []upstream.JSON{"a"}}}
	case 3:
		s.AnyOf = []upstream.JSONSchemaProps{{MaxLength: g.count()}}
	}
	return s
}

func (g *soundCases) text(s *upstream.JSONSchemaProps) {
	switch g.IntN(12) {
	case 0:
		s.Format = []string{"date-time", "date", "ipv4", "byte", "unknown", "int32"}[g.IntN(6)]
	case 1:
		s.Pattern = "^a"
	case 2:
		s.Enum = []upstream.JSON{"a", "bc"}
	case 3:
		s.MinLength = g.count()
	case 4:
		s.MaxLength = g.count()
	}
}

func (g *soundCases) integer(s *upstream.JSONSchemaProps) {
	bounds := []float64{-3, 0, 2, 2.5, 3e9}
	bound := func() *float64 { return &bounds[g.IntN(len(bounds))] }
	switch g.IntN(8) {
	case 0:
		s.Minimum, s.ExclusiveMinimum = bound(), g.chance(50)
	case 1:
		s.Maximum, s.ExclusiveMaximum = bound(), g.chance(50)
	case 2:
		s.MultipleOf = bound()
	case 3:
		s.Enum = []upstream.JSON{int64(1), float64(2)}
	}
	s.Format = []string{"", "", "int32", "int64", "double", "unknown"}[g.IntN(6)]
}

func (g *soundCases) object(s *upstream.JSONSchemaProps, below func() *upstream.JSONSchemaProps) {
	s.Properties = map[string]upstream.JSONSchemaProps{}
	for i := range g.IntN(4) {
		s.Properties[strconv.Itoa(i)] = *below()
		if g.chance(25) {
			s.Required = append(s.Required, strconv.Itoa(i))
		}
	}
	if len(s.Properties) == 0 && g.chance(60) {
		s.AdditionalProperties = &upstream.JSONSchemaPropsOrBool{Allows: g.chance(70)}
		if s.AdditionalProperties.Allows {
			s.AdditionalProperties.Schema = below()
		}
	}
	if g.chance(10) {
		s.MinProperties = g.count()
	}
	if g.chance(10) {
		s.MaxProperties = g.count()
	}
}

// value returns a value of a schema, or now and then of none.
func (g *soundCases) value(s *upstream.JSONSchemaProps) any {
	if g.chance(3) {
		return []any{nil, "a", int64(1), 1.5, true, []any{}, map[string]any{"0": "x"}}[g.IntN(7)]
	}
	switch s.Type {
	case "string":
		return []any{"a", "bc", "ab", "", "üüü", "2026-01-02T03:04:05Z", "2026-01-02T03:04:05.123+01:00", "abcdef"}[g.IntN(8)]
	case "integer":
		return []any{int64(1), int64(0), int64(2), int64(-3), int64(1) << 31, int64(1) << 60, 2.0}[g.IntN(7)]
	case "number":
		return []any{int64(1), 2.5}[g.IntN(2)]
	case "boolean":
		return g.chance(50)
	case "array":
		list := []any{}
		for range g.IntN(4) {
			list = append(list, g.value(s.Items.Schema))
		}
		return list
	case "object":
		object := map[string]any{}
		for name, p := range s.Properties {
			if g.chance(85) {
				object[name] = g.value(&p)
			}
		}
		if s.AdditionalProperties != nil || g.chance(5) {
			for i := range g.IntN(4) {
				of := &upstream.JSONSchemaProps{}
				if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
					of = s.AdditionalProperties.Schema
				}
				object["x"+strconv.Itoa(i)] = g.value(of)
			}
		}
		return object
	}
	return []any{"a", int64(1), map[string]any{}, true}[g.IntN(4)]
}
