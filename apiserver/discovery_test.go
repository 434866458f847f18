package apiserver_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apidiscovery "k8s.io/api/apidiscovery/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientdiscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/authz/alwaysallow"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/apps"
	"github.com/keelson-dev/keelson/registry/authentication"
	"github.com/keelson-dev/keelson/registry/coordination"
	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/registry/policy"
	"github.com/keelson-dev/keelson/registry/rbac"
	"github.com/keelson-dev/keelson/storage/memory"
)

// ofUsers is a kind that upstream does not have.
func ofUsers(group, version, plural string, also ...string) registry.Kind {
	d := registry.Definition[*corev1.ConfigMap]{
		Names:        registry.Names{Kind: "Thing", Plural: plural, Singular: "thing"},
		GroupVersion: schema.GroupVersion{Group: group, Version: version}, Prefix: group + "/" + plural,
		New: func() *corev1.ConfigMap { return &corev1.ConfigMap{} }, NewList: func() runtime.Object { return &corev1.ConfigMapList{} },
	}
	for _, v := range also {
		d.Also = append(d.Also, registry.Version{
			Names: d.Names, GroupVersion: schema.GroupVersion{Group: group, Version: v},
			New: func() registry.Object { return &corev1.ConfigMap{} }, NewList: d.NewList,
		})
	}
	return d.Kind()
}

func discoverable(t *testing.T) *apiserver.Server {
	t.Helper()
	r, err := registry.New(memory.New(memory.Options{}), slices.Concat(
		[]registry.Kind{ofUsers("b.example.com", "v1alpha1", "things", "v1", "v2beta1"), ofUsers("a.example.com", "v1beta1", "things")},
		coordination.Kinds(), core.Kinds(core.Options{}), rbac.Kinds(nil), policy.Kinds(), apps.Kinds(),
		authentication.Kinds(nil, authentication.Options{}),
	), registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return apiserver.New(r, apiserver.Options{Authorizer: alwaysallow.New()})
}

func ask(h http.Handler, method, path string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func read[T any](t *testing.T, w *httptest.ResponseRecorder) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		t.Fatalf("status %d: %v", w.Code, err)
	}
	return v
}

// TestGroups: upstream's order, those of others last; the preferred version is the most stable.
func TestGroups(t *testing.T) {
	s := discoverable(t)
	var got []string
	for _, g := range read[metav1.APIGroupList](t, ask(s, http.MethodGet, "/apis")).Groups {
		versions := g.PreferredVersion.Version + ":"
		for _, v := range g.Versions {
			versions += " " + v.Version
		}
		got = append(got, g.Name+" "+versions)
	}
	want := []string{
		"apps v1: v1", "events.k8s.io v1: v1", "authentication.k8s.io v1: v1", "policy v1: v1", "rbac.authorization.k8s.io v1: v1",
		"coordination.k8s.io v1: v1", "b.example.com v1: v1 v2beta1 v1alpha1", "a.example.com v1beta1: v1beta1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestStorageVersionHash holds hashes to those that clusters of upstream show.
func TestStorageVersionHash(t *testing.T) {
	s := discoverable(t)
	for path, want := range map[string]map[string]string{
		"/api/v1": {
			"pods": "xPOwRZ+Yhw8=", "nodes": "XwShjMxG9Fs=", "configmaps": "qFsyl6wFWjQ=", "secrets": "S6u1pOWzb84=",
			"events": "r2yiGXH7wu8=", "pods/status": "", "pods/eviction": "", "bindings": "",
		},
		"/apis/apps/v1":                  {"deployments": "8aSe+NMegvE=", "replicasets": "P1RzHs8/mWQ=", "deployments/scale": ""},
		"/apis/events.k8s.io/v1":         {"events": "r2yiGXH7wu8="},
		"/apis/authentication.k8s.io/v1": {"tokenreviews": ""},
	} {
		got := map[string]string{}
		for _, r := range read[metav1.APIResourceList](t, ask(s, http.MethodGet, path)).APIResources {
			if _, ok := want[r.Name]; ok {
				got[r.Name] = r.StorageVersionHash
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
	}
}

const (
	parameters   = ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	wantsV2      = "application/json" + parameters
	wantsV2beta1 = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
)

// TestAggregatedNegotiation: codes and types by method, path and Accept.
func TestAggregatedNegotiation(t *testing.T) {
	s := discoverable(t)
	for _, c := range []struct {
		method, path, accept string
		code                 int
		media                string
	}{
		{"GET", "/apis", wantsV2, 200, wantsV2},
		{"GET", "/apis/", wantsV2, 200, wantsV2},
		{"GET", "/api", wantsV2, 200, wantsV2},
		{"GET", "/apis", wantsV2 + "," + wantsV2beta1 + ",application/json", 200, wantsV2}, // kubectl
		{"GET", "/apis", "application/json," + wantsV2, 200, wantsV2},
		{"GET", "/apis", "application/json;q=1," + wantsV2 + ";q=0.1", 200, wantsV2},
		{"GET", "/apis", wantsV2 + ";profile=nopeer", 200, wantsV2},
		{"GET", "/apis", "*/*" + parameters, 200, wantsV2},
		{"GET", "/apis", "application/*" + parameters, 200, wantsV2},
		{"GET", "/apis", "application/yaml" + parameters, 200, "application/yaml" + parameters},
		{"GET", "/apis", "application/vnd.kubernetes.protobuf" + parameters, 200, "application/vnd.kubernetes.protobuf" + parameters},
		{"GET", "/apis", wantsV2beta1 + ",application/json", 200, "application/json"},
		{"GET", "/apis", wantsV2beta1, 406, "application/json"},
		{"GET", "/apis", "application/json;as=Table;g=meta.k8s.io;v=v1", 406, "application/json"},
		{"GET", "/apis", "text/plain", 406, "application/json"},
		{"GET", "/apis", "text/plain" + parameters, 406, "application/json"},
		{"GET", "/apis", wantsV2 + ";sv=v1", 406, "application/json"},
		{"GET", "/apis", "", 200, "application/json"},
		{"GET", "/apis/apps", wantsV2, 406, "application/json"},
		{"GET", "/apis/apps/v1", wantsV2 + ",application/json", 200, "application/json"},
		{"HEAD", "/apis", wantsV2, 200, wantsV2},
		{"POST", "/apis", "", 200, "application/json"},
		{"HEAD", "/api", wantsV2, 405, "application/json"},
		{"POST", "/api", "", 405, "application/json"},
		{"HEAD", "/apis/apps", "", 200, "application/json"},
		{"HEAD", "/apis/apps/v1", "", 405, "application/json"},
		{"GET", "/apis/none.example.com", wantsV2, 404, "text/plain; charset=utf-8"},
	} {
		w := ask(s, c.method, c.path, "Accept", c.accept)
		if w.Code != c.code || w.Header().Get("Content-Type") != c.media {
			t.Errorf("%s %s, Accept %q: %d %s, want %d %s", c.method, c.path, c.accept, w.Code, w.Header().Get("Content-Type"), c.code, c.media)
		}
	}
}

// TestAggregated: what the document says, in each media type, and that it need not be sent twice.
func TestAggregated(t *testing.T) {
	s := discoverable(t)
	w := ask(s, http.MethodGet, "/apis", "Accept", wantsV2)
	list := read[apidiscovery.APIGroupDiscoveryList](t, w)
	if want := (metav1.TypeMeta{Kind: "APIGroupDiscoveryList", APIVersion: "apidiscovery.k8s.io/v2"}); list.TypeMeta != want {
		t.Errorf("type %v", list.TypeMeta)
	}
	apps := list.Items[0].Versions[0].Resources
	deployments := apps[slices.IndexFunc(apps, func(r apidiscovery.APIResourceDiscovery) bool { return r.Resource == "deployments" })]
	all := metav1.Verbs{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
	some := []string{"get", "patch", "update"}
	want := apidiscovery.APIResourceDiscovery{
		Resource: "deployments", ResponseKind: &metav1.GroupVersionKind{Kind: "Deployment"}, Scope: "Namespaced",
		SingularResource: "deployment", Verbs: all, ShortNames: []string{"deploy"}, Categories: []string{"all"},
		Subresources: []apidiscovery.APISubresourceDiscovery{
			{Subresource: "scale", ResponseKind: &metav1.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}, Verbs: some},
			{Subresource: "status", ResponseKind: &metav1.GroupVersionKind{Kind: "Deployment"}, Verbs: some},
		},
	}
	if diff := cmp.Diff(want, deployments); diff != "" {
		t.Error(diff)
	}
	names := []string{}
	for _, g := range list.Items {
		names = append(names, g.Name)
	}
	if got := strings.Join(names[len(names)-2:], " "); got != "a.example.com b.example.com" {
		t.Errorf("last groups: %s", got)
	}
	etag := w.Header().Get("ETag")
	if len(etag) != 130 || w.Header().Get("Vary") != "Accept" || w.Header().Get("Cache-Control") != "public" {
		t.Errorf("headers %v", w.Header())
	}
	again := ask(s, http.MethodGet, "/apis", "Accept", wantsV2, "If-None-Match", etag)
	if again.Code != http.StatusNotModified || again.Body.Len() > 0 {
		t.Errorf("known: %d, %d bytes", again.Code, again.Body.Len())
	}
	if again := ask(s, http.MethodGet, "/api", "Accept", wantsV2, "If-None-Match", etag); again.Code != http.StatusOK {
		t.Errorf("of another document: %d", again.Code)
	}
	if body, err := yaml.YAMLToJSON(ask(s, http.MethodGet, "/apis", "Accept", "application/yaml"+parameters).Body.Bytes()); err != nil {
		t.Error(err)
	} else if diff := cmp.Diff(decoded(t, w.Body.Bytes()), decoded(t, body)); diff != "" {
		t.Errorf("YAML: %s", diff)
	}
}

func decoded(t *testing.T, data []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// TestDiscoveryClient: client-go finds the same by the aggregated documents as by the others.
func TestDiscoveryClient(t *testing.T) {
	s := discoverable(t)
	transport := apiserver.NewTransport(s, nil)
	t.Cleanup(transport.Close)
	client, err := clientdiscovery.NewDiscoveryClientForConfig(&rest.Config{Host: "http://server", Transport: transport})
	if err != nil {
		t.Fatal(err)
	}
	_, aggregated, err := client.ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	client.UseLegacyDiscovery = true
	_, legacy, err := client.ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	byGroupVersion := func(lists []*metav1.APIResourceList) map[string][]metav1.APIResource {
		m := map[string][]metav1.APIResource{}
		for _, l := range lists {
			for _, r := range l.APIResources {
				// Of aggregated documents the client fills in types and subresources' names; hashes are not in them.
				r.Group, r.Version, r.StorageVersionHash = "", "", ""
				if strings.Contains(r.Name, "/") {
					r.SingularName = ""
				}
				m[l.GroupVersion] = append(m[l.GroupVersion], r)
			}
			slices.SortFunc(m[l.GroupVersion], func(a, b metav1.APIResource) int { return strings.Compare(a.Name, b.Name) })
		}
		return m
	}
	if diff := cmp.Diff(byGroupVersion(legacy), byGroupVersion(aggregated)); diff != "" || len(legacy) < 10 {
		t.Errorf("%d group-versions; -legacy +aggregated:\n%s", len(legacy), diff)
	}
}
