package custom_test

import (
	"maps"
	"math"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/keelson-dev/keelson/registry/custom"
)

// TestRecognised: ordinary objects are known to be in order without a library. TestStepsLeftOut says that nothing else is.
func TestRecognised(t *testing.T) {
	for _, tt := range []struct {
		spec string
		in   []string
	}{
		{`{type: string, minLength: 2, maxLength: 3}`, []string{"ab", "abc", "äöü"}},
		{`{type: string, minLength: 2}`, []string{"ab"}},
		{`{type: string, pattern: ^a}`, []string{"abc"}},
		{`{type: string, format: date}`, []string{"'2024-01-02'"}},
		{`{type: string, enum: [a, b]}`, []string{"a", "b"}},
		{`{type: string, nullable: true}`, []string{"null", "a"}},
		{`{type: string, anyOf: [{maxLength: 1}, {pattern: ^a}]}`, []string{"x", "abc"}},
		{`{type: boolean}`, []string{"true", "false"}},
		{`{type: integer}`, []string{"0", "-9223372036854775808", "9223372036854775807"}},
		{`{type: integer, format: int32}`, []string{"-2147483648", "2147483647"}},
		{`{type: integer, format: int64}`, []string{"9223372036854775807"}},
		{`{type: integer, minimum: 3, maximum: 5}`, []string{"3", "4", "5"}},
		{`{type: integer, minimum: 3, maximum: 5, exclusiveMinimum: true, exclusiveMaximum: true}`, []string{"4"}},
		{`{type: integer, minimum: -2147483648, maximum: 2147483647}`, []string{"-2147483648", "2147483647"}},
		{`{type: integer, allOf: [{minimum: 3}, {maximum: 5}]}`, []string{"4"}},
		{`{type: number, minimum: 3, maximum: 5}`, []string{"3", "3.5", "5"}},
		{`{type: number, format: double}`, []string{"3.5"}},
		{`{x-kubernetes-int-or-string: true}`, []string{"80", "80%"}},
		{`{type: array, items: {type: string}, minItems: 1, maxItems: 2}`, []string{"[a]", "[a, b]"}},
		{`{type: array, items: {type: object, properties: {a: {type: string}}}}`, []string{"[]", "[{}, {a: x}]"}},
		{`{type: array, items: {type: array, items: {type: integer}}}`, []string{"[[], [1]]"}},
		{`{type: object, required: [a], properties: {a: {type: string}, b: {type: string}}}`, []string{"{a: x}", "{a: x, b: z}"}},
		{`{type: object, properties: {a: {type: string}, b: {type: string}}, minProperties: 1, maxProperties: 1}`, []string{"{a: x}", "{b: z}"}},
		{`{type: object, additionalProperties: {type: string}}`, []string{"{}", "{a: x}"}},
		{`{type: object, x-kubernetes-preserve-unknown-fields: true}`, []string{"{a: {b: [1, null]}}"}},
		{`{type: object, x-kubernetes-preserve-unknown-fields: true, properties: {a: {type: string}}}`, []string{"{a: x, b: {c: 1}}"}},
		{`{type: object, properties: {a: {type: string, default: x}, o: {type: object, properties: {b: {type: integer, default: 1}}}}}`, []string{"{a: z}", "{a: z, o: {b: 2}}"}},
		{`{type: array, items: {type: object, properties: {a: {type: string, default: x}}}}`, []string{"[]", "[{a: z}]"}},
	} {
		v := define(t, tt.spec, anything)
		for _, in := range tt.in {
			u := widget(t, "spec: "+in)
			// A null that a schema allows and does not replace is not worth knowing.
			if valid, pruned, complete := v.Recognised(u); !valid || !pruned && in != "null" || !complete {
				t.Errorf("%s of %s: valid %t, pruned %t, complete %t", in, tt.spec, valid, pruned, complete)
			}
		}
	}
}

// TestRecognisedMetadata: metadata in its usual form is known to be in it.
func TestRecognisedMetadata(t *testing.T) {
	whole := map[string]any{
		"name": "a", "generateName": "a-", "namespace": "ns", "selfLink": "/a", "uid": "u", "resourceVersion": "1",
		"generation": int64(3), "deletionGracePeriodSeconds": int64(0),
		"creationTimestamp": "2026-01-02T03:04:05Z", "deletionTimestamp": "2026-01-02T03:04:05Z",
		"labels": map[string]any{"a": "b"}, "annotations": map[string]any{"a": ""}, "finalizers": []any{"a", "b"},
		"ownerReferences": []any{
			map[string]any{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": true, "blockOwnerDeletion": false},
			map[string]any{"apiVersion": "", "kind": "", "name": "", "uid": ""},
		},
		"managedFields": []any{map[string]any{
			"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "subresource": "status", "time": "2026-01-02T03:04:05Z",
			"fieldsV1": map[string]any{"f:a": map[string]any{".": map[string]any{}}},
		}},
	}
	if !custom.Canonical(whole) {
		t.Error("the whole is not known")
	}
	for _, odd := range []any{
		nil, map[string]any{}, map[string]any{"labels": map[string]any{"\xff": "a"}}, map[string]any{"labels": map[string]any{"a": "\xff"}},
		map[string]any{"managedFields": []any{map[string]any{"fieldsV1": map[string]any{"\xff": map[string]any{}}}}},
	} {
		if custom.Canonical(odd) {
			t.Errorf("%v is known", odd)
		}
	}
	for name, value := range maps.All(whole) {
		if !custom.Canonical(map[string]any{name: value}) {
			t.Errorf("%s is not known", name)
		}
	}
}

// TestBoundsOfNumbers: numbers are compared with bounds as upstream's library does, which is not always as numbers are.
func TestBoundsOfNumbers(t *testing.T) {
	values := []any{int64(1), int64(2), int64(-1), int64(-2), int64(1) << 31, int64(1) << 40, int64(math.MaxInt64), int64(math.MinInt64), 1.5, -1.5, 1.0, 2.5, 1e18, 1e300}
	refused := 0
	for _, bound := range []float64{0, 1, 1.5, -1.5, 1 << 31, 1 << 40, 1e18, math.MaxInt64, 1e300} {
		for _, exclusive := range []bool{false, true} {
			for _, s := range []apiextensionsv1.JSONSchemaProps{
				{Minimum: &bound, ExclusiveMinimum: exclusive}, {Maximum: &bound, ExclusiveMaximum: exclusive},
			} {
				s.Type = "number"
				v, validator, _ := bothVersions(t, &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"n": s}})
				for _, n := range values {
					obj := &unstructured.Unstructured{Object: map[string]any{
						"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": "a"}, "n": n,
					}}
					want := texts(validation.ValidateCustomResource(nil, obj.Object, validator))
					if got := texts(v.Validate(t.Context(), obj)); got != want {
						t.Errorf("%v with bounds %+v: %q, want %q", n, s, got, want)
					}
					if want != "" {
						refused++
					}
				}
			}
		}
	}
	if refused < 50 {
		t.Errorf("%d were refused", refused)
	}
}

// TestFormatsWithoutType: a format means something for values of other types, too, if a schema names no type.
func TestFormatsWithoutType(t *testing.T) {
	refused := 0
	for _, format := range []string{"", "int32", "int64", "double", "float", "date", "byte", "nonsense"} {
		s := apiextensionsv1.JSONSchemaProps{Format: format, XPreserveUnknownFields: new(true)}
		v, validator, _ := bothVersions(t, &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"n": s}})
		for _, value := range []any{nil, "x", true, int64(1), int64(1) << 40, 1.5, []any{"x"}, map[string]any{"a": "b"}} {
			obj := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": "a"}, "n": value,
			}}
			want := texts(validation.ValidateCustomResource(nil, obj.Object, validator))
			if got := texts(v.Validate(t.Context(), obj)); got != want {
				t.Errorf("%v of format %q: %q, want %q", value, format, got, want)
			}
			if want != "" {
				refused++
			}
		}
	}
	if refused < 5 {
		t.Errorf("%d were refused", refused)
	}
}

// TestDefaultOfOthers: an object of another version or kind gets no defaults.
func TestDefaultOfOthers(t *testing.T) {
	v := define(t, `{type: object, properties: {a: {type: integer, default: 1}}}`, anything)
	for name, change := range map[string]func(object){
		"another version": func(u object) { u.SetAPIVersion("example.com/v2") },
		"another kind":    func(u object) { u.SetKind("Gadget") },
	} {
		u := widget(t, "spec: {}")
		change(u)
		if v.Default(u); jsonOf(t, u.Object["spec"]) != "{}" {
			t.Errorf("%s: %v", name, u.Object["spec"])
		}
	}
}
