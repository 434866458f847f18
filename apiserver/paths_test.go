package apiserver_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/authz/alwaysallow"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/storage/memory"
)

func TestPaths(t *testing.T) {
	r, err := registry.New(memory.New(memory.Options{}), core.Kinds(core.Options{}), registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	says := func(text string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) })
	}
	s := apiserver.New(r, apiserver.Options{Authorizer: alwaysallow.New(), Paths: map[string]http.Handler{
		"/healthz": says("ok"), "/healthz/": says("one check"), "/healthz/deep/": says("deep"), "/version": says("taken"),
	}})
	got := map[string]string{}
	for _, path := range []string{"/", "/healthz", "/healthz/ping", "/healthz/deep/x", "/healthy"} {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		got[path] = w.Body.String()
	}
	want := map[string]string{
		"/":               "{\n  \"paths\": [\n    \"/api\",\n    \"/api/v1\",\n    \"/apis\",\n    \"/apis/events.k8s.io\",\n    \"/apis/events.k8s.io/v1\",\n    \"/healthz\",\n    \"/version\"\n  ]\n}",
		"/healthz":        "ok",
		"/healthz/ping":   "one check",
		"/healthz/deep/x": "deep",
		"/healthy":        "404 page not found\n",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
