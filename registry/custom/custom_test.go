package custom_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/keelson-dev/keelson/registry/custom"
)

type object = *unstructured.Unstructured

// parse reads a definition with the given versions, in YAML.
func parse(t testing.TB, versions string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	return parseSpec(t, "versions:\n"+versions)
}

// parseSpec reads a definition whose spec has the given fields, in YAML.
func parseSpec(t testing.TB, fields string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	text := `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Widget, plural: widgets}
  ` + strings.ReplaceAll(fields, "\n", "\n  ")
	crds, err := custom.Read([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return crds[0]
}

// define returns a kind of one version v1, whose spec and status have the given schemas, and the version.
func define(t testing.TB, spec, status string) *custom.Version {
	t.Helper()
	return storage(t, parse(t, `- {name: v1, served: true, storage: true, subresources: {status: {}}, schema: {openAPIV3Schema: {type: object, properties: {spec: `+
		spec+`, status: `+status+`}}}}`))
}

func storage(t testing.TB, crd *apiextensionsv1.CustomResourceDefinition) *custom.Version {
	t.Helper()
	r, err := custom.New(crd, custom.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r.Storage()
}

const anything = `{type: object, x-kubernetes-preserve-unknown-fields: true}`

// widget returns an object with the given fields, in YAML.
func widget(t testing.TB, fields string) object {
	t.Helper()
	u := &unstructured.Unstructured{}
	text := "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w, namespace: ns, resourceVersion: '1'}\n" + fields
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := u.UnmarshalJSON(data); err != nil {
		t.Fatal(err)
	}
	return u
}

func jsonOf(t testing.TB, value any) string {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// equal compares errors as clients read them, in any order: libraries visit the properties of a schema in random order.
func equal(t *testing.T, errs field.ErrorList, want []string) {
	t.Helper()
	var got []string
	for _, e := range errs {
		got = append(got, e.Error())
	}
	slices.Sort(got)
	want = slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		t.Errorf("refused with\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

func TestPruneAndDefault(t *testing.T) {
	for name, tt := range map[string]struct {
		spec, in, want string
		unknown        []string
	}{
		"unknown fields":             {`{type: object, properties: {a: {type: integer}}}`, `{a: 1, b: {c: 2}, "": 3}`, `{"a":1}`, []string{"spec.", "spec.b"}},
		"in lists and maps":          {`{type: object, properties: {l: {type: array, items: {type: object}}}}`, `{l: [{x: 1}]}`, `{"l":[{}]}`, []string{"spec.l[0].x"}},
		"of any name":                {`{type: object, additionalProperties: {type: object, properties: {a: {type: string}}}}`, `{k: {a: x, b: y}}`, `{"k":{"a":"x"}}`, []string{"spec.k.b"}},
		"preserved":                  {anything, `{a: {b: [1, null]}}`, `{"a":{"b":[1,null]}}`, nil},
		"specified below preserved":  {`{type: object, x-kubernetes-preserve-unknown-fields: true, properties: {a: {type: object}}}`, `{a: {b: 1}, c: 2}`, `{"a":{},"c":2}`, []string{"spec.a.b"}},
		"embedded resource":          {`{type: object, properties: {o: {type: object, x-kubernetes-embedded-resource: true, properties: {a: {type: string}}}}}`, `{o: {apiVersion: v1, kind: Pod, metadata: {name: x, bogus: 1}, spec: {}}}`, `{"o":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"}}}`, []string{"spec.o.spec", "spec.o.metadata.bogus"}},
		"nulls":                      {`{type: object, properties: {a: {type: string}, b: {type: string, nullable: true}, c: {type: string, default: x}}}`, `{a: null, b: null, c: null}`, `{"b":null,"c":"x"}`, nil},
		"defaults":                   {`{type: object, properties: {a: {type: integer, default: 1}, o: {type: object, default: {}, properties: {b: {type: string, default: x}}}, l: {type: array, items: {type: object, properties: {c: {type: boolean, default: true}}}}}}`, `{l: [{}]}`, `{"a":1,"l":[{"c":true}],"o":{"b":"x"}}`, nil},
		"no defaults without object": {`{type: object, properties: {o: {type: object, properties: {b: {type: string, default: x}}}}}`, `{}`, `{}`, nil},
		"number or string":           {`{type: object, properties: {p: {x-kubernetes-int-or-string: true}}}`, `{p: 80%}`, `{"p":"80%"}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			v := define(t, tt.spec, anything)
			u := widget(t, "spec: "+tt.in)
			unknown, err := v.Prune(u)
			if err != nil || !slices.Equal(unknown, tt.unknown) {
				t.Errorf("unknown %q %v, want %q", unknown, err, tt.unknown)
			}
			v.Default(u)
			if got := jsonOf(t, u.Object["spec"]); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			if u.GetName() != "w" || u.GetKind() != "Widget" || u.GetAPIVersion() != "example.com/v1" {
				t.Errorf("type and metadata became %v", u.Object)
			}
		})
	}
}

func TestDecode(t *testing.T) {
	v := define(t, `{type: object, properties: {a: {type: integer, default: 1}, o: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true},
  q: {type: object, additionalProperties: {type: object, properties: {r: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true, default: {metadata: text}}}}}}}`, anything)
	for name, tt := range map[string]struct {
		in, want string
		strict   []string
		fails    string
	}{
		"strict errors": {`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w","x":1},"spec":{"b":1,"b":2,"a\"b":3},"y":{}}`,
			`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"a":1}}`,
			[]string{`duplicate field "spec.b"`, `unknown field "metadata.x"`, `unknown field "spec.a"b"`, `unknown field "spec.b"`, `unknown field "y"`}, ""},
		"large and small numbers":           {`{"apiVersion":"example.com/v1","kind":"Widget","spec":{"a":9007199254740993}}`, `{"apiVersion":"example.com/v1","kind":"Widget","spec":{"a":9007199254740993}}`, nil, ""},
		"another kind":                      {`{"apiVersion":"example.com/v1","kind":"Gadget","spec":{"b":1}}`, `{"apiVersion":"example.com/v1","kind":"Gadget","spec":{"b":1}}`, nil, ""},
		"another version":                   {`{"apiVersion":"example.com/v2","kind":"Widget","spec":{"b":1}}`, `{"apiVersion":"example.com/v2","kind":"Widget"}`, []string{`unknown field "spec"`}, ""},
		"malformed in an embedded resource": {`{"apiVersion":"example.com/v1","kind":"Widget","spec":{"o":{"metadata":{"labels":1}}}}`, "", nil, `spec.o.metadata: Invalid value: {"labels":1}: json: cannot unmarshal number into Go struct field ObjectMeta.labels of type map[string]string`},
		"malformed in its default":          {`{"apiVersion":"example.com/v1","kind":"Widget","spec":{"q":{"x":{}}}}`, "", nil, `spec.q[x].r.metadata: Invalid value: "text": json: cannot unmarshal string into Go value of type v1.ObjectMeta`},
		"no type":                           {`{"spec":{"b":1}}`, `{"spec":{"b":1}}`, nil, ""},
		"malformed metadata":                {`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"labels":{"a":1}}}`, "", nil, "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string"},
		"malformed version":                 {`{"apiVersion":"a/b/c","kind":"Widget"}`, "", nil, "unexpected GroupVersion string: a/b/c"},
		"malformed kind":                    {`{"apiVersion":"v1","kind":1}`, "", nil, ".kind accessor error: 1 is of the type int64, expected string"},
		"a number for a version":            {`{"apiVersion":1,"kind":""}`, "", nil, ".apiVersion accessor error: 1 is of the type int64, expected string"},
		"null":                              {`null`, "", nil, "the JSON value is not an object"},
		"a list":                            {`[]`, "", nil, "json: cannot unmarshal array into Go value of type map[string]interface {}"},
		"malformed":                         {`{"a":`, "", nil, "unexpected end of JSON input"},
	} {
		t.Run(name, func(t *testing.T) {
			u, strict, err := v.Decode([]byte(tt.in))
			if tt.fails != "" {
				if err == nil || err.Error() != tt.fails {
					t.Errorf("error %v, want %s", err, tt.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var texts []string
			for _, e := range strict {
				texts = append(texts, e.Error())
			}
			data, err := custom.Encode(u)
			if err != nil || string(data) != tt.want || !slices.Equal(texts, tt.strict) {
				t.Errorf("got %s %q %v\nwant %s %q", data, texts, err, tt.want, tt.strict)
			}
		})
	}
}

// TestDecodeStored: objects that were stored when less was checked can be read.
func TestDecodeStored(t *testing.T) {
	crd := parse(t, `- {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {a: {type: integer, default: 1}}}}}}}
- {name: v2, served: true, storage: false, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {b: {type: integer, default: 2}}}}}}}`)
	r, err := custom.New(crd, custom.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for in, want := range map[string]string{
		`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w","labels":{"a":1},"x":1},"spec":{"c":1}}`: `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"generation":1,"name":"w"},"spec":{"a":1}}`,
		`{"apiVersion":"example.com/v2","kind":"Widget","metadata":{"generation":7},"spec":{}}`:                         `{"apiVersion":"example.com/v2","kind":"Widget","metadata":{"generation":7},"spec":{"b":2}}`,
		`{"apiVersion":"example.com/v3","kind":"Widget","spec":{}}`:                                                     `{"apiVersion":"example.com/v3","kind":"Widget"}`,
		`{"apiVersion":"other.com/v1","kind":"Widget","spec":{"c":1}}`:                                                  `{"apiVersion":"other.com/v1","kind":"Widget","spec":{"c":1}}`,
	} {
		u, err := r.DecodeStored([]byte(in))
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		if got := jsonOf(t, u); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	for _, in := range []string{`{`, `{"kind":1}`} {
		if u, err := r.DecodeStored([]byte(in)); err == nil {
			t.Errorf("%s read as %v", in, u)
		}
	}
}

func TestVersions(t *testing.T) {
	crd := parse(t, `- {name: v1alpha1, served: true, storage: false, deprecated: true, schema: {openAPIV3Schema: {type: object}}}
- {name: v1beta1, served: true, storage: false, deprecated: true, deprecationWarning: too old, schema: {openAPIV3Schema: {type: object}}}
- {name: v1beta2, served: true, storage: false, schema: {openAPIV3Schema: {type: object}}}
- {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}, subresources: {status: {}}}
- {name: v1beta3, served: true, storage: false, schema: {openAPIV3Schema: {type: object}}}
- {name: v2, served: false, storage: false, schema: {openAPIV3Schema: {type: object}}}
- {name: v3, served: true, storage: false, deprecated: true, schema: {openAPIV3Schema: {type: object}}}`)
	r, err := custom.New(crd, custom.Options{})
	if err != nil {
		t.Fatal(err)
	}
	warnings := map[string]string{
		"v1alpha1": "example.com/v1alpha1 Widget is deprecated; use example.com/v1 Widget", "v1beta1": "too old", "v3": "example.com/v3 Widget is deprecated",
	}
	if n := len(r.Versions()); n != 7 {
		t.Errorf("%d versions", n)
	}
	for _, v := range r.Versions() {
		if v.Warning() != warnings[v.Name()] || v.Stored() != (v.Name() == "v1") || v.HasStatus() != v.Stored() || v.Served() == (v.Name() == "v2") || v.HasScale() {
			t.Errorf("%s: %q, stored %t, status %t, served %t, scale %t", v.GroupVersionKind(), v.Warning(), v.Stored(), v.HasStatus(), v.Served(), v.HasScale())
		}
		if found, err := r.Version(v.Name()); err != nil || found != v {
			t.Errorf("%s is not found: %v", v.Name(), err)
		}
	}
	if _, err := r.Version("v4"); !errors.Is(err, custom.ErrVersion) {
		t.Errorf("no error: %v", err)
	}

	crd.Spec.Versions[3].Storage = false
	if _, err := custom.New(crd, custom.Options{}); !errors.Is(err, custom.ErrDefinition) || !strings.Contains(err.Error(), "no version is stored") {
		t.Errorf("without a stored version: %v", err)
	}
	crd.Spec.Versions[3].Storage = true
	crd.Spec.Names.ShortNames = []string{"w"}
	if r, err = custom.New(crd, custom.Options{}); err != nil {
		t.Fatal(err)
	}
	if k := r.Kind(); !slices.Equal(k.Short, []string{"w"}) {
		t.Errorf("short names: %q", k.Short)
	}
	crd.Spec.Versions[3].Schema.OpenAPIV3Schema.Default = &apiextensionsv1.JSON{Raw: []byte("{")}
	if _, err := custom.New(crd, custom.Options{}); !errors.Is(err, custom.ErrDefinition) || !strings.Contains(err.Error(), "version v1: ") {
		t.Errorf("with a malformed default: %v", err)
	}
	crd.Spec.Versions[3].Schema.OpenAPIV3Schema.Default = nil
	crd.Spec.Versions[3].Schema.OpenAPIV3Schema.Items = &apiextensionsv1.JSONSchemaPropsOrArray{JSONSchemas: make([]apiextensionsv1.JSONSchemaProps, 1)}
	crd.Spec.Versions[3].Schema.OpenAPIV3Schema.Not = &apiextensionsv1.JSONSchemaProps{Type: "string"}
	if _, err := custom.New(crd, custom.Options{}); !errors.Is(err, custom.ErrDefinition) || !strings.Contains(err.Error(), "version v1: ") {
		t.Errorf("without a structural schema: %v", err)
	}
}

// TestAcceptedNames: where a server has accepted names, those count.
func TestAcceptedNames(t *testing.T) {
	crd := parse(t, `- {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}`)
	crd.Status.AcceptedNames = crd.Spec.Names
	crd.Status.AcceptedNames.Kind = "Accepted"
	if got := storage(t, crd).GroupVersionKind().Kind; got != "Accepted" {
		t.Errorf("kind %s", got)
	}
}

// TestPreserving: kinds from before structural schemas are not pruned, whatever their schema.
func TestPreserving(t *testing.T) {
	crd := parse(t, `- {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object}}}}}`)
	crd.Spec.PreserveUnknownFields = true
	crd.Spec.Versions[0].Subresources = &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}}
	for name, schema := range map[string]*apiextensionsv1.CustomResourceValidation{
		"structural": crd.Spec.Versions[0].Schema, "none": nil,
		"other": {OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", Items: &apiextensionsv1.JSONSchemaPropsOrArray{JSONSchemas: make([]apiextensionsv1.JSONSchemaProps, 1)}}},
	} {
		t.Run(name, func(t *testing.T) {
			crd.Spec.Versions[0].Schema = schema
			v := storage(t, crd)
			u := widget(t, `spec: {a: 1}`)
			if unknown, err := v.Prune(u); len(unknown) > 0 || err != nil || jsonOf(t, u.Object["spec"]) != `{"a":1}` {
				t.Errorf("pruned to %v: %q %v", u.Object, unknown, err)
			}
			v.Default(u)
			equal(t, v.Validate(context.Background(), u), nil)
			equal(t, v.ValidateUpdate(context.Background(), u, u), nil)
			equal(t, v.ValidateStatusUpdate(context.Background(), u, u), nil)
		})
	}
}
