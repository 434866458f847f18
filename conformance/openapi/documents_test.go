package openapi_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/keelson-dev/keelson/apiserver/openapi"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/apps"
	"github.com/keelson-dev/keelson/registry/authentication"
	"github.com/keelson-dev/keelson/registry/authorization"
	"github.com/keelson-dev/keelson/registry/coordination"
	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/registry/discovery"
	"github.com/keelson-dev/keelson/registry/networking"
	"github.com/keelson-dev/keelson/registry/policy"
	"github.com/keelson-dev/keelson/registry/rbac"
	"github.com/keelson-dev/keelson/registry/scheduling"
	"github.com/keelson-dev/keelson/registry/storage"
)

var sources = flag.String("upstream", "", "directory of the sources of Kubernetes; empty: downloaded by the go command")

// later are subresources of served kinds that are not served yet.
func later() []string { return []string{"token"} }

// kinds returns all of upstream's kinds that are served.
func kinds() []registry.Kind {
	return slices.Concat(
		core.Kinds(core.Options{}), apps.Kinds(), coordination.Kinds(), discovery.Kinds(), policy.Kinds(), rbac.Kinds(nil),
		authentication.Kinds(nil, authentication.Options{}), authorization.Kinds(nil, nil), scheduling.Kinds(), storage.Kinds(), networking.Kinds(),
	)
}

// upstream reads one of upstream's documents.
func upstream(t *testing.T, dir, file string) map[string]any {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "api", "openapi-spec", filepath.FromSlash(file)))
	if err != nil {
		t.Fatal(err)
	}
	var v map[string]any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return asDefault(v).(map[string]any)
}

// locate finds the sources of Kubernetes.
func locate(t *testing.T) string {
	t.Helper()
	if *sources != "" {
		return *sources
	}
	cmd := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", "k8s.io/kubernetes@v1.37.1")
	out, err := cmd.Output()
	var module struct{ Dir, Error string }
	if jsonErr := json.Unmarshal(out, &module); jsonErr != nil || module.Dir == "" {
		t.Fatalf("the sources of Kubernetes cannot be downloaded (name a directory by -upstream): %v %s", err, module.Error)
	}
	return module.Dir
}

// ours requests one of keelson's documents.
func ours(t *testing.T, d *openapi.Documents, url string) map[string]any {
	t.Helper()
	h, ok := d.Paths()[url]
	if !ok {
		h = d.Paths()["/openapi/v3/"]
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, url, nil))
	var v map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%s: status %d, %v", url, w.Code, err)
	}
	return v
}

// asDefault converts a recorded document to that of a server with upstream's defaults: the recorded server had alpha
// features enabled, of which CBOR shows.
func asDefault(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			if strings.Contains(name, "cbor") {
				delete(v, name)
				continue
			}
			v[name] = asDefault(member)
		}
		return v
	case []any:
		v = slices.DeleteFunc(v, func(e any) bool { s, ok := e.(string); return ok && strings.Contains(s, "cbor") })
		for i := range v {
			v[i] = asDefault(v[i])
		}
		return v
	}
	return v
}

// asRecorded removes enums from ours: upstream records its documents without them, though its servers have them,
// because code generators cannot handle them.
func asRecorded(v any) any {
	switch v := v.(type) {
	case map[string]any:
		if _, ok := v["enum"].([]any); ok {
			delete(v, "enum")
		}
		if text, ok := v["description"].(string); ok {
			text, _, _ = strings.Cut(text, "Possible enum values:")
			v["description"] = strings.TrimSpace(text)
		}
		for _, member := range v {
			asRecorded(member)
		}
	case []any:
		for _, element := range v {
			asRecorded(element)
		}
	}
	return v
}

// TestDocuments compares each document that keelson serves with upstream's of the same name: all of our paths and
// definitions exist there and are the same.
func TestDocuments(t *testing.T) {
	dir := locate(t)
	d := openapi.New(kinds(), openapi.Options{Issuer: true})
	compared := 0
	for key := range ours(t, d, "/openapi/v3")["paths"].(map[string]any) {
		t.Run(key, func(t *testing.T) {
			want := upstream(t, dir, "v3/"+strings.ReplaceAll(key, "/", "__")+"_openapi.json")
			got := asRecorded(ours(t, d, "/openapi/v3/"+key)).(map[string]any)
			compared += same(t, "path", want["paths"], got["paths"])
			nothingMissing(t, want["paths"].(map[string]any), got["paths"].(map[string]any))
			same(t, "definition", schemas(want), schemas(got))
			for _, d := range []map[string]any{want, got} {
				delete(d, "paths")
				delete(d["components"].(map[string]any), "schemas")
			}
			same(t, "member", want, got)
		})
	}
	t.Run("v2", func(t *testing.T) {
		want := upstream(t, dir, "swagger.json")
		got := asRecorded(ours(t, d, "/openapi/v2")).(map[string]any)
		compared += same(t, "path", want["paths"], got["paths"])
		same(t, "definition", want["definitions"], got["definitions"])
		same(t, "parameter", want["parameters"], got["parameters"])
		for _, name := range []string{"paths", "definitions", "parameters"} {
			delete(want, name)
			delete(got, name)
		}
		same(t, "member", want, got)
	})
	if compared < 300 {
		t.Errorf("only %d paths compared", compared)
	}
}

func schemas(document map[string]any) any {
	all := document["components"].(map[string]any)["schemas"]
	if all == nil { // upstream leaves it out when it is empty
		return map[string]any{}
	}
	return all
}

// same compares what ours has with upstream's entries of the same name, and returns how many are equal.
func same(t *testing.T, what string, want, got any) int {
	t.Helper()
	n := 0
	for name, mine := range got.(map[string]any) {
		theirs, ok := want.(map[string]any)[name]
		if !ok {
			t.Errorf("%s %s is not in upstream's document", what, name)
			continue
		}
		if diff := cmp.Diff(theirs, mine); diff != "" {
			t.Errorf("%s %s (-upstream +ours):\n%.2000s", what, name, diff)
			continue
		}
		n++
	}
	return n
}

// nothingMissing finds paths of served resources that upstream has and ours has not.
func nothingMissing(t *testing.T, want, got map[string]any) {
	t.Helper()
	served := map[string]bool{}
	for path := range got {
		resource, _ := parse(path)
		served[resource] = true
	}
	for path := range want {
		resource, sub := parse(path)
		if _, ok := got[path]; !ok && served[resource] && !slices.Contains(later(), sub) {
			t.Errorf("path %s of a served resource is missing", path)
		}
	}
}

// parse finds resource and subresource in a path.
func parse(path string) (resource, sub string) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	if parts[0] == "api" {
		parts = append([]string{"apis"}, parts...)
	}
	if len(parts) < 4 {
		return "", ""
	}
	parts = parts[3:]
	if parts[0] == "watch" {
		parts = parts[1:]
	}
	if len(parts) > 2 && parts[0] == "namespaces" && parts[1] == "{namespace}" {
		parts = parts[2:]
	}
	if len(parts) > 2 {
		sub = parts[2]
	}
	return fmt.Sprint(parts[0]), sub
}
