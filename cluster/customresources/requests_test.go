package customresources_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/cluster"
)

// ports gives backups a list of ports, a map by name.
func ports(crd *definition) {
	key, kind := []string{"name"}, "map"
	crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["ports"] = apiextensionsv1.JSONSchemaProps{
		Type: "array", XListType: &kind, XListMapKeys: key, Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &apiextensionsv1.JSONSchemaProps{
			Type: "object", Required: key, Properties: map[string]apiextensionsv1.JSONSchemaProps{"name": {Type: "string"}, "port": {Type: "integer"}},
		}},
	}
}

// rawClient sends bodies as they are.
func rawClient(t *testing.T, config *rest.Config) *rest.RESTClient {
	t.Helper()
	config = rest.CopyConfig(config)
	config.GroupVersion, config.APIPath, config.NegotiatedSerializer = &schema.GroupVersion{}, "/", scheme.Codecs.WithoutConversion()
	raw, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// Bodies are read by the definition: unknown and duplicate fields are refused or warned of, and the type must be named.
func TestBodies(t *testing.T) {
	c := start(t, cluster.Options{})
	a, ctx := clients(t, c.Config()), t.Context()
	a.define(backup())
	a.established("backups.example.com")
	raw := rawClient(t, c.Config())
	const head, path = `{"apiVersion":"example.com/v1","kind":"Backup","metadata":{"name":"x"}`, "/apis/example.com/v1/namespaces/default/backups"
	for name, tt := range map[string]struct {
		body, validation, contentType string
		code                          int
		want                          string // part of the answer or the warning
	}{
		"unknown, strict":   {head + `,"spec":{"bogus":1}}`, "Strict", "", 400, `strict decoding error: unknown field \"spec.bogus\"`},
		"unknown, warn":     {head + `,"spec":{"bogus":1}}`, "Warn", "", 201, `unknown field "spec.bogus"`},
		"unknown, ignore":   {head + `,"spec":{"bogus":1}}`, "Ignore", "", 201, ""},
		"duplicate, strict": {head + `,"spec":{"target":"a","target":"b"}}`, "Strict", "", 400, `duplicate field \"spec.target\"`},
		"unknown metadata":  {`{"apiVersion":"example.com/v1","kind":"Backup","metadata":{"name":"x","bogus":1}}`, "Strict", "", 400, `unknown field \"metadata.bogus\"`},
		"no kind":           {`{"apiVersion":"example.com/v1","metadata":{"name":"x"}}`, "", "", 400, "Object 'Kind' is missing in"},
		"no version":        {`{"kind":"Backup","metadata":{"name":"x"}}`, "", "", 400, "the API version in the data () does not match the expected API version (example.com/v1)"},
		"another kind":      {`{"apiVersion":"example.com/v1","kind":"Other","metadata":{"name":"x"}}`, "", "", 422, `Other.example.com \"x\" is invalid: kind: Invalid value: \"Other\": must be Backup`},
		"no kind, ignored":  {`{"apiVersion":"example.com/v1","metadata":{"name":"x"}}`, "Ignore", "", 400, `Backup in version \"v1\" cannot be handled as a Backup: Object 'Kind' is missing in`},
		"no kind, strict":   {`{"apiVersion":"example.com/v1","metadata":{"name":5}}`, "Strict", "", 400, "the object provided is unrecognized (must be of type Backup): Object 'Kind' is missing in"},
		"null":              {"null", "", "", 400, "the object provided is unrecognized (must be of type Backup): Object 'Kind' is missing in 'null'"},
		"another version":   {`{"apiVersion":"example.com/v9","kind":"Backup","spec":{}}`, "Warn", "", 400, `unknown field "spec"`},
		"another, bad":      {`{"apiVersion":"example.com/v1","kind":"Other","metadata":{"name":[]}}`, "", "", 400, `Other in version \"v1\" cannot be handled as a Backup: json: cannot unmarshal array into Go struct field ObjectMeta.name of type string`},
		"another, twice":    {`{"apiVersion":"example.com/v1","kind":"Other","a":1,"a":2}`, "Strict", "", 400, `Other in version \"v1\" cannot be handled as a Other: strict decoding error: duplicate field \"a\"`},
		"malformed":         {head + `,"metadata":{"labels":5}}`, "", "", 400, "Backup in version"},
		"YAML, strict":      {"apiVersion: example.com/v1\nkind: Backup\nmetadata: {name: x}\nspec: {bogus: 1}\n", "Strict", "application/yaml", 400, `unknown field \"spec.bogus\"`},
		"protobuf":          {"k8s\x00", "", "application/vnd.kubernetes.protobuf", 415, "accepted media types include: application/json, application/yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			told := &warnings{}
			q := raw.Post().AbsPath(path).Body([]byte(tt.body)).WarningHandler(told)
			if q.SetHeader("Content-Type", "application/json"); tt.contentType != "" {
				q.SetHeader("Content-Type", tt.contentType)
			}
			if tt.validation != "" {
				q.Param("fieldValidation", tt.validation)
			}
			var code int
			answer, err := q.Do(ctx).StatusCode(&code).Raw()
			text := string(answer) + strings.Join(told.texts, "\n")
			if code != tt.code || !strings.Contains(text, tt.want) || code == http.StatusCreated && tt.want == "" && len(told.texts) > 0 {
				t.Errorf("%d, %v, %s, warnings %q", code, err, answer, told.texts)
			}
			if code == http.StatusCreated {
				a.delete(a.backups("default"), "x")
			}
		})
	}
}

type warnings struct{ texts []string }

func (w *warnings) HandleWarningHeader(_ int, _, text string) { w.texts = append(w.texts, text) }

// Server-side apply merges lists by the keys of the schema, and tells conflicts by them.
func TestApply(t *testing.T) {
	c := start(t, cluster.Options{})
	a, ctx := clients(t, c.Config()), t.Context()
	a.define(backup(ports))
	a.established("backups.example.com")
	apply := func(manager, spec string) (*unstructured.Unstructured, error) {
		config := &unstructured.Unstructured{}
		if err := config.UnmarshalJSON([]byte(`{"apiVersion":"example.com/v1","kind":"Backup","metadata":{"name":"a"},"spec":` + spec + `}`)); err != nil {
			t.Fatal(err)
		}
		return a.backups("default").Apply(ctx, "a", config, metav1.ApplyOptions{FieldManager: manager})
	}
	if _, err := apply("one", `{"ports":[{"name":"http","port":80}]}`); err != nil {
		t.Fatal(err)
	}
	u, err := apply("two", `{"ports":[{"name":"https","port":443}],"target":"x"}`)
	if err != nil {
		t.Fatal(err)
	}
	if list, _, _ := unstructured.NestedSlice(u.Object, "spec", "ports"); len(list) != 2 || len(u.GetManagedFields()) != 2 {
		t.Errorf("ports %v, managers %v", list, u.GetManagedFields())
	}
	_, err = apply("one", `{"ports":[{"name":"http","port":80},{"name":"https","port":8443}]}`)
	if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), `conflict with "two": .spec.ports[name="https"].port`) {
		t.Errorf("a conflict: %v", err)
	}
	if u, err = apply("one", `{}`); err != nil {
		t.Fatal(err)
	}
	if list, _, _ := unstructured.NestedSlice(u.Object, "spec", "ports"); len(list) != 1 {
		t.Errorf("ports %v", list)
	}
	if _, err = apply("one", `{"bogus":1}`); err == nil || !strings.Contains(err.Error(), ".spec.bogus: field not declared in schema") {
		t.Errorf("an unknown field: %v", err)
	}
	if _, err = apply("one", `{"ports":[{"name":"a"},{"name":"a"}]}`); err == nil || !strings.Contains(err.Error(), `.spec.ports: duplicate entries for key [name="a"]`) {
		t.Errorf("a port twice: %v", err)
	}
}

// OpenAPI shows a kind from the request that follows its definition.
func TestPublished(t *testing.T) {
	c := start(t, cluster.Options{})
	a := clients(t, c.Config())
	raw := rawClient(t, c.Config())
	get := func(path string) string {
		answer, err := raw.Get().AbsPath(path).Do(t.Context()).Raw()
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		return string(answer)
	}
	const path = "/openapi/v3/apis/example.com/v1"
	if text := get(path); strings.Contains(text, "Backup") {
		t.Error("it is there before it is defined")
	}
	a.define(backup(ports))
	a.established("backups.example.com")
	for _, want := range []string{`"com.example.v1.Backup"`, `"x-kubernetes-list-map-keys"`, `"/apis/example.com/v1/namespaces/{namespace}/backups/{name}/status"`} {
		if !strings.Contains(get(path), want) {
			t.Errorf("v3 lacks %s", want)
		}
	}
	if !strings.Contains(get("/openapi/v2"), `"com.example.v1.BackupList"`) || !strings.Contains(get("/openapi/v3"), "apis/example.com/v1") {
		t.Error("v2 or the index of v3 lacks the kind")
	}
	a.delete(a.any.Resource(definitions), "backups.example.com")
	a.gone(a.any.Resource(definitions), "backups.example.com")
	eventually(t, func() error { // the kind goes when the definition has gone
		if strings.Contains(get("/openapi/v2"), "com.example.v1.Backup") {
			return errors.New("it is still there")
		}
		return nil
	})
}
