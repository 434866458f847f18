package openapi_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/apiserver/openapi"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/apps"
	"github.com/keelson-dev/keelson/registry/authentication"
	"github.com/keelson-dev/keelson/registry/authorization"
	"github.com/keelson-dev/keelson/registry/coordination"
	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/registry/discovery"
	"github.com/keelson-dev/keelson/registry/policy"
	"github.com/keelson-dev/keelson/registry/rbac"
	"github.com/keelson-dev/keelson/registry/scheduling"
	"github.com/keelson-dev/keelson/registry/storage"
)

var update = flag.Bool("update", false, "write the golden files anew")

// kinds are all of upstream's kinds that are served.
func kinds() []registry.Kind {
	return slices.Concat(
		core.Kinds(core.Options{}), apps.Kinds(), coordination.Kinds(), discovery.Kinds(), policy.Kinds(), rbac.Kinds(nil),
		authentication.Kinds(nil, authentication.Options{}), authorization.Kinds(nil, nil), scheduling.Kinds(), storage.Kinds(),
	)
}

func documents() *openapi.Documents {
	return openapi.New(kinds(), openapi.Options{Version: "v1.37.1", Issuer: true})
}

// get asks for a document, with headers in pairs.
func get(d *openapi.Documents, method, url string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, url, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h, ok := d.Paths()[r.URL.Path]
	if !ok {
		h = d.Paths()["/openapi/v3/"]
	}
	h.ServeHTTP(w, r)
	return w
}

// document decodes a document's JSON.
func document(t *testing.T, d *openapi.Documents, url string) map[string]any {
	t.Helper()
	w := get(d, http.MethodGet, url)
	var v map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%s: status %d, %v", url, w.Code, err)
	}
	return v
}

// TestGolden holds what the documents say of pods and deployments: each operation with all that
// belongs to it, and the definitions' fields. The module conformance/openapi compares whole
// documents with upstream's.
func TestGolden(t *testing.T) {
	d := documents()
	var out strings.Builder
	for _, of := range []struct{ key, resource, definition string }{
		{"api/v1", "/pods", "io.k8s.api.core.v1.Pod"}, {"apis/apps/v1", "/deployments", "io.k8s.api.apps.v1.Deployment"},
	} {
		v3 := document(t, d, "/openapi/v3/"+of.key)
		writePaths(&out, v3, of.resource)
		schemas := v3["components"].(map[string]any)["schemas"].(map[string]any)
		writeJSON(&out, undescribed(schemas[of.definition]))
	}
	port := "io.k8s.api.core.v1.ContainerPort"
	writeJSON(&out, document(t, d, "/openapi/v3/api/v1")["components"].(map[string]any)["schemas"].(map[string]any)[port])
	v2 := document(t, d, "/openapi/v2")
	writeJSON(&out, v2["definitions"].(map[string]any)[port])
	writeJSON(&out, undescribed(v2["paths"].(map[string]any)["/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale"]))
	const file = "testdata/documents.golden"
	if *update {
		if err := os.WriteFile(file, []byte(out.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), out.String()); diff != "" {
		t.Errorf("go test -update writes it anew; differences (-golden +now):\n%s", diff)
	}
}

// writePaths writes the operations on a resource: a line each, but for descriptions.
func writePaths(out io.Writer, document map[string]any, resource string) {
	paths := document["paths"].(map[string]any)
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		if !strings.Contains(path, resource) {
			continue
		}
		item := paths[path].(map[string]any)
		fmt.Fprintln(out, path, names(item["parameters"]))
		delete(item, "parameters")
		for _, method := range slices.Sorted(maps.Keys(item)) {
			op := item[method].(map[string]any)
			fmt.Fprintln(out, " ", method, op["operationId"], op["tags"], op["x-kubernetes-action"], op["x-kubernetes-group-version-kind"], names(op["parameters"]))
			if body, ok := op["requestBody"].(map[string]any); ok {
				fmt.Fprintln(out, "    <-", body["required"] == true, contents(body["content"]))
			}
			for _, code := range slices.Sorted(maps.Keys(op["responses"].(map[string]any))) {
				answer := op["responses"].(map[string]any)[code].(map[string]any)
				fmt.Fprintln(out, "    ->", code, answer["description"], contents(answer["content"]))
			}
		}
	}
}

// contents are what each media type brings, by the definition's own name.
func contents(v any) []string {
	var all []string
	byMedia, _ := v.(map[string]any)
	for _, media := range slices.Sorted(maps.Keys(byMedia)) {
		schema := byMedia[media].(map[string]any)["schema"].(map[string]any)
		ref, ok := schema["$ref"].(string)
		if !ok {
			ref = schema["type"].(string)
		}
		all = append(all, ref[strings.LastIndex(ref, ".")+1:]+" as "+media)
	}
	return all
}

// names are those of parameters, of required ones with a star.
func names(parameters any) []string {
	var all []string
	list, _ := parameters.([]any)
	for _, p := range list {
		p := p.(map[string]any)
		name := fmt.Sprint(p["in"], " ", p["name"], " ", p["schema"].(map[string]any)["type"])
		if p["required"] == true {
			name += "*"
		}
		all = append(all, name)
	}
	return all
}

func undescribed(v any) any {
	switch v := v.(type) {
	case map[string]any:
		delete(v, "description")
		for _, member := range v {
			undescribed(member)
		}
	case []any:
		for _, element := range v {
			undescribed(element)
		}
	}
	return v
}

func writeJSON(out io.Writer, values ...any) {
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	for _, v := range values {
		if err := e.Encode(v); err != nil {
			panic(err) // decoded JSON encodes
		}
	}
}

// TestReferences: every reference leads somewhere, and every operation has an ID of its own.
func TestReferences(t *testing.T) {
	d := documents()
	urls := []string{"/openapi/v2"}
	for key := range document(t, d, "/openapi/v3")["paths"].(map[string]any) {
		urls = append(urls, "/openapi/v3/"+key)
	}
	if len(urls) < 15 {
		t.Fatalf("only %d documents", len(urls))
	}
	for _, url := range urls {
		v := document(t, d, url)
		ids := map[string]bool{}
		walk(v, func(object map[string]any) {
			if ref, ok := object["$ref"].(string); ok && !leads(v, ref) {
				t.Errorf("%s: %s leads nowhere", url, ref)
			}
			if id, ok := object["operationId"].(string); ok {
				if ids[id] {
					t.Errorf("%s: two operations are %s", url, id)
				}
				ids[id] = true
			}
		})
	}
}

func walk(v any, visit func(map[string]any)) {
	switch v := v.(type) {
	case map[string]any:
		visit(v)
		for _, member := range v {
			walk(member, visit)
		}
	case []any:
		for _, element := range v {
			walk(element, visit)
		}
	}
}

func leads(document map[string]any, ref string) bool {
	var v any = document
	for _, part := range strings.Split(strings.TrimPrefix(ref, "#/"), "/") {
		object, ok := v.(map[string]any)
		if !ok {
			return false
		}
		v = object[part]
	}
	return v != nil
}

const (
	protobuf3    = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"
	oldProtobuf3 = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf"
	protobuf2    = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
	oldProtobuf2 = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
)

// TestNegotiation: codes and media types by path and Accept.
func TestNegotiation(t *testing.T) {
	d := documents()
	for _, c := range []struct {
		url, accept string
		code        int
		media       string
	}{
		{"/openapi/v3", "", 200, "application/json"},
		{"/openapi/v3/apis/apps/v1", "", 200, "application/json"},
		{"/openapi/v3/apis/apps/v1", "*/*", 200, "application/json"},
		{"/openapi/v3/apis/apps/v1", protobuf3, 200, protobuf3},
		{"/openapi/v3/apis/apps/v1", oldProtobuf3, 200, protobuf3},
		{"/openapi/v3/apis/apps/v1", "application/json;q=0.5, " + oldProtobuf3, 200, protobuf3},
		{"/openapi/v3/apis/apps/v1", "*/*, " + oldProtobuf3, 200, protobuf3},
		{"/openapi/v3/apis/apps/v1", "text/plain", 406, ""},
		{"/openapi/v3/apis/apps/v1", protobuf2, 406, ""},
		{"/openapi/v3/apis/apps/v2", "", 404, ""},
		{"/openapi/v3/", "", 404, ""},
		{"/openapi/v2", "", 200, "application/json"},
		{"/openapi/v2", protobuf2, 200, protobuf2},
		{"/openapi/v2", oldProtobuf2, 200, protobuf2},
		{"/openapi/v2", "text/plain", 406, ""},
	} {
		w := get(d, http.MethodGet, c.url, "Accept", c.accept)
		if w.Code != c.code || w.Header().Get("Content-Type") != c.media {
			t.Errorf("%s, Accept %q: %d %s, want %d %s", c.url, c.accept, w.Code, w.Header().Get("Content-Type"), c.code, c.media)
		}
	}
}

// TestCaching: the index tells hashes, under which documents may be kept for ever; others lead there.
func TestCaching(t *testing.T) {
	d := documents()
	index := document(t, d, "/openapi/v3")["paths"].(map[string]any)
	url := index["apis/apps/v1"].(map[string]any)["serverRelativeURL"].(string)
	w := get(d, http.MethodGet, url)
	hash := fmt.Sprintf("%X", sha512.Sum512(w.Body.Bytes()))
	if want := "/openapi/v3/apis/apps/v1?hash=" + hash; url != want {
		t.Errorf("index leads to %s, want %s", url, want)
	}
	etag := w.Header().Get("Etag")
	if etag != `"`+hash+`"` || w.Header().Get("Cache-Control") != "public, immutable" || w.Header().Get("Expires") == "" {
		t.Errorf("headers with the hash: %v", w.Header())
	}
	if w := get(d, http.MethodGet, "/openapi/v3/apis/apps/v1"); w.Header().Get("Expires") != "" || w.Header().Get("Etag") != etag {
		t.Errorf("headers without a hash: %v", w.Header())
	}
	w = get(d, http.MethodGet, "/openapi/v3/apis/apps/v1?hash=OLD")
	if w.Code != http.StatusMovedPermanently || w.Header().Get("Location") != url {
		t.Errorf("with an old hash: %d to %s", w.Code, w.Header().Get("Location"))
	}
	for _, url := range []string{"/openapi/v2", "/openapi/v3", url} {
		etag := get(d, http.MethodGet, url).Header().Get("Etag")
		w := get(d, http.MethodGet, url, "If-None-Match", etag)
		if w.Code != http.StatusNotModified || w.Body.Len() > 0 {
			t.Errorf("%s, known: %d and %d bytes", url, w.Code, w.Body.Len())
		}
		w = get(d, http.MethodHead, url)
		if w.Code != http.StatusOK || w.Body.Len() > 0 || w.Header().Get("Etag") != etag {
			t.Errorf("HEAD %s: %d and %d bytes, %v", url, w.Code, w.Body.Len(), w.Header())
		}
	}
}

// TestOrder: a document is the same whether the index, the protobuf form or itself was asked for first.
func TestOrder(t *testing.T) {
	const url = "/openapi/v3/api/v1"
	want := get(documents(), http.MethodGet, url).Header().Get("Etag")
	for _, first := range [][]string{{"/openapi/v3"}, {url, "Accept", protobuf3}, {"/openapi/v2"}} {
		d := documents()
		get(d, http.MethodGet, first[0], first[1:]...)
		if got := get(d, http.MethodGet, url).Header().Get("Etag"); got != want {
			t.Errorf("after %v: %s, want %s", first, got, want)
		}
	}
}

func TestGzip(t *testing.T) {
	d := documents()
	for _, url := range []string{"/openapi/v2", "/openapi/v3", "/openapi/v3/api/v1"} {
		plain := get(d, http.MethodGet, url)
		for _, header := range []string{"gzip", "deflate, gzip;q=0.5", "*"} {
			w := get(d, http.MethodGet, url, "Accept-Encoding", header)
			z, err := gzip.NewReader(w.Body)
			if err != nil {
				t.Fatalf("%s, Accept-Encoding %q: %v", url, header, err)
			}
			data, err := io.ReadAll(z)
			if err != nil || string(data) != plain.Body.String() || w.Header().Get("Content-Encoding") != "gzip" {
				t.Errorf("%s, Accept-Encoding %q: %v, %d bytes, want %d", url, header, err, len(data), plain.Body.Len())
			}
		}
		if w := get(d, http.MethodGet, url, "Accept-Encoding", "gzip;q=0, identity"); w.Header().Get("Content-Encoding") != "" {
			t.Errorf("%s is compressed for a client that refuses it", url)
		}
		if !slices.Contains(plain.Header().Values("Vary"), "Accept-Encoding") {
			t.Errorf("%s: Vary is %q", url, plain.Header().Values("Vary"))
		}
	}
}

// TestConcurrent: first requests at once get the same document.
func TestConcurrent(t *testing.T) {
	d := documents()
	etags := make(chan string)
	for range 8 {
		go func() { etags <- get(d, http.MethodGet, "/openapi/v3/apis/policy/v1").Header().Get("Etag") }()
		go func() { get(d, http.MethodGet, "/openapi/v3"); etags <- "" }()
	}
	seen := map[string]bool{}
	for range 16 {
		seen[<-etags] = true
	}
	if len(seen) != 2 {
		t.Errorf("tags %v", slices.Collect(maps.Keys(seen)))
	}
}

// TestJSON: the server's own process reads what clients get.
func TestJSON(t *testing.T) {
	d := openapi.New(kinds(), openapi.Options{})
	for path, of := range map[string]schema.GroupVersion{"api/v1": {Version: "v1"}, "apis/apps/v1": {Group: "apps", Version: "v1"}} {
		w := httptest.NewRecorder()
		d.Paths()["/openapi/v3/"].ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/openapi/v3/"+path, nil))
		got, ok, err := d.JSON(of)
		if err != nil || !ok || !bytes.Equal(got, w.Body.Bytes()) {
			t.Errorf("%s: %t, %v, %d bytes of %d", path, ok, err, len(got), w.Body.Len())
		}
	}
	if got, ok, err := d.JSON(schema.GroupVersion{Group: "nothing.io", Version: "v1"}); got != nil || ok || err != nil {
		t.Errorf("what is not served: %d bytes, %t, %v", len(got), ok, err)
	}
}
