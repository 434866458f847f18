package customresources_test

import (
	"fmt"
	"slices"
)

// names are those of properties: some need escaping in rules, some are special elsewhere.
var names = []string{"a", "b", "c", "d", "name", "x-y", "if", "my.dot", "size", "__u", "replicas", "metadata", "kind", "$s"}

// formats have values that match and one that does not.
var formats = map[string][]string{
	"date-time": {"2024-01-02T03:04:05Z", "2024-01-02T03:04:05.123+02:00", "2024-01-02"},
	"date":      {"2024-02-29", "2023-02-29"}, "duration": {"1h5m", "3 days", "1x"},
	"email": {"a@example.com", "a@"}, "ipv4": {"10.0.0.1", "10.0.0.256"}, "ipv6": {"::1", "fe80::g"}, "cidr": {"10.0.0.0/8", "10.0.0.0"},
	"uri": {"http://example.com/x?y=1", "%zz"}, "uuid": {"c5c2d9a4-1c4d-4d2b-8b3c-0f0b6f0d8f3e", "c5c2"}, "byte": {"YWJj", "###"},
	"hostname": {"a.example.com", "-a"}, "mac": {"00:00:5e:00:53:01", "00:00"}, "k8s-short-name": {"abc", "a.b"}, "k8s-long-name": {"a.b", "A"},
	"bsonobjectid": {"507f1f77bcf86cd799439011", "5"}, "hexcolor": {"#ffffff", "ff"}, "isbn": {"0321751043", "12"}, "password": {"secret"},
	"ssn": {"111-11-1111", "1"}, "rgbcolor": {"rgb(1,2,3)", "rgb"}, "creditcard": {"4111111111111111", "4"}, "uuid4": {"025b0d74-00a2-4048-bf57-227c5111bb34", "4"},
	"int32": {"1"}, "datetime": {"2024-01-02T03:04:05Z", "1"}, "weird": {"x"}, "int-or-string": {"1"},
}

var formatNames = func() []string {
	var all []string
	for f := range formats {
		all = append(all, f)
	}
	slices.Sort(all)
	return all
}()

var patterns = map[string][]string{
	"^[a-z]+$": {"abc", "Abc"}, "^a": {"ab", "b"}, "[0-9]{1,3}$": {"x12", "x"}, `^\d+\.\d+$`: {"1.2", "12"}, "": {"any"}, "^(a|b)*$": {"abba", "c"},
}

var patternNames = []string{"^[a-z]+$", "^a", "[0-9]{1,3}$", `^\d+\.\d+$`, "", "^(a|b)*$"}

// schemas makes schemas.
type schemas struct {
	random
	bounded      bool    // lengths are limited, so that rules stay within their budget
	rules, logic float64 // how often a schema has rules, and anyOf and the like
	defaults     float64
}

func newSchemas(r random) *schemas {
	return &schemas{
		random: r, bounded: r.chance(0.85), rules: one(r, 0, 0.1, 0.25), logic: one(r, 0, 0.05, 0.15), defaults: one(r, 0, 0.1, 0.3),
	}
}

// schema returns a structural schema.
func (g *schemas) schema(depth int) m {
	var s m
	switch n := g.IntN(20); {
	case depth > 0 && n < 7:
		s = g.object(depth)
	case depth > 0 && n < 11:
		s = g.array(depth)
	case n < 13:
		s = g.str()
	case n < 15:
		s = g.number("integer")
	case n < 16:
		s = g.number("number")
	case n < 17:
		s = m{"type": "boolean"}
	case n < 18:
		s = m{"x-kubernetes-int-or-string": true}
		if g.chance(0.3) {
			s["anyOf"] = l{m{"type": "integer"}, m{"type": "string"}}
		} else if g.chance(0.2) {
			s["allOf"] = l{m{"anyOf": l{m{"type": "integer"}, m{"type": "string"}}}, m{"pattern": "^[0-9]+%?$"}}
		}
		if g.bounded {
			s["maxLength"] = 10
		}
	case n < 19:
		s = m{"x-kubernetes-preserve-unknown-fields": true}
		if g.chance(0.5) {
			s["type"] = "object"
		}
	default:
		s = g.embedded(depth)
	}
	if g.chance(0.12) {
		s["nullable"] = true
	}
	if g.chance(0.1) {
		s["description"] = "words"
	}
	if g.chance(g.logic) {
		g.addLogic(s)
	}
	if g.chance(g.defaults) {
		s["default"] = (&values{g.random, 0.02}).value(s)
	}
	if g.chance(g.rules) {
		s["x-kubernetes-validations"] = g.rulesFor(s)
	}
	return s
}

func (g *schemas) object(depth int) m {
	s := m{"type": "object"}
	if g.chance(0.25) { // a map
		s["additionalProperties"] = g.schema(depth - 1)
		if g.bounded || g.chance(0.3) {
			s["maxProperties"] = 1 + g.IntN(5)
		}
		if g.chance(0.1) {
			s["minProperties"] = 1
		}
	} else {
		properties := m{}
		for _, k := range some(g.random, 1+g.IntN(4), names[:11]...) {
			properties[k] = g.schema(depth - 1)
		}
		s["properties"] = properties
		if g.chance(0.3) {
			required := l{}
			for _, k := range some(g.random, 1+g.IntN(2), keys(properties)...) {
				required = append(required, k)
			}
			s["required"] = required
		}
		if g.chance(0.1) {
			s["x-kubernetes-preserve-unknown-fields"] = true
		}
	}
	if g.chance(0.1) {
		s["x-kubernetes-map-type"] = one(g.random, "atomic", "granular")
	}
	return s
}

func (g *schemas) array(depth int) m {
	s := m{"type": "array"}
	items := g.schema(depth - 1)
	switch n := g.IntN(8); {
	case n < 2:
		s["x-kubernetes-list-type"] = "atomic"
	case n < 4:
		s["x-kubernetes-list-type"] = "set"
		if g.chance(0.9) {
			items = one(g.random, g.str, func() m { return g.number("integer") })()
		}
	case n < 6:
		s["x-kubernetes-list-type"] = "map"
		properties, list, required := m{}, l{}, l{}
		for _, k := range some(g.random, 1+g.IntN(2), "a", "b", "x-y") {
			properties[k] = one(g.random, g.str, func() m { return g.number("integer") })()
			list = append(list, k)
			if g.chance(0.2) {
				properties[k].(m)["default"] = (&values{g.random, 0}).value(properties[k].(m))
			} else {
				required = append(required, k)
			}
		}
		for _, k := range some(g.random, g.IntN(3), "c", "d") {
			properties[k] = g.schema(depth - 1)
		}
		s["x-kubernetes-list-map-keys"] = list
		items = m{"type": "object", "properties": properties}
		if len(required) > 0 {
			items["required"] = required
		}
	}
	s["items"] = items
	if g.bounded || g.chance(0.3) {
		s["maxItems"] = 1 + g.IntN(5)
	}
	if g.chance(0.15) {
		s["minItems"] = g.IntN(2)
	}
	return s
}

func (g *schemas) embedded(depth int) m {
	s := m{"type": "object", "x-kubernetes-embedded-resource": true}
	if g.chance(0.6) || depth == 0 {
		s["x-kubernetes-preserve-unknown-fields"] = true
	} else {
		s["properties"] = m{"a": g.schema(0), "metadata": m{"type": "object"}}
	}
	return s
}

func (g *schemas) str() m {
	s := m{"type": "string"}
	switch n := g.IntN(10); {
	case n < 2:
		s["format"] = one(g.random, formatNames...)
	case n < 4:
		s["enum"] = one(g.random, l{"a", "b"}, l{"a", "abc", "Z"}, l{""}, l{"x", "2"})
	case n < 5:
		s["pattern"] = one(g.random, patternNames...)
	case n < 6:
		s["minLength"] = g.IntN(3)
	}
	if g.bounded || g.chance(0.3) {
		s["maxLength"] = 3 + g.IntN(40)
	}
	return s
}

func (g *schemas) number(kind string) m {
	s := m{"type": kind}
	switch n := g.IntN(10); {
	case n < 2:
		s["minimum"] = g.IntN(5) - 2
		if g.chance(0.3) {
			s["exclusiveMinimum"] = true
		}
	case n < 4:
		s["maximum"] = g.IntN(30) + 2
		if g.chance(0.3) {
			s["exclusiveMaximum"] = true
		}
	case n < 5:
		s["multipleOf"] = one[any](g.random, 2, 3, 0.5)
	case n < 6:
		s["enum"] = l{1, 2, 5}
	case n < 8:
		s["format"] = one(g.random, "int32", "int64", "float", "double")
	}
	return s
}

// only returns a schema without structure, for below anyOf and the like.
func (g *schemas) only(s m, depth int) m {
	properties, _ := s["properties"].(m)
	items, _ := s["items"].(m)
	switch s["type"] {
	case "string":
		return one(g.random, m{"pattern": "^a"}, m{"minLength": 2}, m{"maxLength": 4}, m{"enum": l{"a", "b"}}, m{"format": "date"})
	case "integer", "number":
		return one(g.random, m{"minimum": 3}, m{"maximum": 10}, m{"enum": l{1, 2}}, m{"multipleOf": 2})
	case "boolean":
		return m{"enum": l{true}}
	case "array":
		if depth > 0 && items != nil && g.chance(0.5) {
			return m{"items": g.only(items, depth-1)}
		}
		return one(g.random, m{"minItems": 1}, m{"maxItems": 2})
	case "object":
		if depth > 0 && len(properties) > 0 && g.chance(0.5) {
			k := one(g.random, keys(properties)...)
			return m{"properties": m{k: g.only(properties[k].(m), depth-1)}}
		}
		if len(properties) > 0 {
			return m{"required": l{one(g.random, keys(properties)...)}}
		}
		return one(g.random, m{"minProperties": 1}, m{"maxProperties": 2})
	}
	return m{"enum": l{"a", 1}}
}

func (g *schemas) addLogic(s m) {
	switch g.IntN(4) {
	case 0:
		if s["anyOf"] == nil {
			s["anyOf"] = l{g.only(s, 2), g.only(s, 2)}
		}
	case 1:
		s["oneOf"] = l{g.only(s, 2), g.only(s, 2)}
	case 2:
		if s["allOf"] == nil {
			s["allOf"] = l{m{"anyOf": l{g.only(s, 1), g.only(s, 1)}}}
		}
	default:
		s["not"] = g.only(s, 2)
	}
}

// subschemas lists the structural schemas in a schema, itself first.
func subschemas(s m) []m {
	all := []m{s}
	if properties, ok := s["properties"].(m); ok {
		for _, k := range keys(properties) {
			if p, ok := properties[k].(m); ok {
				all = append(all, subschemas(p)...)
			}
		}
	}
	for _, k := range []string{"items", "additionalProperties"} {
		if p, ok := s[k].(m); ok {
			all = append(all, subschemas(p)...)
		}
	}
	return all
}

// odd changes a schema so that it may be invalid.
func (g *schemas) odd(root m) {
	s := one(g.random, subschemas(root)...)
	edits := []m{
		{"type": nil}, {"type": "null"}, {"type": "strange"}, {"type": "object"}, {"type": "string"}, {"uniqueItems": true}, {"additionalProperties": false},
		{"additionalProperties": true}, {"additionalProperties": m{"type": "string"}}, {"$ref": "#/x"}, {"nullable": true}, {"default": g.anything(1)},
		{"x-kubernetes-list-type": one(g.random, "set", "map", "atomic", "other")}, {"x-kubernetes-list-map-keys": one(g.random, l{"a"}, l{"a", "a"}, l{"zz"}, l{})},
		{"x-kubernetes-map-type": "other"}, {"items": l{m{"type": "string"}}}, {"items": nil}, {"x-kubernetes-int-or-string": true}, {"pattern": "("},
		{"x-kubernetes-embedded-resource": true}, {"x-kubernetes-preserve-unknown-fields": false}, {"x-kubernetes-preserve-unknown-fields": true},
		{"anyOf": l{m{"type": "string"}}}, {"oneOf": l{m{"properties": m{"zz": m{"type": "string"}}}}}, {"not": m{"default": 1}}, {"allOf": l{m{"description": "x"}}},
		{"allOf": l{m{"nullable": true}}}, {"anyOf": l{m{"additionalProperties": m{"type": "string"}}}}, {"not": m{"x-kubernetes-validations": l{m{"rule": "true"}}}},
		{"minLength": -1}, {"minimum": 9, "maximum": 1}, {"multipleOf": 0}, {"multipleOf": -2}, {"enum": l{}}, {"enum": l{1, 1}}, {"enum": g.anything(1)}, {"required": l{}}, {"required": l{"a", "a"}},
		{"required": l{"zz"}}, {"minItems": 5, "maxItems": 1}, {"format": "weird"}, {"x-kubernetes-validations": g.rulesFor(m{"type": one(g.random, "string", "object", "integer")})},
		{"x-kubernetes-validations": g.rulesFor(s)}, {"id": "x"}, {"$schema": "x"}, {"patternProperties": m{"^a": m{"type": "string"}}}, {"definitions": m{"a": m{"type": "string"}}},
		{"dependencies": m{"a": l{"b"}}}, {"additionalItems": true}, {"unknown": 1}, {"properties": m{"metadata": m{"type": "object", "properties": m{"name": m{"type": "string", "maxLength": 5}, "labels": m{"type": "object"}}}}},
		{"properties": m{"apiVersion": m{"type": "string", "enum": l{"v1"}}, "kind": m{"type": "integer"}}}, {"minProperties": 3}, {"example": m{"a": 1}}, {"externalDocs": m{"url": "x"}}, {"title": "t"},
		{"exclusiveMinimum": true}, {"maxLength": 1.5}, {"maxItems": "1"}, {"maxLength": 99999999}, {"maxItems": 9999999}, {"x-kubernetes-validations": l{}},
	}
	for k, v := range one(g.random, edits...) {
		if v == nil {
			delete(s, k)
		} else {
			s[k] = v
		}
	}
}

// tighten adds a rule that objects may already break.
func (g *schemas) tighten(root m) {
	s := one(g.random, subschemas(root)[1:]...)
	switch g.IntN(4) {
	case 0:
		s["x-kubernetes-validations"] = g.rulesFor(s)
	case 1:
		if properties, ok := s["properties"].(m); ok && s["x-kubernetes-list-map-keys"] == nil {
			s["required"] = l{one(g.random, keys(properties)...)}
			return
		}
		fallthrough
	default:
		for k, v := range g.only(s, 0) {
			if k == "enum" && s["default"] != nil || k == "required" {
				continue
			}
			s[k] = v
		}
	}
}

// values makes values of schemas.
type values struct {
	random
	wrong float64 // how often a value does not match
}

func (g *values) value(s m) any {
	if g.chance(g.wrong) {
		return g.anything(2)
	}
	if s["nullable"] == true && g.chance(0.15) {
		return nil
	}
	if enum, ok := s["enum"].(l); ok && len(enum) > 0 {
		return one(g.random, enum...)
	}
	if s["x-kubernetes-int-or-string"] == true {
		return one[any](g.random, 5, "50%", "7", "abc", 0)
	}
	if s["x-kubernetes-embedded-resource"] == true {
		return g.embedded(s)
	}
	switch s["type"] {
	case "object":
		return g.object(s)
	case "array":
		items, _ := s["items"].(m)
		out := l{}
		for i := range g.IntN(1 + g.limit(s, "maxItems", 4)) {
			item := g.value(items)
			if o, ok := item.(m); ok && s["x-kubernetes-list-type"] == "map" && g.chance(0.7) {
				for k, v := range o {
					if text, ok := v.(string); ok && k == "a" {
						o[k] = fmt.Sprint(text, i)
					}
				}
			}
			out = append(out, item)
		}
		return out
	case "string":
		return g.str(s)
	case "integer":
		if s["multipleOf"] != nil {
			return 6 * g.IntN(3)
		}
		return g.IntN(12)
	case "number":
		return one[any](g.random, g.IntN(12), float64(g.IntN(24))/2, 0.25)
	case "boolean":
		return g.chance(0.5)
	}
	return g.anything(2)
}

func (g *values) limit(s m, key string, usual int) int {
	switch n := s[key].(type) {
	case int:
		return min(n, usual)
	case float64:
		return max(0, min(int(n), usual))
	}
	return usual
}

func (g *values) object(s m) any {
	out := m{}
	if properties, ok := s["properties"].(m); ok {
		required, _ := s["required"].(l)
		for _, k := range keys(properties) {
			p, ok := properties[k].(m)
			if ok && (slices.Contains(required, any(k)) || g.chance(0.65)) {
				out[k] = g.value(p)
			}
		}
	}
	if additional, ok := s["additionalProperties"].(m); ok {
		for range g.IntN(1 + g.limit(s, "maxProperties", 3)) {
			out[one(g.random, "a", "b", "key", "x/y", "K", "~0")] = g.value(additional)
		}
	}
	if s["x-kubernetes-preserve-unknown-fields"] == true && g.chance(0.5) {
		out[one(g.random, "unknown", "a", "b")] = g.anything(2)
	}
	return out
}

func (g *values) embedded(s m) any {
	out := m{"apiVersion": "v1", "kind": "ConfigMap", "metadata": m{"name": "inner"}}
	if g.chance(0.3) {
		out["metadata"] = one[any](g.random, m{}, m{"name": "Bad_Name"}, m{"name": "x", "labels": m{"a": "b"}, "extra": 1}, m{"name": "x", "labels": m{"a": 1}},
			m{"name": "x", "creationTimestamp": nil}, m{"name": "x", "namespace": "-"}, "text", m{"name": "x", "finalizers": l{"a"}}, m{"name": 5})
	}
	if g.chance(0.15) {
		delete(out, one(g.random, "apiVersion", "kind", "metadata"))
	}
	if g.chance(0.1) {
		out[one(g.random, "apiVersion", "kind")] = one[any](g.random, "", "a/b/c", "x y", 1)
	}
	for k, v := range g.object(s).(m) {
		if k != "metadata" {
			out[k] = v
		}
	}
	return out
}

func (g *values) str(s m) any {
	if f, ok := s["format"].(string); ok && len(formats[f]) > 0 {
		if g.chance(0.9) {
			return formats[f][0]
		}
		return one(g.random, formats[f]...)
	}
	if p, ok := s["pattern"].(string); ok && len(patterns[p]) > 0 {
		if g.chance(0.9) {
			return patterns[p][0]
		}
		return one(g.random, patterns[p]...)
	}
	return one(g.random, "a", "ab", "abc", "abc", "b", "name", "10", "A", "a,b")
}
