package custom_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	upstream "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/registry/custom"
)

// TestStepsLeftOut: for random schemas and objects, what is decoded, stored, refused and why is the same as if every step of
// upstream's were taken, though most are left out for most objects.
func TestStepsLeftOut(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 11))
	var valid, invalid, pruned, untouched int
	for range 3000 {
		props := randomSchema(r, 3)
		props.Type, props.Nullable, props.Properties = "object", false, map[string]apiextensionsv1.JSONSchemaProps{"spec": randomSchema(r, 4), "a": randomSchema(r, 2)}
		props.AdditionalProperties, props.Items, props.Default, props.Enum, props.AllOf, props.AnyOf, props.OneOf = nil, nil, nil, nil, nil, nil, nil
		v, validator, s := bothVersions(t, &props)
		for range 4 {
			content := map[string]any{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": "a"}}
			for _, name := range []string{"spec", "a", "b"} {
				if r.IntN(4) > 0 {
					content[name] = randomValue(r, props.Properties[name], 4)
				}
			}
			want := runtime.DeepCopyJSON(content)
			wantUnknown := pruning.PruneWithOptions(want, s, true, structural.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
			defaulting.PruneNonNullableNullsWithoutDefaults(want, s)
			if reflect.DeepEqual(want, content) {
				untouched++
			} else {
				pruned++
			}
			got := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(content)}
			gotUnknown, err := v.Prune(got)
			if err != nil {
				t.Fatal(err)
			}
			if meta, _ := want["metadata"].(map[string]any); meta != nil {
				want["metadata"] = got.Object["metadata"] // which is not what this is about
			}
			defaulting.Default(want, s)
			v.Default(got)
			if !slices.Equal(gotUnknown, wantUnknown) || !reflect.DeepEqual(got.Object, want) {
				t.Fatalf("schema %v\nobject %v\nbecame %v, unknown %v\nwanted %v, unknown %v", props.String(), content, got.Object, gotUnknown, want, wantUnknown)
			}
			errs := validation.ValidateCustomResource(nil, want, validator)
			errs = append(errs, listtype.ValidateListSetsAndMaps(nil, s, want)...)
			found := v.Validate(t.Context(), got)
			if texts(found) != texts(errs) {
				t.Fatalf("schema %v\nobject %v\nis %s\nwanted %s", props.String(), want, texts(found), texts(errs))
			}
			if len(errs) == 0 {
				valid++
			} else {
				invalid++
			}
		}
	}
	t.Logf("%d valid, %d not; %d pruned, %d not", valid, invalid, pruned, untouched)
	if min(valid, invalid, pruned, untouched) < 1000 {
		t.Error("the objects are too much alike")
	}
}

// texts returns errors in an order of their own, as those of fields come in the order of a map.
func texts(errs field.ErrorList) string {
	var all []string
	for _, e := range errs {
		all = append(all, e.Error())
	}
	slices.Sort(all)
	return strings.Join(all, "; ")
}

// bothVersions returns a version with a schema, and the schema as upstream's libraries take it.
func bothVersions(t *testing.T, props *apiextensionsv1.JSONSchemaProps) (*custom.Version, validation.SchemaValidator, *structural.Structural) {
	t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	crd.Name = "widgets.example.com"
	crd.Spec = apiextensionsv1.CustomResourceDefinitionSpec{
		Group: "example.com", Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList"},
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true,
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: props}}},
	}
	r, err := custom.New(crd, custom.Options{})
	if err != nil {
		t.Fatal(err)
	}
	internal := &upstream.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(props.DeepCopy(), internal, nil); err != nil {
		t.Fatal(err)
	}
	validator, _, err := validation.NewSchemaValidator(internal)
	if err != nil {
		t.Fatal(err)
	}
	s, err := structural.NewStructural(internal)
	if err != nil {
		t.Fatal(err)
	}
	return r.Storage(), validator, s
}

// randomSchema returns a schema, in which bounds are tight enough to be missed.
func randomSchema(r *rand.Rand, depth int) apiextensionsv1.JSONSchemaProps {
	rare := func() bool { return r.IntN(6) == 0 }
	p := apiextensionsv1.JSONSchemaProps{Nullable: rare()}
	kinds := []string{"string", "integer", "number", "boolean", "object", "array"}
	p.Type = kinds[r.IntN(len(kinds)-2)]
	if depth > 0 && r.IntN(3) > 0 {
		p.Type = kinds[4+r.IntN(2)]
	}
	number := func(n int) *float64 { f := float64(n); return &f }
	count := func(n int64) *int64 { return &n }
	switch p.Type {
	case "string":
		texts := func(name string) apiextensionsv1.JSON { return apiextensionsv1.JSON{Raw: []byte(`"` + name + `"`)} }
		switch r.IntN(11) {
		case 0:
			p.Enum = []apiextensionsv1.JSON{texts("a"), texts("2024-01-02")}
		case 1:
			p.MaxLength = count(3)
		case 2:
			p.MinLength = count(2)
		case 3:
			p.Pattern = "^a"
		case 4:
			p.Format = []string{"date", "date-time", "byte", "nonsense"}[r.IntN(4)]
		case 5, 8, 9:
			value := texts("d")
			p.Default = &value
		case 6:
			p.AnyOf = []apiextensionsv1.JSONSchemaProps{{MaxLength: count(1)}, {Pattern: "2"}}
		case 7:
			p.Not = &apiextensionsv1.JSONSchemaProps{Pattern: "a"}
		}
	case "integer", "number":
		switch r.IntN(8) {
		case 0:
			p.Minimum, p.ExclusiveMinimum = number(3), rare()
		case 1:
			p.Maximum, p.ExclusiveMaximum = number(3), rare()
		case 2:
			p.Format = []string{"int32", "int64", "double", "float"}[r.IntN(4)]
			if rare() {
				p.Maximum = number(3)
			}
		case 3:
			p.MultipleOf = number(2)
		case 4:
			p.AllOf = []apiextensionsv1.JSONSchemaProps{{Minimum: number(3)}, {Maximum: number(4)}}
		case 5:
			p.OneOf = []apiextensionsv1.JSONSchemaProps{{Minimum: number(3)}, {Maximum: number(4)}}
		case 6:
			p.Type, p.XIntOrString = "", true
		case 7:
			p.Enum = []apiextensionsv1.JSON{{Raw: []byte("3")}, {Raw: []byte("1.5")}}
		}
	case "array":
		items := randomSchema(r, depth-1)
		p.Items = &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &items}
		kind := "set"
		switch r.IntN(6) {
		case 0:
			p.MinItems = count(1)
		case 1:
			p.MaxItems = count(1)
		case 2:
			p.XListType = &kind
		case 3:
			keep := true
			p.XPreserveUnknownFields = &keep
		}
	case "object":
		switch r.IntN(5) {
		case 0:
			other := randomSchema(r, depth-1)
			p.AdditionalProperties = &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: &other}
		case 1:
			p.AdditionalProperties = &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true}
		default:
			p.Properties = map[string]apiextensionsv1.JSONSchemaProps{}
			for _, name := range []string{"a", "b", "c"}[:1+r.IntN(3)] {
				p.Properties[name] = randomSchema(r, depth-1)
			}
		}
		switch r.IntN(8) {
		case 0:
			p.Required = []string{"a"}
		case 1:
			p.MinProperties = count(1)
		case 2:
			p.MaxProperties = count(1)
		case 3:
			keep := true
			p.XPreserveUnknownFields = &keep
		}
	}
	return p
}

// randomValue returns a value that mostly has the type of a schema.
func randomValue(r *rand.Rand, p apiextensionsv1.JSONSchemaProps, depth int) any {
	kind := p.Type
	if r.IntN(20) == 0 || kind == "" && !p.XIntOrString {
		kind = []string{"string", "integer", "number", "boolean", "object", "array", "null", "null"}[r.IntN(8)]
	}
	if depth == 0 && (kind == "object" || kind == "array") {
		kind = "string"
	}
	switch kind {
	case "integer", "":
		return []any{int64(0), int64(3), int64(4), int64(1) << 40}[r.IntN(4)]
	case "number":
		return []any{int64(3), 1.5, 3.0, 1e300}[r.IntN(4)]
	case "boolean":
		return r.IntN(2) == 0
	case "null":
		return nil
	case "array":
		list := []any{}
		for range r.IntN(3) {
			var items apiextensionsv1.JSONSchemaProps
			if p.Items != nil {
				items = *p.Items.Schema
			}
			list = append(list, randomValue(r, items, depth-1))
		}
		return list
	case "object":
		object := map[string]any{}
		for i, name := range []string{"a", "b", "c", "d"} {
			below, ok := p.Properties[name]
			if !ok && p.AdditionalProperties != nil && p.AdditionalProperties.Schema != nil {
				below, ok = *p.AdditionalProperties.Schema, true
			}
			if ok && r.IntN(4) > 0 || r.IntN(12+i) == 0 {
				object[name] = randomValue(r, below, depth-1)
			}
		}
		return object
	}
	return []any{"a", "ab", "abcd", "2024-01-02", "", fmt.Sprint(r.IntN(9))}[r.IntN(6)]
}
