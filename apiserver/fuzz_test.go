package apiserver_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/apiserver"
)

// FuzzApplyPatch: no patch makes the server panic or answer with something that is not JSON.
func FuzzApplyPatch(f *testing.F) {
	for _, seed := range []string{
		`{"spec":{"containers":[{"name":"c","image":"x"}]}}`, `{"metadata":{"labels":{"$patch":"replace","a":"b"}}}`,
		`{"metadata":{"$deleteFromPrimitiveList/finalizers":["a"]}}`, `{"spec":{"$setElementOrder/containers":[{"name":"c"}]}}`,
		`{"spec":{"$retainKeys":["a"]}}`, `[{"op":"add","path":"/metadata/labels/a","value":1}]`,
		`[{"op":"move","from":"/spec","path":"/spec/a"}]`, `[{"op":"copy","from":"","path":"/-"}]`, `[{"op":"replace","path":""}]`,
		`{"spec":null}`, `null`, `[]`, `7`, ``, `{"spec":{"template":{"spec":{"containers":[null]}}}}`, `[null]`, `[{}]`,
		`[{"op":"add","path":"/spec/containers/-1","value":{}}]`, `[{"op":"remove","path":"/spec/containers/99999999999999999999"}]`,
	} {
		for form := range 3 {
			f.Add(form, []byte(seed))
		}
	}
	pod, err := json.Marshal(&corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		Spec:     corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i", Ports: []corev1.ContainerPort{{ContainerPort: 1}}}}},
	})
	if err != nil {
		f.Fatal(err)
	}
	deployment, err := json.Marshal(&appsv1.Deployment{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}})
	if err != nil {
		f.Fatal(err)
	}
	forms := []types.PatchType{types.JSONPatchType, types.MergePatchType, types.StrategicMergePatchType}
	f.Fuzz(func(t *testing.T, form int, patch []byte) {
		if len(patch) > 1<<14 {
			return
		}
		patchType := forms[((form%3)+3)%3]
		for schema, document := range map[runtime.Object][]byte{&corev1.Pod{}: pod, &appsv1.Deployment{}: deployment} {
			after, err := apiserver.ApplyPatch(t.Context(), document, patchType, patch, schema)
			if err == nil && !json.Valid(after) {
				t.Errorf("%s %q made %q", patchType, patch, after)
			}
		}
	})
}

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
