package openapi_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/spec3"
	explain "k8s.io/kubectl/pkg/explain/v2"
	"sigs.k8s.io/yaml"

	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/apiserver/openapi"
	"github.com/keelson-dev/keelson/authz/alwaysallow"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/custom"
	"github.com/keelson-dev/keelson/storage/memory"
)

// published are the options with which upstream's servers publish custom kinds.
var published = builder.Options{IncludeSelectableFields: true}

// definitions reads the definitions of testdata, with upstream's defaults.
func definitions(t *testing.T) []*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	data, err := os.ReadFile("testdata/definitions.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var all []*apiextensionsv1.CustomResourceDefinition
	for _, text := range strings.Split(string(data), "\n---\n") {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict([]byte(text), crd); err != nil {
			t.Fatal(err)
		}
		apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&crd.Spec)
		all = append(all, crd)
	}
	return all
}

func kindOf(t testing.TB, crd *apiextensionsv1.CustomResourceDefinition) registry.Kind {
	t.Helper()
	r, err := custom.New(crd, custom.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r.Kind()
}

// documentOf is a value as a JSON document.
func documentOf(t testing.TB, v any) map[string]any {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestCustom compares the whole documents about custom kinds with those of upstream's builder.
func TestCustom(t *testing.T) {
	crds := definitions(t)
	all := kinds()
	specs := map[string][]*spec3.OpenAPI{}
	for _, crd := range crds {
		all = append(all, kindOf(t, crd))
		for _, v := range crd.Spec.Versions {
			if !v.Served {
				continue
			}
			s, err := builder.BuildOpenAPIV3(crd, v.Name, published)
			if err != nil {
				t.Fatal(err)
			}
			key := "apis/" + crd.Spec.Group + "/" + v.Name
			specs[key] = append(specs[key], s)
		}
	}
	d := openapi.New(all, openapi.Options{})
	for key := range ours(t, d, "/openapi/v3")["paths"].(map[string]any) {
		if strings.Contains(key, "example") && specs[key] == nil {
			t.Errorf("upstream has no document %s", key)
		}
	}
	for key, s := range specs {
		merged, err := builder.MergeSpecsV3(s...)
		if err != nil {
			t.Fatal(err)
		}
		want, got := documentOf(t, merged), ours(t, d, "/openapi/v3/"+key)
		if n := same(t, key+" path", want["paths"], got["paths"]); n < 3 || n != len(want["paths"].(map[string]any)) {
			t.Errorf("%s: %d paths are the same, of %d", key, n, len(want["paths"].(map[string]any)))
		}
		if n := same(t, key+" definition", schemas(want), schemas(got)); n != len(schemas(want).(map[string]any)) {
			t.Errorf("%s: %d definitions are the same, of %d", key, n, len(schemas(want).(map[string]any)))
		}
		if diff := cmp.Diff(want, got); diff != "" && !t.Failed() {
			t.Errorf("%s (-upstream +ours):\n%.2000s", key, diff)
		}
	}
	customV2(t, crds, ours(t, d, "/openapi/v2"))
}

// customV2 compares what the document of v2 says of custom kinds.
func customV2(t *testing.T, crds []*apiextensionsv1.CustomResourceDefinition, got map[string]any) {
	t.Helper()
	paths := map[string]bool{}
	for _, crd := range crds {
		for _, v := range crd.Spec.Versions {
			if !v.Served {
				continue
			}
			o := published
			o.V2 = true
			s, err := builder.BuildOpenAPIV2(crd, v.Name, o)
			if err != nil {
				t.Fatal(err)
			}
			s.Definitions = handler.PruneDefaults(s.Definitions) // as the controller that publishes it
			want := documentOf(t, s)
			delete(want["definitions"].(map[string]any), "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions") // of more groups in the whole document
			for _, part := range []string{"paths", "definitions", "parameters"} {
				for name, theirs := range want[part].(map[string]any) {
					if diff := cmp.Diff(theirs, got[part].(map[string]any)[name]); diff != "" {
						t.Errorf("v2 %s %s (-upstream +ours):\n%.2000s", part, name, diff)
					}
					paths[name] = true
				}
			}
		}
	}
	for _, part := range []string{"paths", "definitions"} {
		for name := range got[part].(map[string]any) {
			if strings.Contains(name, "example") && !paths[name] {
				t.Errorf("upstream's v2 has no %s", name)
			}
		}
	}
}

// TestCustomRandom compares definitions made of random schemas.
func TestCustomRandom(t *testing.T) {
	structural := 0
	for seed := range uint64(200) {
		r := random{rand.New(rand.NewPCG(seed, 1))} //nolint:gosec // repeatable
		crd := definitions(t)[0]
		crd.Spec.Versions = crd.Spec.Versions[:1]
		root := r.schema(4)
		root.Type, root.Nullable, root.XIntOrString, root.Items, root.Default = "object", false, false, nil, nil
		crd.Spec.Versions[0].Schema = &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &root}
		v2 := published
		v2.V2 = true
		theirs3, err := builder.BuildOpenAPIV3(crd, "v1", published)
		if err != nil {
			t.Fatal(err)
		}
		theirs2, err := builder.BuildOpenAPIV2(crd, "v1", v2)
		if err != nil {
			t.Fatal(err)
		}
		const name = "com.example.stable.v1.CronTab"
		d := openapi.New([]registry.Kind{kindOf(t, crd)}, openapi.Options{})
		want := documentOf(t, theirs3.Components.Schemas[name])
		if want["properties"] != nil {
			structural++
		}
		text, _ := json.Marshal(root)
		if diff := cmp.Diff(want, schemas(ours(t, d, "/openapi/v3/apis/stable.example.com/v1")).(map[string]any)[name]); diff != "" {
			t.Errorf("seed %d, %s: v3 (-upstream +ours):\n%.1500s", seed, text, diff)
		}
		if diff := cmp.Diff(documentOf(t, handler.PruneDefaults(theirs2.Definitions)[name]), ours(t, d, "/openapi/v2")["definitions"].(map[string]any)[name].(map[string]any)); diff != "" {
			t.Errorf("seed %d, %s: v2 (-upstream +ours):\n%.1500s", seed, text, diff)
		}
	}
	if structural < 150 {
		t.Errorf("only %d schemas are structural", structural)
	}
}

// TestCustomExplain: kubectl explain shows a custom kind as soon as it is installed.
func TestCustomExplain(t *testing.T) {
	reg, err := registry.New(memory.New(memory.Options{}), kinds(), registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := apiserver.New(reg, apiserver.Options{Authorizer: alwaysallow.New(), Paths: openapi.Follow(reg.Kinds, openapi.Options{}).Paths()})
	transport := apiserver.NewTransport(s, nil)
	t.Cleanup(transport.Close)
	c := client(t, &rest.Config{Host: "http://server", Transport: transport})
	cronTabs := schema.GroupVersionResource{Group: "stable.example.com", Version: "v1", Resource: "crontabs"}
	if err := explain.PrintModelDescription(nil, io.Discard, c.OpenAPIV3(), cronTabs, false, -1, "plaintext"); err == nil {
		t.Error("a kind is explained before it is installed")
	}
	if _, err := reg.Install(t.Context(), kindOf(t, definitions(t)[0])); err != nil {
		t.Fatal(err)
	}
	for _, e := range []struct {
		path []string
		want []string
	}{
		{nil, []string{"GROUP:      stable.example.com", "KIND:       CronTab", "CronTab runs <things> & more.", "spec\t<Object> -required-", "metadata\t<ObjectMeta>"}},
		{[]string{"spec", "ports"}, []string{"FIELD: ports <[]Object>", "port\t<integer> -required-", "protocol\t<string>"}},
		{[]string{"spec", "ports", "protocol"}, []string{"ENUM:\n    TCP\n    UDP"}},
		{[]string{"metadata", "labels"}, []string{"FIELD: labels <map[string]string>"}},
	} {
		var out strings.Builder
		if err := explain.PrintModelDescription(e.path, &out, c.OpenAPIV3(), cronTabs, false, -1, "plaintext"); err != nil {
			t.Errorf("%v: %v", e.path, err)
		}
		for _, want := range e.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%v: %q is not in\n%s", e.path, want, out.String())
			}
		}
	}
}

type random struct{ *rand.Rand }

func (r random) chance(percent int) bool { return r.IntN(100) < percent }

// schema returns a schema that is likely to be structural.
func (r random) schema(depth int) apiextensionsv1.JSONSchemaProps {
	s := apiextensionsv1.JSONSchemaProps{}
	if r.chance(30) {
		s.Description = fmt.Sprint("what <", r.IntN(9), "> & why")
	}
	kind := r.IntN(10)
	if depth == 0 {
		kind = 4 + r.IntN(6)
	}
	switch kind {
	case 0, 1, 2:
		r.object(&s, depth)
	case 3:
		items := r.schema(depth - 1)
		s.Type, s.Items = "array", &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &items}
		if r.chance(30) {
			s.XListType = new("atomic")
		}
		s.MaxItems = new(int64(5))
	case 4:
		s.XIntOrString = true
		if r.chance(40) {
			s.AnyOf = []apiextensionsv1.JSONSchemaProps{{Type: "integer"}, {Type: "string"}}
		} else if r.chance(30) {
			s.AnyOf = []apiextensionsv1.JSONSchemaProps{{Pattern: "a"}, {Pattern: "b"}}
		}
	case 5:
		s.Type, s.Format, s.Minimum = "integer", "int64", new(float64(r.IntN(3)))
		s.Default = &apiextensionsv1.JSON{Raw: []byte("7")}
	case 6:
		s.Type, s.Maximum, s.ExclusiveMaximum, s.MultipleOf = "number", new(1e21), true, new(0.5)
	case 7:
		s.Type = "boolean"
	default:
		s.Type, s.Pattern, s.MaxLength = "string", `^[<>&]\d$`, new(int64(9))
		if r.chance(30) {
			s.Enum = []apiextensionsv1.JSON{{Raw: []byte(`"a"`)}, {Raw: []byte(`"b<"`)}}
		}
	}
	if s.Nullable = r.chance(15); r.chance(10) {
		s.Not = &apiextensionsv1.JSONSchemaProps{Enum: []apiextensionsv1.JSON{{Raw: []byte("3")}}}
	}
	return s
}

func (r random) object(s *apiextensionsv1.JSONSchemaProps, depth int) {
	s.Type = "object"
	switch r.IntN(6) {
	case 0:
		below := r.schema(depth - 1)
		s.AdditionalProperties = &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: &below}
		return
	case 1:
		s.XPreserveUnknownFields = new(true)
	case 2:
		s.XEmbeddedResource = true
		if r.chance(50) {
			s.XPreserveUnknownFields = new(true)
		}
	case 3:
		s.XMapType = new("granular")
	}
	s.Properties = map[string]apiextensionsv1.JSONSchemaProps{}
	for i := range r.IntN(4) + 1 {
		name := string(rune('a' + i))
		s.Properties[name] = r.schema(depth - 1)
		if r.chance(40) {
			s.Required = append(s.Required, name)
		}
	}
	if r.chance(20) {
		s.OneOf = []apiextensionsv1.JSONSchemaProps{{Required: []string{"a"}}, {Required: []string{"b"}}}
	}
	if s.XEmbeddedResource && s.XPreserveUnknownFields == nil && r.chance(50) {
		s.Required = append(s.Required, "apiVersion")
		s.Properties["apiVersion"] = apiextensionsv1.JSONSchemaProps{Type: "string"}
	}
	slices.Sort(s.Required)
}
