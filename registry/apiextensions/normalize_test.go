package apiextensions

import (
	"math/rand/v2"
	"strconv"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// TestNormalize compares definitions with those that upstream's conversions return, which parse and write all JSON.
func TestNormalize(t *testing.T) {
	changed := 0
	for seed := range uint64(3000) {
		r := random{rand.New(rand.NewPCG(seed, 1))}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		crd.Spec.Names.Kind = "Widget"
		for i := range 1 + r.IntN(2) {
			v := apiextensionsv1.CustomResourceDefinitionVersion{Name: "v" + strconv.Itoa(i), Storage: i == 0}
			if r.IntN(4) > 0 {
				v.Schema = &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: r.schema(4)}
			}
			crd.Spec.Versions = append(crd.Spec.Versions, v)
		}
		want := crd.DeepCopy()
		apiextensionsv1.SetObjectDefaults_CustomResourceDefinition(want)
		if before := want.DeepCopy(); true {
			parsed, err := internal(want)
			if err != nil {
				t.Fatal(err)
			}
			if want = versioned(parsed); !equality.Semantic.DeepEqual(before, want) {
				changed++
			}
		}
		if setDefaults(crd); !equality.Semantic.DeepEqual(crd, want) {
			t.Fatalf("seed %d: %v, want %v", seed, crd, want)
		}
	}
	if changed < 1000 {
		t.Errorf("%d definitions had something to normalize", changed)
	}
}

type random struct{ *rand.Rand }

func (r random) json() apiextensionsv1.JSON {
	all := []string{`null`, ` null`, `{"b": 1, "a": [null , 1.50]}`, `"<x>"`, ` 1`, `1e3`, `12345678901234567890`, `true`, `""`, `{}`, "", `"\u0041"`}
	return apiextensionsv1.JSON{Raw: []byte(all[r.IntN(len(all))])}
}

func (r random) pointer() *apiextensionsv1.JSON {
	if r.IntN(3) > 0 {
		return nil
	}
	v := r.json()
	return &v
}

func (r random) list(depth int) []apiextensionsv1.JSONSchemaProps {
	var all []apiextensionsv1.JSONSchemaProps
	for range r.IntN(3) {
		all = append(all, *r.schema(depth))
	}
	return all
}

func (r random) named(depth int) map[string]apiextensionsv1.JSONSchemaProps {
	if r.IntN(2) > 0 {
		return nil
	}
	all := map[string]apiextensionsv1.JSONSchemaProps{}
	for i := range r.IntN(3) {
		all["p"+strconv.Itoa(i)] = *r.schema(depth)
	}
	return all
}

// schema returns a schema with JSON values wherever there may be some.
func (r random) schema(depth int) *apiextensionsv1.JSONSchemaProps {
	s := &apiextensionsv1.JSONSchemaProps{Type: "object", Default: r.pointer(), Example: r.pointer()}
	for range r.IntN(3) {
		s.Enum = append(s.Enum, r.json())
	}
	if depth == 0 {
		return s
	}
	depth--
	switch r.IntN(12) {
	case 0:
		s.Not = r.schema(depth)
	case 1:
		s.AllOf = r.list(depth)
	case 2:
		s.AnyOf = r.list(depth)
	case 3:
		s.OneOf = r.list(depth)
	case 4:
		s.Items = &apiextensionsv1.JSONSchemaPropsOrArray{Schema: r.schema(depth)}
	case 5:
		s.Items = &apiextensionsv1.JSONSchemaPropsOrArray{JSONSchemas: r.list(depth)}
	case 6:
		s.AdditionalProperties = &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: r.schema(depth)}
	case 7:
		s.AdditionalItems = &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: r.schema(depth)}
	case 8:
		s.Dependencies = map[string]apiextensionsv1.JSONSchemaPropsOrStringArray{"a": {Schema: r.schema(depth)}, "b": {Property: []string{"c"}}}
	case 9:
		s.PatternProperties = r.named(depth)
	case 10:
		s.Definitions = r.named(depth)
	default:
		s.Properties = r.named(depth)
	}
	return s
}
