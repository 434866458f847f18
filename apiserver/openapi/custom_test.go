package openapi_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	openapi_v3 "github.com/google/gnostic-models/openapiv3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/openapi3"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/apiserver/openapi"
	"github.com/keelson-dev/keelson/authz/alwaysallow"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/apps"
	"github.com/keelson-dev/keelson/storage/memory"
)

// customKind returns a kind with a schema, which is made by each call of made.
func customKind(gv schema.GroupVersion, kind string, made func() map[string]any) registry.Kind {
	k := registry.Definition[*unstructured.Unstructured]{
		Names:        registry.Names{Kind: kind, Plural: strings.ToLower(kind) + "s", Singular: strings.ToLower(kind)},
		GroupVersion: gv, Namespaced: true, Prefix: gv.Group + "/" + strings.ToLower(kind) + "s",
		New:     func() *unstructured.Unstructured { return &unstructured.Unstructured{Object: map[string]any{}} },
		NewList: func() runtime.Object { return &unstructured.UnstructuredList{} },
		Sub: registry.Subresources[*unstructured.Unstructured]{
			Views: map[string]registry.View[*unstructured.Unstructured]{"status": {}}, Scale: &registry.Scale[*unstructured.Unstructured]{},
		},
	}.Kind()
	k.Schema = made
	return k
}

func parsed(t testing.TB, text string) map[string]any {
	t.Helper()
	var s map[string]any
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

func stable(version string) schema.GroupVersion {
	return schema.GroupVersion{Group: "stable.example.com", Version: version}
}

const objectMetaV3 = `{"allOf": [{"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}], "description": "its metadata"}`

// cronTab is a schema as the definitions of custom resources bring it.
const cronTab = `{"type": "object", "description": "CronTab runs <things>", "x-kubernetes-selectable-fields": [{"fieldPath": "spec.image"}], "properties": {
"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": ` + objectMetaV3 + `,
"spec": {"type": "object", "required": ["cron", "maybe"], "properties": {
	"cron": {"type": "string", "pattern": "^a$", "maxLength": 9, "default": "a"},
	"maybe": {"type": "object", "nullable": true, "properties": {"a": {"type": "string"}}},
	"port": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
	"any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": {"type": "string"}}},
	"anyList": {"type": "array", "x-kubernetes-preserve-unknown-fields": true, "items": {"type": "object"}},
	"list": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"], "items": {"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}, "n": {"type": "number", "maximum": 1.5, "exclusiveMaximum": true, "multipleOf": 0.5, "enum": [0.5, 1]}}}},
	"map": {"type": "object", "required": ["b"], "additionalProperties": {"type": "integer", "format": "int64", "nullable": true}},
	"template": {"type": "object", "nullable": true, "required": ["kind", "apiVersion"], "x-kubernetes-embedded-resource": true, "properties": {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": ` + objectMetaV3 + `, "more": {"type": "string"}}},
	"opaque": {"type": "object", "required": ["a", "kind", "apiVersion"], "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true, "properties": {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": ` + objectMetaV3 + `}},
	"one": {"type": "object", "oneOf": [{"required": ["a"]}], "not": {"required": ["b"]}, "allOf": [{"required": ["c"]}], "externalDocs": {"url": "https://example.com"}, "example": {"a": 1}, "title": "One"},
	"default": {"type": "boolean"}}}}}`

// TestCustomGolden holds what the documents say of kinds with a schema. The module conformance/openapi compares whole
// documents with upstream's.
func TestCustomGolden(t *testing.T) {
	open := customKind(stable("v1"), "Open", func() map[string]any {
		return map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true, "x-kubernetes-selectable-fields": []any{}, "properties": map[string]any{}}
	})
	d := openapi.New([]registry.Kind{customKind(stable("v1"), "CronTab", func() map[string]any { return parsed(t, cronTab) }), open}, openapi.Options{})
	v3, v2 := document(t, d, "/openapi/v3/apis/stable.example.com/v1"), document(t, d, "/openapi/v2")
	var out strings.Builder
	writePaths(&out, v3, "/crontabs")
	writeJSON(&out, v2["paths"].(map[string]any)["/apis/stable.example.com/v1/namespaces/{namespace}/crontabs/{name}/scale"])
	schemas := v3["components"].(map[string]any)["schemas"].(map[string]any)
	for _, name := range []string{"com.example.stable.v1.CronTab", "com.example.stable.v1.CronTabList", "com.example.stable.v1.Open"} {
		writeJSON(&out, schemas[name], v2["definitions"].(map[string]any)[name])
	}
	writeJSON(&out, schemas["io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"].(map[string]any)["x-kubernetes-group-version-kind"])
	delete(v3["components"].(map[string]any), "schemas")
	delete(v3, "paths")
	writeJSON(&out, v3, slices.Sorted(maps.Keys(schemas)), slices.Sorted(maps.Keys(document(t, d, "/openapi/v3")["paths"].(map[string]any))))
	golden(t, "testdata/custom.golden", out.String())
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("go test -update writes it anew; differences (-golden +now):\n%s", diff)
	}
}

// TestCustomProtobuf: the protobuf forms are what gnostic makes of the JSON.
func TestCustomProtobuf(t *testing.T) {
	d := openapi.New([]registry.Kind{customKind(stable("v1"), "CronTab", func() map[string]any { return parsed(t, cronTab) })}, openapi.Options{})
	for url, form := range map[string]struct {
		accept string
		parse  func([]byte) (proto.Message, error)
		got    proto.Message
	}{
		"/openapi/v2":                            {protobuf2, parse2, &openapi_v2.Document{}},
		"/openapi/v3/apis/stable.example.com/v1": {protobuf3, parse3, &openapi_v3.Document{}},
	} {
		want, err := form.parse(get(d, http.MethodGet, url).Body.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if err := proto.Unmarshal(get(d, http.MethodGet, url, "Accept", form.accept).Body.Bytes(), form.got); err != nil {
			t.Fatal(err)
		}
		normalize(want.ProtoReflect())
		normalize(form.got.ProtoReflect())
		if !proto.Equal(want, form.got) {
			t.Errorf("%s: gnostic makes something else of the JSON", url)
		}
	}
}

// TestCustomAtOnce: client-go sees a kind as soon as it is installed, as it is then, until it is removed.
func TestCustomAtOnce(t *testing.T) {
	reg, err := registry.New(memory.New(memory.Options{}), apps.Kinds(), registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := apiserver.New(reg, apiserver.Options{Authorizer: alwaysallow.New(), Paths: openapi.Follow(reg.Kinds, openapi.Options{}).Paths()})
	transport := apiserver.NewTransport(s, nil)
	defer transport.Close()
	c, err := discovery.NewDiscoveryClientForConfig(&rest.Config{Host: "http://server", Transport: transport})
	if err != nil {
		t.Fatal(err)
	}
	described := func(gv schema.GroupVersion) (in3, in2 string) {
		t.Helper()
		name := "com.example.stable." + gv.Version + ".CronTab"
		if spec, err := openapi3.NewRoot(c.OpenAPIV3()).GVSpec(gv); err == nil {
			in3 = spec.Components.Schemas[name].Description
		}
		swagger, err := c.OpenAPISchema()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range swagger.GetDefinitions().GetAdditionalProperties() {
			if p.GetName() == name {
				in2 = p.GetValue().GetDescription()
			}
		}
		return in3, in2
	}
	install := func(gv schema.GroupVersion, description string) *registry.Resource {
		t.Helper()
		res, err := reg.Install(t.Context(), customKind(gv, "CronTab", func() map[string]any {
			return map[string]any{"type": "object", "description": description, "properties": map[string]any{}}
		}))
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	var res *registry.Resource
	for _, step := range []struct{ version, description string }{{"v1", "one"}, {"v1", "another"}, {"v2", "one"}, {"v1", "one"}} {
		res = install(stable(step.version), step.description)
		if in3, in2 := described(stable(step.version)); in3 != step.description || in2 != step.description {
			t.Errorf("installed as %q, described as %q and %q", step.description, in3, in2)
		}
	}
	reg.Remove(res.GroupResource())
	if in3, in2 := described(stable("v1")); in3 != "" || in2 != "" {
		t.Errorf("removed, described as %q and %q", in3, in2)
	}
}

// TestCustomReferences: what a custom kind refers to is there, also if no other kind needs it.
func TestCustomReferences(t *testing.T) {
	var served atomic.Pointer[[]*registry.Kind]
	d := openapi.Follow(func() []*registry.Kind { return *served.Load() }, openapi.Options{})
	k := customKind(stable("v1"), "CronTab", func() map[string]any { return parsed(t, cronTab) })
	for _, all := range [][]*registry.Kind{{}, {&k}} {
		served.Store(&all)
		v2, found := document(t, d, "/openapi/v2"), 0
		walk(v2, func(object map[string]any) {
			if ref, ok := object["$ref"].(string); ok {
				if found++; !leads(v2, ref) {
					t.Errorf("%d kinds: %s leads nowhere", len(all), ref)
				}
			}
		})
		if found == 0 {
			t.Errorf("%d kinds: there are no references", len(all))
		}
	}
}

// TestCustomTooDeep: a schema that is nested too deep is published as that of any object.
func TestCustomTooDeep(t *testing.T) {
	for depth, published := range map[int]bool{400: true, 1001: false} {
		text := `{"properties": {"deep": ` + strings.Repeat(`{"items":`, depth) + `{}` + strings.Repeat("}", depth) + `}}`
		d := openapi.New([]registry.Kind{customKind(stable("v1"), "CronTab", func() map[string]any { return parsed(t, text) })}, openapi.Options{})
		s := document(t, d, "/openapi/v2")["definitions"].(map[string]any)["com.example.stable.v1.CronTab"].(map[string]any)
		if _, ok := s["properties"]; ok != published {
			t.Errorf("%d deep: published is %t", depth, ok)
		}
	}
}

// TestCustomKept: what a document says of a kind is made once, whatever other kinds come and go.
func TestCustomKept(t *testing.T) {
	reg, err := registry.New(memory.New(memory.Options{}), apps.Kinds(), registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d := openapi.Follow(reg.Kinds, openapi.Options{})
	var made atomic.Int32
	install := func(version string) {
		t.Helper()
		if _, err := reg.Install(t.Context(), customKind(stable(version), "CronTab"+version, func() map[string]any { made.Add(1); return parsed(t, cronTab) })); err != nil {
			t.Fatal(err)
		}
	}
	read := func() (calls int32, tags map[string]any) {
		made.Store(0)
		for range 2 {
			tags = document(t, d, "/openapi/v3")["paths"].(map[string]any)
			for key := range tags {
				get(d, http.MethodGet, "/openapi/v3/"+key)
				get(d, http.MethodGet, "/openapi/v3/"+key, "Accept", protobuf3)
			}
			get(d, http.MethodGet, "/openapi/v2")
			get(d, http.MethodGet, "/openapi/v2", "Accept", protobuf2)
		}
		return made.Load(), tags
	}
	install("v1")
	once, before := read()
	if once == 0 || once > 5 { // each document in each encoding, and a hash
		t.Errorf("%d schemas were asked for", once)
	}
	install("v2")
	again, after := read()
	if again != once {
		t.Errorf("a second kind made the documents ask for %d schemas, the first for %d", again, once)
	}
	const first, second = "apis/stable.example.com/v1", "apis/stable.example.com/v2"
	if diff := cmp.Diff(before[first], after[first]); diff != "" || after[second] == nil {
		t.Errorf("the document of another kind changed: %s", diff)
	}
	reg.Remove(schema.GroupResource{Group: "stable.example.com", Resource: "crontabv2s"})
	if calls, _ := read(); calls != 0 {
		t.Errorf("a kind was removed, and %d schemas asked for", calls)
	}
}

// TestCustomOrder: documents are the same whichever custom kind came first, as after a restart, or on another server.
func TestCustomOrder(t *testing.T) {
	kinds := func(names ...string) []registry.Kind {
		all := apps.Kinds()
		for _, name := range names {
			gv := stable("v1")
			if name == "Other" {
				gv.Group = "other.example.com"
			}
			all = append(all, customKind(gv, name, func() map[string]any { return parsed(t, cronTab) }))
		}
		return all
	}
	one, two := openapi.New(kinds("Zoo", "Ant", "Other"), openapi.Options{}), openapi.New(kinds("Other", "Ant", "Zoo"), openapi.Options{})
	for _, url := range []string{"/openapi/v2", "/openapi/v3/apis/stable.example.com/v1"} {
		a, b := get(one, http.MethodGet, url), get(two, http.MethodGet, url)
		if a.Code != http.StatusOK || a.Body.String() != b.Body.String() || a.Header().Get("Etag") != b.Header().Get("Etag") {
			t.Errorf("%s: status %d, entity tags %s and %s", url, a.Code, a.Header().Get("Etag"), b.Header().Get("Etag"))
		}
	}
}

// FuzzCustom: whatever a schema is, documents are served, in all encodings, and say the same of other kinds.
func FuzzCustom(f *testing.F) {
	f.Add(cronTab)
	for _, text := range []string{
		`{}`, `{"type": 1, "properties": [], "items": 3, "required": {"a": 1}, "additionalProperties": "x"}`,
		`{"properties": {"a": null, "b": {"properties": {"c": 1}}}}`, `{"allOf": [{"$ref": 1}], "$ref": {}}`,
		`{"$ref": "#/components/schemas/io.k8s.api.core.v1.PodSpec"}`, `{"$ref": "#/components/schemas/nowhere"}`,
		`{"maximum": 1e300}`, `{"maxLength": 1.5}`, `{"items": [{"type": "string"}]}`, `{"unknown": true, "x-": {"y": null}}`,
		`{"x-kubernetes-group-version-kind": 7, "x-kubernetes-embedded-resource": true, "nullable": true}`,
		`{"properties": {"a": {"additionalProperties": ` + strings.Repeat(`{"items":`, 1200) + `{}` + strings.Repeat("}", 1200) + `}}}`,
	} {
		f.Add(text)
	}
	sound := customKind(stable("v1"), "Sound", func() map[string]any { return map[string]any{"type": "object"} })
	var served atomic.Pointer[[]*registry.Kind] // one server for all, which need not make the same documents again and again
	d := openapi.Follow(func() []*registry.Kind { return *served.Load() }, openapi.Options{})
	f.Fuzz(func(t *testing.T, text string) {
		var s map[string]any
		if json.Unmarshal([]byte(text), &s) != nil || len(text) > 1<<16 {
			t.Skip()
		}
		k := customKind(stable("v1"), "CronTab", func() map[string]any { return s })
		served.Store(&[]*registry.Kind{&k, &sound})
		copied, _ := json.Marshal(s)
		for url, accept := range map[string]string{"/openapi/v2": protobuf2, "/openapi/v3/apis/stable.example.com/v1": protobuf3} {
			v := document(t, d, url)
			definitions, _ := v["definitions"].(map[string]any)
			if url != "/openapi/v2" {
				definitions = v["components"].(map[string]any)["schemas"].(map[string]any)
			}
			kind := definitions["com.example.stable.v1.CronTab"].(map[string]any)["x-kubernetes-group-version-kind"]
			if got := fmt.Sprint(kind); got != "[map[group:stable.example.com kind:CronTab version:v1]]" {
				t.Errorf("%s: the definition is of %s", url, got)
			}
			if definitions["com.example.stable.v1.Sound"] == nil {
				t.Errorf("%s: another kind is missing", url)
			}
			if w := get(d, http.MethodGet, url, "Accept", accept); w.Code != http.StatusOK {
				t.Errorf("%s in protobuf: status %d, %s", url, w.Code, w.Body)
			}
			if length := get(d, http.MethodGet, url).Body.Len(); length > 1<<20+20*len(text) {
				t.Errorf("%s: %d bytes, of a schema of %d", url, length, len(text))
			}
		}
		if after, _ := json.Marshal(s); string(after) != string(copied) {
			t.Error("the schema was changed")
		}
	})
}

// BenchmarkInstall measures how long a server with a thousand custom kinds takes to describe one more: the index and the
// kind's own document in v3, and the document in v2.
func BenchmarkInstall(b *testing.B) {
	many := apps.Kinds()
	for i := range 1000 {
		gv := schema.GroupVersion{Group: fmt.Sprintf("g%d.example.com", i), Version: "v1"}
		many = append(many, customKind(gv, "CronTab", func() map[string]any { return parsed(b, cronTab) }))
	}
	all := make([]*registry.Kind, len(many))
	for i := range many {
		all[i] = &many[i]
	}
	urls := map[string][]string{
		"v3": {"/openapi/v3", "/openapi/v3/apis/stable.example.com/v1"}, "v2": {"/openapi/v2"},
	}
	for _, version := range []string{"v3", "v2"} {
		b.Run(version, func(b *testing.B) {
			var now atomic.Pointer[[]*registry.Kind]
			now.Store(&all)
			d := openapi.Follow(func() []*registry.Kind { return *now.Load() }, openapi.Options{})
			read := func() {
				for _, url := range urls[version] {
					get(d, http.MethodGet, url, "Accept-Encoding", "gzip")
				}
			}
			read()
			b.ReportAllocs()
			for b.Loop() {
				k := customKind(stable("v1"), "CronTab", func() map[string]any { return parsed(b, cronTab) })
				next := append(slices.Clone(all), &k)
				now.Store(&next)
				read()
			}
		})
	}
}
