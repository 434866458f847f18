package discovery_test

import (
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	clientgo "k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/discovery"
	"github.com/keelson-dev/keelson/client/rest"
	"github.com/keelson-dev/keelson/internal/testserver"
)

// counted counts the requests that pass, by path, and may keep from the server what it could answer
// with.
type counted struct {
	http.RoundTripper
	legacy bool // the server knows no aggregated discovery

	mu   sync.Mutex
	seen []string
}

func (c *counted) RoundTrip(r *http.Request) (*http.Response, error) {
	c.mu.Lock()
	c.seen = append(c.seen, r.URL.Path)
	c.mu.Unlock()
	if c.legacy && strings.Contains(r.Header.Get("Accept"), "apidiscovery") {
		r = r.Clone(r.Context())
		r.Header.Set("Accept", "application/json")
	}
	return c.RoundTripper.RoundTrip(r)
}

// take returns what was asked since it was last called.
func (c *counted) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := c.seen
	c.seen = nil
	slices.Sort(seen)
	return seen
}

// serve runs a server; requests to it are counted.
func serve(t *testing.T) (*clientgo.Config, *counted) {
	t.Helper()
	config, _ := testserver.Start(t)
	c := &counted{RoundTripper: config.Transport}
	config.Transport = c
	return config, c
}

func open(t *testing.T, config *clientgo.Config, o discovery.Options) *discovery.Client {
	t.Helper()
	d, err := discovery.New(config, o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestMapping(t *testing.T) {
	for name, legacy := range map[string]bool{"aggregated": false, "legacy": true} {
		t.Run(name, func(t *testing.T) {
			config, requests := serve(t)
			requests.legacy = legacy
			d := open(t, config, discovery.Options{CacheDir: t.TempDir()})
			for name, want := range map[string]string{
				"pods": "pods", "pod": "pods", "po": "pods", "Pod": "pods", "pods.v1.": "pods", "svc": "services", "ns": "namespaces",
				"nodes": "nodes", "Node.v1.": "nodes",
			} {
				m, err := d.Mapping(t.Context(), name)
				if err != nil {
					t.Errorf("%s: %v", name, err)
					continue
				}
				if m.Resource != corev1.SchemeGroupVersion.WithResource(want) {
					t.Errorf("%s is %s", name, m.Resource)
				}
			}
			seen := requests.take()
			if !legacy && !slices.Equal(seen, []string{"/api", "/apis"}) || legacy && !slices.Contains(seen, "/api/v1") {
				t.Errorf("asked for %v", seen)
			}
		})
	}
}

func TestNotServed(t *testing.T) {
	config, _ := serve(t)
	d := open(t, config, discovery.Options{})
	for name, want := range map[string]string{
		"foos":              `the server doesn't have a resource type "foos"`,
		"foos.example.com":  `the server doesn't have a resource type "foos" in group "example.com"`,
		"Foo.v1.example.io": `the server doesn't have a resource type "Foo" in group "v1.example.io"`,
		"":                  "the name of a resource is empty",
	} {
		_, err := d.Mapping(t.Context(), name)
		if err == nil || err.Error() != want || meta.IsNoMatchError(errors.Unwrap(err)) != (name != "") {
			t.Errorf("%q: %v, want %q", name, err, want)
		}
	}
	_, err := d.MappingOf(t.Context(), schema.GroupKind{Group: "apps", Kind: "Deployment"}, "v1")
	if !meta.IsNoMatchError(err) || err.Error() != `no matches for kind "Deployment" in version "apps/v1"` {
		t.Errorf("%v", err)
	}
	gone, err := discovery.New(&clientgo.Config{Host: "http://gone", Transport: broken{}}, discovery.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = gone.Mapping(t.Context(), "pods")
	if refused := new(url.Error); !errors.As(err, &refused) {
		t.Errorf("no server: %v", err)
	}
}

type broken struct{}

func (broken) RoundTrip(*http.Request) (*http.Response, error) { return nil, errors.New("refused") }

func TestCacheOnDisk(t *testing.T) {
	config, requests := serve(t)
	config.Host = "http://in.process:6443/prefix"
	dir := t.TempDir()
	pods := func() {
		t.Helper()
		if _, err := open(t, config, discovery.Options{CacheDir: dir}).Mapping(t.Context(), "pods"); err != nil {
			t.Fatal(err)
		}
	}
	config.Transport = stripped{requests}
	pods()
	if seen := requests.take(); len(seen) == 0 {
		t.Error("nothing was asked")
	}
	var files []string
	err := fs.WalkDir(os.DirFS(filepath.Join(dir, "discovery")), ".", func(path string, d fs.DirEntry, err error) error {
		if !d.IsDir() {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"in.process_6443/prefix/servergroups.json", "in.process_6443/prefix/v1/serverresources.json"} {
		if !slices.Contains(files, want) {
			t.Errorf("no %s in %v", want, files)
		}
	}
	pods()
	if seen := requests.take(); len(seen) > 0 {
		t.Errorf("asked again: %v", seen)
	}
	old := time.Now().Add(-discovery.TTL - time.Minute)
	for _, file := range files {
		if err := os.Chtimes(filepath.Join(dir, "discovery", file), old, old); err != nil {
			t.Fatal(err)
		}
	}
	pods()
	if seen := requests.take(); len(seen) == 0 {
		t.Error("not asked again after six hours")
	}
}

// stripped removes the path that a proxy would remove.
type stripped struct{ next http.RoundTripper }

func (s stripped) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Path = strings.TrimPrefix(r.URL.Path, "/prefix")
	return s.next.RoundTrip(r)
}

// growing is a server that serves more when it is asked for something new.
type growing struct {
	mu     sync.Mutex
	groups []metav1.APIGroup
	lists  map[string]*metav1.APIResourceList
}

func (g *growing) add(group, version string, resources ...metav1.APIResource) {
	g.mu.Lock()
	defer g.mu.Unlock()
	gv := metav1.GroupVersionForDiscovery{GroupVersion: group + "/" + version, Version: version}
	at := slices.IndexFunc(g.groups, func(have metav1.APIGroup) bool { return have.Name == group })
	if at < 0 {
		at = len(g.groups)
		g.groups = append(g.groups, metav1.APIGroup{Name: group, PreferredVersion: gv})
	}
	g.groups[at].Versions = append(g.groups[at].Versions, gv)
	g.lists["/apis/"+gv.GroupVersion] = &metav1.APIResourceList{GroupVersion: gv.GroupVersion, APIResources: resources}
}

func (g *growing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var answer any
	switch list := g.lists[r.URL.Path]; {
	case r.URL.Path == "/api":
		answer = metav1.APIVersions{}
	case r.URL.Path == "/apis":
		answer = metav1.APIGroupList{Groups: g.groups}
	case list != nil:
		answer = list
	default:
		http.NotFound(w, r)
		return
	}
	respond(w, answer)
}

func TestCacheIsInvalidatedByWhatIsNotThere(t *testing.T) {
	g := &growing{lists: map[string]*metav1.APIResourceList{}}
	widgets := metav1.APIResource{Name: "widgets", SingularName: "widget", Kind: "Widget", ShortNames: []string{"wi"}, Namespaced: true, Verbs: []string{"get"}, Categories: []string{"all"}}
	g.add("a.example", "v2", widgets)
	g.add("a.example", "v1", widgets)
	server := httptest.NewServer(g)
	defer server.Close()
	config := &clientgo.Config{Host: server.URL}
	dir := t.TempDir()
	m, err := open(t, config, discovery.Options{CacheDir: dir}).Mapping(t.Context(), "wi")
	if want := (schema.GroupVersionResource{Group: "a.example", Version: "v2", Resource: "widgets"}); err != nil || m.Resource != want {
		t.Fatalf("the preferred version: %v, %v", m, err)
	}
	g.add("b.example", "v1", metav1.APIResource{Name: "gadgets", Kind: "Gadget", Verbs: []string{"get"}})
	second := open(t, config, discovery.Options{CacheDir: dir})
	m, err = second.Mapping(t.Context(), "gadgets")
	if err != nil || m.Resource.Group != "b.example" {
		t.Fatalf("a kind that is new: %v, %v", m, err)
	}
	if diff := cmp.Diff(client.Target{Resource: m.Resource, Name: "g"}, discovery.Target(m, "default", "g")); diff != "" {
		t.Errorf("a target without a namespace: %s", diff)
	}
	m, err = second.Mapping(t.Context(), "widgets.v1.a.example")
	if err != nil || m.Resource.Version != "v1" {
		t.Errorf("another version: %v, %v", m, err)
	}
	all, err := second.Category(t.Context(), "all")
	if diff := cmp.Diff([]schema.GroupResource{{Group: "a.example", Resource: "widgets"}}, all); diff != "" || err != nil {
		t.Error(diff, err)
	}
	names, err := second.Names(t.Context())
	if diff := cmp.Diff([]string{"gadgets.b.example", "widgets.a.example"}, names); diff != "" || err != nil {
		t.Error(diff, err)
	}
	// A client that has asked itself is told to ask again.
	g.add("c.example", "v1", metav1.APIResource{Name: "things", Kind: "Thing", Verbs: []string{"get"}})
	if _, err := second.Mapping(t.Context(), "things"); err == nil {
		t.Error("found without asking")
	}
	if err := second.Invalidate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := second.Mapping(t.Context(), "things"); err != nil {
		t.Error(err)
	}
}

// The OpenAPI documents are kept on disk as their headers allow.
func TestOpenAPIOnDisk(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path)
		if r.URL.Path == "/openapi/v3" {
			respond(w, map[string]any{"paths": map[string]any{"apis/apps/v1": map[string]string{
				"serverRelativeURL": "/openapi/v3/apis/apps/v1?hash=1",
			}}})
			return
		}
		w.Header().Set("Cache-Control", "public")
		w.Header().Set("Expires", time.Now().Add(24*time.Hour).UTC().Format(http.TimeFormat))
		w.Header().Set("Date", time.Now().UTC().Format(http.TimeFormat))
		respond(w, map[string]string{"openapi": "3.0.0"})
	}))
	defer server.Close()
	dir := t.TempDir()
	for range 2 {
		paths, err := open(t, &clientgo.Config{Host: server.URL}, discovery.Options{CacheDir: dir}).Server().OpenAPIV3().Paths()
		if err != nil {
			t.Fatal(err)
		}
		data, err := paths["apis/apps/v1"].Schema("application/json")
		if err != nil || !strings.Contains(string(data), "3.0.0") {
			t.Fatalf("%s, %v", data, err)
		}
	}
	if diff := cmp.Diff([]string{"/openapi/v3", "/openapi/v3/apis/apps/v1", "/openapi/v3"}, asked); diff != "" {
		t.Error(diff)
	}
}

func TestShortNameOfSeveral(t *testing.T) {
	g := &growing{lists: map[string]*metav1.APIResourceList{}}
	for _, group := range []string{"a.example", "b.example"} {
		g.add(group, "v1", metav1.APIResource{Name: "widgets", Kind: "Widget", ShortNames: []string{"wi"}, Verbs: []string{"get"}})
	}
	server := httptest.NewServer(g)
	defer server.Close()
	var warned []string
	d := open(t, &clientgo.Config{Host: server.URL}, discovery.Options{Warn: func(w string) { warned = append(warned, w) }})
	if _, err := d.Mapping(t.Context(), "wi"); err != nil || len(warned) == 0 || !strings.Contains(warned[0], "short name") {
		t.Errorf("%v, warned of %q", err, warned)
	}
}

func TestConcurrency(t *testing.T) {
	config, _ := serve(t)
	d := open(t, config, discovery.Options{CacheDir: t.TempDir()})
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			if _, err := d.Mapping(t.Context(), "po"); err != nil {
				t.Error(err)
			}
			if _, err := d.Category(t.Context(), "all"); err != nil {
				t.Error(err)
			}
			if err := d.Invalidate(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
}

// An object of a known type is created in a version that the server serves.
func TestTargetOf(t *testing.T) {
	config, _ := serve(t)
	d := open(t, config, discovery.Options{})
	c, err := rest.New(config, scheme.Scheme)
	if err != nil {
		t.Fatal(err)
	}
	namespace := &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	target, err := d.TargetOf(t.Context(), namespace, "default")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Create(t.Context(), target, namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.TargetOf(t.Context(), &corev1.Pod{}, ""); err == nil || err.Error() != "a *v1.Pod does not say its kind" {
		t.Errorf("no kind: %v", err)
	}
}

func TestServer(t *testing.T) {
	config, _ := serve(t)
	d := open(t, config, discovery.Options{CacheDir: t.TempDir()})
	if resource, err := d.Mapper().ResourceFor(schema.GroupVersionResource{Resource: "po"}); err != nil || resource.Resource != "pods" {
		t.Errorf("%v, %v", resource, err)
	}
	if groups, err := d.Server().ServerGroups(); err != nil || len(groups.Groups) == 0 {
		t.Errorf("%v, %v", groups, err)
	}
}
