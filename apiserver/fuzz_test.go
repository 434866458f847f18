package apiserver_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/keelson-dev/keelson/apiserver"
)

// FuzzRequest: any method and URL, with any body, gets an answer of the API.
func FuzzRequest(f *testing.F) {
	for _, seed := range []struct{ method, target, contentType, body string }{
		{"GET", "/api/v1/pods?labelSelector=a%20in%20(b,c)&fieldSelector=spec.nodeName%3Dx", "", ""},
		{"GET", "/api/v1/pods?limit=1&continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NSwic3RhcnQiOiJhIn0", "", ""},
		{"GET", "/api/v1/namespaces/default/configmaps/a", "", ""}, {"GET", "//api//v1", "", ""}, {"GET", "/apis/apps/v1/namespaces//x", "", ""},
		{"POST", "/api/v1/namespaces/default/configmaps", "application/json", `{"metadata":{"name":"a"}}`},
		{"POST", "/api/v1/namespaces/default/configmaps", "application/yaml", "metadata: {name: a}"},
		{"POST", "/api/v1/namespaces/default/configmaps", "application/vnd.kubernetes.protobuf", "k8s\x00\n\x00"},
		{"PATCH", "/api/v1/namespaces/default/configmaps/a", "application/merge-patch+json", `{"data":{"a":"b"}}`},
		{"PATCH", "/apis/apps/v1/namespaces/default/deployments/a/scale", "application/json-patch+json", `[]`},
		{"DELETE", "/api/v1/namespaces/default/configmaps?fieldSelector=a", "", `{"preconditions":{}}`},
		{"POST", "/api/v1/namespaces/default/pods/a/eviction", "", `{}`}, {"PUT", "/api/v1/namespaces/default/finalize", "", `{}`},
	} {
		f.Add(seed.method, seed.target, seed.contentType, seed.body)
	}
	config := serve(f)
	f.Fuzz(func(t *testing.T, method, target, contentType, body string) {
		u, err := url.ParseRequestURI(target)
		if err != nil || len(body) > 1<<14 {
			return
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.Method, r.URL = method, u
		if q := apiserver.ParseRequest(r); q.Verb == "watch" || u.Query().Has("resourceVersion") || u.Query().Has("continue") {
			return // would wait
		}
		code, _, answer := send(t, config.Transport, r, contentType, body)
		if code < 200 || code >= 600 || code == http.StatusInternalServerError && answer == panicked {
			t.Errorf("%s %s: %d %s", method, target, code, answer)
		}
	})
}

const panicked = "This request caused apiserver to panic. Look in the logs for details.\n"
