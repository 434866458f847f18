package custom_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/keelson-dev/keelson/registry/custom"
)

type props = apiextensionsv1.JSONSchemaProps

// nestings are the ways to nest a schema in itself.
func nestings() map[string]func(inner props) props {
	return map[string]func(props) props{
		"properties": func(s props) props { return props{Type: "object", Properties: map[string]props{"a": s}} },
		"pattern properties": func(s props) props {
			return props{Type: "object", PatternProperties: map[string]props{"a": s}}
		},
		"definitions": func(s props) props { return props{Type: "object", Definitions: map[string]props{"a": s}} },
		"dependencies": func(s props) props {
			return props{Type: "object", Dependencies: map[string]apiextensionsv1.JSONSchemaPropsOrStringArray{"a": {Schema: &s}}}
		},
		"additional properties": func(s props) props {
			return props{Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Schema: &s}}
		},
		"additional items": func(s props) props {
			return props{Type: "array", AdditionalItems: &apiextensionsv1.JSONSchemaPropsOrBool{Schema: &s}}
		},
		"items": func(s props) props {
			return props{Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &s}}
		},
		"tuples": func(s props) props {
			return props{Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{JSONSchemas: []props{{}, s}}}
		},
		"not":    func(s props) props { return props{Type: "object", Not: &s} },
		"all of": func(s props) props { return props{Type: "object", AllOf: []props{s}} },
		"any of": func(s props) props { return props{Type: "object", AnyOf: []props{{}, s}} },
		"one of": func(s props) props { return props{Type: "object", OneOf: []props{{}, s}} },
	}
}

// withSchema returns a definition with a schema.
func withSchema(s props) *apiextensionsv1.CustomResourceDefinition {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	crd.Name = "widgets.example.com"
	crd.Spec.Group, crd.Spec.Scope = "example.com", "Namespaced"
	crd.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Kind: "Widget", Plural: "widgets"}
	crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{
		Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &s},
	}}
	return crd
}

func nest(depth int, s props, in func(props) props) props {
	for range depth - 1 {
		s = in(s)
	}
	return s
}

// TestDeep: schemas may be nested, but not without end.
func TestDeep(t *testing.T) {
	for name, in := range nestings() {
		t.Run(name, func(t *testing.T) {
			_, err := custom.New(withSchema(nest(501, props{Type: "string"}, in)), custom.Options{})
			if !errors.Is(err, custom.ErrDefinition) || !strings.Contains(err.Error(), "nested more than 500 deep") {
				t.Errorf("501 levels: %v", err)
			}
			if _, err = custom.New(withSchema(nest(500, props{Type: "string"}, in)), custom.Options{}); err != nil && strings.Contains(err.Error(), "nested") {
				t.Errorf("500 levels: %v", err)
			}
		})
	}
	text := func(depth int) []byte {
		crd := withSchema(nest(depth, props{Type: "string"}, nestings()["properties"]))
		crd.APIVersion, crd.Kind = "apiextensions.k8s.io/v1", "CustomResourceDefinition"
		return []byte(strings.Replace(jsonOf(t, crd), `,"status":{"conditions":null,"acceptedNames":{"plural":"","kind":""},"storedVersions":null}`, "", 1))
	}
	if _, err := custom.Read(text(501)); !errors.Is(err, custom.ErrDefinition) || !strings.Contains(err.Error(), "nested more than 500 deep") {
		t.Errorf("501 levels: %v", err)
	}
	crds, err := custom.Read(text(100))
	if err != nil {
		t.Fatal(err)
	}
	v := storage(t, crds[0])
	u := widget(t, "a: "+strings.Repeat("{a: ", 98)+"x"+strings.Repeat("}", 98))
	if unknown, err := v.Prune(u); len(unknown) > 0 || err != nil {
		t.Errorf("pruned %q, %v", unknown, err)
	}
	equal(t, v.Validate(context.Background(), u), nil)
}

// TestManyRules: the rules of a version cannot take minutes to compile.
func TestManyRules(t *testing.T) {
	ruled := func(n int) *apiextensionsv1.CustomResourceDefinition {
		s := props{Type: "string"}
		for range n {
			s.XValidations = append(s.XValidations, rule("true"))
		}
		return withSchema(nest(3, s, nestings()["properties"]))
	}
	if _, err := custom.New(ruled(2001), custom.Options{}); !errors.Is(err, custom.ErrDefinition) || !strings.Contains(err.Error(), "more than 2000 CEL rules") {
		t.Errorf("2001 rules: %v", err)
	}
	if _, err := custom.New(ruled(2000), custom.Options{}); err != nil {
		t.Errorf("2000 rules: %v", err)
	}
}

// TestWide: the branches of a schema do not multiply.
func TestWide(t *testing.T) {
	in := func(s props) props {
		s.Type = ""
		return props{Type: "object", Properties: map[string]props{"a": {Type: "object", XPreserveUnknownFields: new(true)}}, AnyOf: []props{
			{Properties: map[string]props{"a": s}}, {Properties: map[string]props{"a": s}},
		}}
	}
	crd := withSchema(nest(10, props{Required: []string{"b"}}, in))
	crd.Spec.Versions[0].Schema.OpenAPIV3Schema.XPreserveUnknownFields = new(true)
	crd.Spec.PreserveUnknownFields = true
	v := storage(t, crd)
	if errs := v.Validate(context.Background(), widget(t, "a: "+strings.Repeat("{a: ", 8)+"{}"+strings.Repeat("}", 8))); len(errs) == 0 {
		t.Error("accepted")
	}
}

// FuzzSchema interprets definitions from anywhere, and what they say about objects from anywhere.
func FuzzSchema(f *testing.F) {
	for _, seed := range [][2]string{
		{`{"type":"object"}`, `{}`},
		{`{"type":"object","properties":{"spec":{"type":"object","default":{"a":1},"properties":{"a":{"type":"integer","default":2}}}}}`, `{"spec":null}`},
		{`{"type":"object","x-kubernetes-preserve-unknown-fields":true,"x-kubernetes-validations":[{"rule":"self.spec.all(k, self.spec[k] > 0)"}]}`, `{"spec":{"a":1}}`},
		{`{"type":"object","properties":{"l":{"type":"array","maxItems":9,"x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],"items":{"type":"object","required":["k"],"properties":{"k":{"type":"string"}},"x-kubernetes-validations":[{"rule":"self == oldSelf"}]}}}}`, `{"l":[{"k":"a"},{"k":"a"},null]}`},
		{`{"type":"object","properties":{"p":{"x-kubernetes-int-or-string":true,"anyOf":[{"type":"integer"},{"type":"string"}]}}}`, `{"p":1.5}`},
		{`{"type":"object","properties":{"o":{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true}}}`, `{"o":{"metadata":{"labels":1}}}`},
		{`{"type":"object","properties":{"s":{"type":"string","format":"date-time","pattern":"(","enum":["x"],"maxLength":-1}}}`, `{"s":""}`},
		{`{"type":"object","additionalProperties":{"type":"object","nullable":true}}`, `{"metadata":{"name":1},"x":null}`},
	} {
		f.Add([]byte(seed[0]), []byte(seed[1]))
	}
	f.Fuzz(func(t *testing.T, schema, content []byte) {
		if len(schema) > 1<<12 || len(content) > 1<<12 {
			return
		}
		crds, err := custom.Read([]byte(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.example.com"},"spec":{"group":"example.com","scope":"Namespaced",
			"names":{"kind":"Widget","plural":"widgets"},"versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{}},"schema":{"openAPIV3Schema":` + string(schema) + `}}]}}`))
		if err != nil || len(crds) != 1 {
			return
		}
		exercise(t, crds[0], content)
	})
}

// exercise applies a definition to an object.
func exercise(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition, content []byte) {
	t.Helper()
	r, err := custom.New(crd, custom.Options{})
	if err != nil {
		t.Fatalf("a valid definition: %v", err)
	}
	v := r.Storage()
	u, _, err := v.Decode(content)
	if err != nil {
		return
	}
	u.SetGroupVersionKind(v.GroupVersionKind())
	if _, err := v.Prune(u); err != nil {
		return
	}
	v.Default(u)
	once := jsonOf(t, u)
	if unknown, err := v.Prune(u); len(unknown) > 0 || err != nil {
		t.Fatalf("defaults are pruned: %q %v", unknown, err)
	}
	if v.Default(u); jsonOf(t, u) != once {
		t.Fatalf("the second time, the defaults of\n%s are\n%s", once, jsonOf(t, u))
	}
	_ = v.Validate(t.Context(), u).ToAggregate()
	old := u.DeepCopy()
	_ = v.ValidateUpdate(t.Context(), u, old).ToAggregate()
	_ = v.ValidateStatusUpdate(t.Context(), u, old).ToAggregate()
	if jsonOf(t, u) != once {
		t.Fatalf("validation changed the object to %s", jsonOf(t, u))
	}
	k := r.Kind()
	k.Rules.Default(u)
	_ = k.Rules.Validate(u).ToAggregate()
}

// FuzzRule compiles and evaluates expressions from anywhere, as rules that a server stored before it knew costs.
func FuzzRule(f *testing.F) {
	for _, seed := range []string{
		`self.l.all(a, self.l.all(b, self.l.all(c, a < b)))`, `self.s.matches('(a*)*b')`, `self.l.map(x, self.l.map(y, x + y)).size() > 0`,
		`quantity(self.s).isGreaterThan(quantity('1Ki'))`, `self.s + self.s == oldSelf.s`, `[1,2,3].sum() > 1`, `self.m.exists(k, k == 'a')`, `((((((`, `1/0 == 1`,
		`optional.of(self.s).hasValue()`, `format.dns1123Label().validate(self.s).hasValue()`, `self.?x.orValue(1) == 1`, `'x'.replace('x', 'y', -1) == ''`,
	} {
		f.Add(seed, seed)
	}
	list := "[" + strings.TrimSuffix(strings.Repeat("1, ", 50), ", ") + "]"
	f.Fuzz(func(t *testing.T, text, message string) {
		if len(text) > 1<<10 || len(message) > 1<<10 {
			return
		}
		crd := withSchema(props{Type: "object", Properties: map[string]props{
			"s": {Type: "string"}, "l": {Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &props{Type: "integer"}}},
			"m": {Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Schema: &props{Type: "string"}}},
		}, XValidations: apiextensionsv1.ValidationRules{{Rule: text, MessageExpression: message}}})
		v := storage(t, crd)
		u := widget(t, "s: aaaaaaaaaaaaaaaaaaaaaaaa\nl: "+list+"\nm: {a: b}")
		before := jsonOf(t, u)
		_ = v.Validate(t.Context(), u).ToAggregate()
		_ = v.ValidateUpdate(t.Context(), u, widget(t, "")).ToAggregate()
		if jsonOf(t, u) != before {
			t.Fatalf("the rule changed the object to %s", jsonOf(t, u))
		}
	})
}
