package custom_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/custom"
)

// TestUnusable: what structural schemas do not have makes a definition unusable at once, also deep inside, not when its
// first object comes.
func TestUnusable(t *testing.T) {
	text := "x"
	raw := func(text string) *apiextensionsv1.JSON { return &apiextensionsv1.JSON{Raw: []byte(text)} }
	below := map[string]apiextensionsv1.JSONSchemaProps{"x": {Type: "string"}}
	for name, s := range map[string]apiextensionsv1.JSONSchemaProps{
		"id":                     {Type: "object", ID: "x"},
		"$schema":                {Type: "object", Schema: "x"},
		"$ref":                   {Type: "object", Ref: &text},
		"patternProperties":      {Type: "object", PatternProperties: below},
		"dependencies":           {Type: "object", Dependencies: apiextensionsv1.JSONSchemaDependencies{"x": {Property: []string{"y"}}}},
		"additionalItems":        {Type: "object", AdditionalItems: &apiextensionsv1.JSONSchemaPropsOrBool{}},
		"definitions":            {Type: "object", Definitions: below},
		"a list of items":        {Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{JSONSchemas: []apiextensionsv1.JSONSchemaProps{{Type: "string"}}}},
		"nothing preserved":      {Type: "object", XPreserveUnknownFields: new(false)},
		"a default that is cut":  {Type: "object", Default: raw("{")},
		"an example that is cut": {Type: "object", Example: raw("{")},
		"a value that is cut":    {Type: "object", Enum: []apiextensionsv1.JSON{*raw("{")}},
	} {
		deep := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"list": {Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &s}},
		}}
		for where, props := range map[string]*apiextensionsv1.JSONSchemaProps{"at the root": &s, "below": &deep} {
			if _, err := newOf(props, false); !errors.Is(err, custom.ErrDefinition) || !strings.Contains(err.Error(), "version v1: ") {
				t.Errorf("%s %s: %v", name, where, err)
			}
		}
	}
	for _, value := range []string{`"x"`, "[]", "1"} {
		if _, err := newOf(&apiextensionsv1.JSONSchemaProps{Type: "object", Default: raw(value)}, false); !errors.Is(err, custom.ErrDefinition) {
			t.Errorf("an object of its own that is %s by default: %v", value, err)
		}
	}
	usable := apiextensionsv1.JSONSchemaProps{
		Type: "object", Default: raw("{}"), Example: raw("1"), Enum: []apiextensionsv1.JSON{*raw("{}")}, XPreserveUnknownFields: new(true),
	}
	if _, err := newOf(&usable, false); err != nil {
		t.Error(err)
	}
}

// newOf returns a kind with a schema, which no server has validated.
func newOf(props *apiextensionsv1.JSONSchemaProps, preserve bool) (*custom.Resource, error) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	crd.Name = "widgets.example.com"
	crd.Spec = apiextensionsv1.CustomResourceDefinitionSpec{
		Group: "example.com", Scope: apiextensionsv1.NamespaceScoped, PreserveUnknownFields: preserve,
		Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList"},
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true,
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: props}}},
	}
	return custom.New(crd, custom.Options{})
}

// TestListOfItems: kinds that preserve unknown fields may have a schema for each item of a list, and items are held to it.
func TestListOfItems(t *testing.T) {
	r, err := newOf(&apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
		"list": {Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{JSONSchemas: []apiextensionsv1.JSONSchemaProps{{Type: "string"}, {Type: "integer"}}}},
	}}, true)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, r.Storage().Validate(t.Context(), widget(t, "list: [a, 1]")), nil)
	if errs := r.Storage().Validate(t.Context(), widget(t, "list: [1, 1]")); len(errs) != 1 || errs[0].Field != "list[0]" {
		t.Errorf("a number in place of a text: %v", errs)
	}
}

// TestKindKeepsNumbers: no number becomes another when it is stored.
func TestKindKeepsNumbers(t *testing.T) {
	k := kindOf(t, `- {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}`)
	for _, number := range []string{"1e2", "-3.0", "1.5", "-0.5", "1e300", "9.3e18", "-9223372036854775808.0", "-9.3e18", "0.0"} {
		obj := k.New()
		data := `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"},"f":` + number + `,"l":[` + number + `]}`
		if _, err := k.Decode([]byte(data), obj); err != nil {
			t.Fatal(err)
		}
		k.Rules.Store(obj)
		want, err := strconv.ParseFloat(number, 64)
		if err != nil {
			t.Fatal(err)
		}
		content := obj.(object).Object
		for _, value := range []any{content["f"], content["l"].([]any)[0]} {
			n, ok := value.(float64)
			if whole, is := value.(int64); is {
				n, ok = float64(whole), true
			}
			if !ok || n != want {
				t.Errorf("%s was stored as %v", number, value)
			}
		}
	}
}

// TestKindDecodeRefuses: what is no object of the kind is refused as it is decoded.
func TestKindDecodeRefuses(t *testing.T) {
	k := kindOf(t, served)
	for data, missing := range map[string]bool{
		`null`: true, `{}`: true, `{"apiVersion":"example.com/v1"}`: true, `{"kind":""}`: true,
		`{`: false, `{"kind":1}`: true,
		`{"apiVersion":1,"kind":"Widget"}`:                                                      false,
		`{"apiVersion":"a/b/c","kind":"Widget"}`:                                                false,
		`{"apiVersion":"example.com/v1","kind":"Widget","metadata":1}`:                          false,
		`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"labels":{"a":1}}}`:         false,
		`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"creationTimestamp":"no"}}`: false,
	} {
		obj := k.New()
		if _, err := k.Decode([]byte(data), obj); err == nil || runtime.IsMissingKind(err) != missing || len(obj.(object).Object) > 0 {
			t.Errorf("%s: %v, read as %v", data, err, obj)
		}
	}
}

// TestKindDefaults: the rules set defaults, but not in an object that is of another kind.
func TestKindDefaults(t *testing.T) {
	k := kindOf(t, `- {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, default: {}, properties: {size: {type: integer, default: 1}}}}}}}`)
	obj := k.New()
	if err := obj.(object).UnmarshalJSON([]byte(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"}}`)); err != nil {
		t.Fatal(err)
	}
	other := obj.DeepCopyObject().(object)
	other.SetKind("Gadget")
	delete(obj.(object).Object, "apiVersion")
	delete(obj.(object).Object, "kind")
	if k.Rules.Default(obj); jsonOf(t, obj.(object).Object) != `{"metadata":{"name":"w"},"spec":{"size":1}}` {
		t.Errorf("became %v", obj)
	}
	if k.Rules.Default(other); other.Object["spec"] != nil || other.GetKind() != "Gadget" {
		t.Errorf("another kind became %v", other)
	}
}

// TestManagedFieldsWithoutSet: an entry that owns nothing stays as it is.
func TestManagedFieldsWithoutSet(t *testing.T) {
	k := kindOf(t, served)
	for _, entries := range []string{`[{"manager":"m"}]`, `[{"fieldsV1":{},"manager":"m"}]`, `[{"manager":"m"},{"fieldsV1":{"f:spec":{}},"manager":"n"}]`} {
		data := `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"managedFields":` + entries + `,"name":"w"}}`
		obj, err := k.DecodeStored([]byte(data))
		if err != nil {
			t.Fatal(err)
		}
		if got, _, _ := unstructured.NestedFieldNoCopy(obj.(object).Object, "metadata", "managedFields"); jsonOf(t, got) != entries {
			t.Errorf("%s was read as %s", entries, jsonOf(t, got))
		}
	}
}

// TestNullsHaveNoDefault: a null that stays, as no default replaces it, is not taken for a gap.
func TestNullsHaveNoDefault(t *testing.T) {
	v := define(t, `{type: object, properties: {a: {type: string, nullable: true}, b: {type: string, default: x}}}`, anything)
	if _, _, complete := v.Recognised(widget(t, "spec: {a: null, b: z}")); !complete {
		t.Error("an object with all its defaults is not known to have them")
	}
	if _, _, complete := v.Recognised(widget(t, "spec: {a: null, b: null}")); complete {
		t.Error("a null in place of a default is taken for one")
	}
}

// TestReadDashesInText: an indented line of dashes is part of a text, and begins no document.
func TestReadDashesInText(t *testing.T) {
	text := `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: as.example.com
  annotations:
    text: |
      one
      --- two
spec:
  group: example.com
  scope: Namespaced
  names: {kind: K, plural: as}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`
	crds, err := custom.Read([]byte(text))
	if err != nil || len(crds) != 1 || crds[0].Annotations["text"] != "one\n--- two\n" {
		t.Errorf("%d definitions, %v", len(crds), err)
	}
}

// TestKindThatConvertsCountsNoChange: an update that changes nothing keeps the generation without asking the webhook, and while
// that is down an object has no scale.
func TestKindThatConvertsCountsNoChange(t *testing.T) {
	crd := parseSpec(t, hook+`
- {name: v1, served: true, storage: true, schema: {openAPIV3Schema: `+anything+`}}
- {name: v2, served: true, storage: false, subresources: {status: {}, scale: {specReplicasPath: .spec.n, statusReplicasPath: .status.n, labelSelectorPath: .status.s}}, schema: {openAPIV3Schema: `+anything+`}}`)
	var down error
	calls := 0
	r, err := custom.New(crd, custom.Options{Converter: custom.ConverterFunc(func(_ context.Context, objs []object, to schema.GroupVersion) ([]object, error) {
		calls++
		for _, u := range objs {
			u.SetAPIVersion(to.String())
			u.Object["spec"] = map[string]any{"n": int64(3)}
			u.Object["status"] = map[string]any{"n": int64(2), "s": "a=b"}
		}
		return objs, down
	})})
	if err != nil {
		t.Fatal(err)
	}
	k := r.Kind()
	if len(k.Also) != 1 {
		t.Fatalf("%d further versions", len(k.Also))
	}
	v2 := k.Also[0]
	obj, old := received(t, k, "spec: {m: 1}").(object), received(t, k, "spec: {m: 1}").(object)
	old.SetGeneration(3)
	v2.Rules.PrepareUpdate(t.Context(), obj, old)
	if obj.GetGeneration() != 3 || calls != 0 {
		t.Errorf("generation %d after %d calls", obj.GetGeneration(), calls)
	}
	if n := v2.Sub.Scale.Spec(obj); n != 3 {
		t.Errorf("%d replicas", n)
	}
	if n, selector := v2.Sub.Scale.Status(obj); n != 2 || selector != "a=b" {
		t.Errorf("%d replicas of %q", n, selector)
	}
	if v2.Rules.Default != nil {
		t.Error("the rules set defaults in an object of another form")
	}
	down = errors.New("down")
	if n := v2.Sub.Scale.Spec(obj); n != 0 {
		t.Errorf("without the webhook: %d replicas", n)
	}
	if n, selector := v2.Sub.Scale.Status(obj); n != 0 || selector != "" {
		t.Errorf("without the webhook: %d replicas of %q", n, selector)
	}
	was := jsonOf(t, obj)
	if v2.Sub.Scale.Set(obj, 7); jsonOf(t, obj) != was {
		t.Errorf("without the webhook, scaled to %v", obj)
	}
	refused := []string{"<nil>: Internal error: conversion webhook for example.com/v1, Kind=Widget failed: down"}
	equal(t, v2.Rules.Validate(obj), refused)
	equal(t, v2.Rules.ValidateUpdate(obj, old), refused)
	equal(t, v2.Sub.Views["status"].ValidateUpdate(obj, old), refused)
}

// TestForeignKindIsRefused: an object that claims to be of another kind stays what it is until it is refused.
func TestForeignKindIsRefused(t *testing.T) {
	k := kindOf(t, twoVersions)
	v2, old := k.Also[0], received(t, k, "spec: {a: 1}")
	obj := old.DeepCopyObject().(object)
	obj.SetKind("Gadget")
	stored, err := v2.ToStored(t.Context(), obj)
	if err != nil || stored != registry.Object(obj) {
		t.Errorf("stored as %v, %v", stored, err)
	}
	if errs := v2.Rules.Validate(obj); len(errs) != 2 || errs[0].Field != "kind" || errs[1].Field != "apiVersion" {
		t.Errorf("refused with %v", errs)
	}
}

// TestNullInDefault: a default comes as it is in the definition, since objects are pruned before they get it.
func TestNullInDefault(t *testing.T) {
	r, err := newOf(&apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
		"spec": {Type: "object", Default: &apiextensionsv1.JSON{Raw: []byte(`{"a":null}`)}, Properties: map[string]apiextensionsv1.JSONSchemaProps{"a": {Type: "string"}}},
	}}, false)
	if err != nil {
		t.Fatal(err)
	}
	for spec, want := range map[string]string{``: `{"a":null}`, `,"spec":{"a":null}`: `{}`} {
		obj, _, err := r.Storage().Decode([]byte(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"}` + spec + `}`))
		if err != nil || jsonOf(t, obj.Object["spec"]) != want {
			t.Errorf("%s was decoded as %v, %v", spec, obj, err)
		}
	}
}

// TestReadDashesAfterBlank: a single blank is enough to make a line of dashes part of a text.
func TestReadDashesAfterBlank(t *testing.T) {
	text := `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
 name: as.example.com
 annotations: {text: "one
 --- two"}
spec:
 group: example.com
 scope: Namespaced
 names: {kind: K, plural: as}
 versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`
	crds, err := custom.Read([]byte(text))
	if err != nil || len(crds) != 1 || crds[0].Annotations["text"] != "one --- two" {
		t.Errorf("%d definitions, %v", len(crds), err)
	}
}

// TestConvertsAllAtOnce: the objects of a list are converted with one call of the webhook, and come back in order and without
// a type, as all objects of a registry.
func TestConvertsAllAtOnce(t *testing.T) {
	crd := parseSpec(t, hook+`
- {name: v1, served: true, storage: true, schema: {openAPIV3Schema: `+anything+`}}
- {name: v2, served: true, storage: false, schema: {openAPIV3Schema: `+anything+`}}`)
	calls := 0
	r, err := custom.New(crd, custom.Options{Converter: custom.ConverterFunc(func(_ context.Context, objs []object, to schema.GroupVersion) ([]object, error) {
		calls++
		for _, u := range objs {
			u.SetAPIVersion(to.String())
			u.Object["status"] = map[string]any{"was": u.Object["spec"]}
		}
		return objs, nil
	})})
	if err != nil {
		t.Fatal(err)
	}
	k := r.Kind()
	var stored []registry.Object
	for _, spec := range []string{"spec: {m: 1}", "spec: {m: 2}", "spec: {m: 3}"} {
		stored = append(stored, received(t, k, spec))
	}
	was := jsonOf(t, stored)
	all, err := k.Also[0].AllFromStored(t.Context(), stored)
	if err != nil || len(all) != 3 || calls != 1 {
		t.Fatalf("%d objects after %d calls, %v", len(all), calls, err)
	}
	for n, obj := range all {
		u := obj.(object)
		if got, want := jsonOf(t, u.Object["status"]), fmt.Sprintf(`{"was":{"m":%d}}`, n+1); got != want {
			t.Errorf("%d: status %s, want %s", n, got, want)
		}
		if u.GetKind() != "" || u.GetAPIVersion() != "" || u.GetName() == "" {
			t.Errorf("%d: %v", n, u.Object)
		}
	}
	if is := jsonOf(t, stored); is != was {
		t.Errorf("the stored objects became %s", is)
	}
}

// TestRulesTogether: rules that only kinds that preserve unknown fields may have are not forgotten where there are two of
// them.
func TestRulesTogether(t *testing.T) {
	one, other := []apiextensionsv1.JSONSchemaProps{{MaxProperties: new(int64(0))}}, apiextensionsv1.JSONSchemaProps{Type: "integer"}
	for name, s := range map[string]apiextensionsv1.JSONSchemaProps{
		"patterns and one of":            {PatternProperties: map[string]apiextensionsv1.JSONSchemaProps{"^a": other}, OneOf: one},
		"dependencies and one of":        {Dependencies: apiextensionsv1.JSONSchemaDependencies{"a": {Property: []string{"b"}}}, OneOf: one},
		"patterns and dependencies":      {PatternProperties: map[string]apiextensionsv1.JSONSchemaProps{"^a": other}, Dependencies: apiextensionsv1.JSONSchemaDependencies{"a": {Property: []string{"b"}}}},
		"one of":                         {OneOf: one},
		"patterns":                       {PatternProperties: map[string]apiextensionsv1.JSONSchemaProps{"^a": other}},
		"dependencies":                   {Dependencies: apiextensionsv1.JSONSchemaDependencies{"a": {Property: []string{"b"}}}},
		"two patterns and two of one of": {PatternProperties: map[string]apiextensionsv1.JSONSchemaProps{"^a": other, "^b": other}, OneOf: append(one, one...)},
	} {
		r, err := newOf(&apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": s}}, true)
		if err != nil {
			t.Fatal(err)
		}
		if errs := r.Storage().Validate(t.Context(), widget(t, "spec: {a: x}")); len(errs) == 0 {
			t.Errorf("%s: all is valid", name)
		}
	}
}
