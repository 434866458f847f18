package discovery_test

import (
	"bytes"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgo "k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/client/discovery"
)

// told answers questions about what is served.
type told struct {
	api, apis, resources []byte
	aggregated           bool
	asked                atomic.Int64
}

func (s *told) RoundTrip(r *http.Request) (*http.Response, error) {
	s.asked.Add(1)
	body, kind := s.resources, "application/json"
	switch r.URL.Path {
	case "/api":
		body = s.api
	case "/apis":
		body = s.apis
	}
	if s.aggregated && (r.URL.Path == "/api" || r.URL.Path == "/apis") {
		kind = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(bytes.NewReader(body)), Request: r,
	}, nil
}

// files lists what is below a directory.
func files(t *testing.T, dir string) []string {
	t.Helper()
	var all []string
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			all = append(all, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// FuzzServer: whatever a server says of itself, names are in order and once each and a mapping is whole, it is the same whether answers
// are kept in memory or on disk, the questions are no more than the names in the answers, and nothing is written beside the cache.
func FuzzServer(f *testing.F) {
	const pods = `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"v1","resources":[{"name":"pods","singularName":"pod","namespaced":true,"kind":"Pod","verbs":["get","list"],"shortNames":["po"],"categories":["all"]}]}`
	const old = `{"kind":"APIVersions","versions":["v1"]}`
	group := func(name, version string) string {
		return `{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"` + name + `","versions":[{"groupVersion":"` + name + "/" + version + `","version":"` + version + `"}],"preferredVersion":{"groupVersion":"` + name + "/" + version + `","version":"` + version + `"}}]}`
	}
	const aggregated = `{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[{"metadata":{"name":"apps"},"versions":[{"version":"v1","freshness":"Current","resources":[` +
		`{"resource":"deployments","responseKind":{"group":"apps","version":"v1","kind":"Deployment"},"scope":"Namespaced","singularResource":"deployment","verbs":["get"],"shortNames":["deploy"],"subresources":[{"subresource":"scale","responseKind":{"kind":"Scale"},"verbs":["get"]}]}]}]}]}`
	f.Add([]byte(old), []byte(group("apps", "v1")), []byte(pods), "pods", false)
	f.Add([]byte(old), []byte(group("../../../..", "x")), []byte(pods), "pods", false)
	f.Add([]byte(old), []byte(group("a", "../../../../../escaped")), []byte(pods), "po", false)
	f.Add([]byte(`{"items":[]}`), []byte(aggregated), []byte(`{}`), "deploy", true)
	f.Add([]byte(`{"versions":[""]}`), []byte(`{"groups":[{"versions":[{}]}]}`), []byte(`{"resources":[{}]}`), "Pod.v1.", false)
	f.Add([]byte(`null`), []byte(`[]`), []byte(`7`), "x.y.z", true)
	f.Add([]byte(old), []byte(group("apps", "v1")), []byte(`{"kind":"Status","apiVersion":"v1","status":"Failure"}`), "pods", false)
	f.Fuzz(func(t *testing.T, api, apis, resources []byte, name string, aggregated bool) {
		if len(api)+len(apis)+len(resources) > 1<<13 || name == "" {
			return
		}
		ctx := logr.NewContext(t.Context(), logr.Discard()) // says nothing
		root := t.TempDir()
		cache := filepath.Join(root, "1", "2", "3", "4", "5", "cache")
		type result struct {
			names    []string
			resource schema.GroupVersionResource
			kind     schema.GroupVersionKind
			failed   bool
		}
		var results []result
		for _, dir := range []string{"", cache, cache} {
			server := &told{api: api, apis: apis, resources: resources, aggregated: aggregated}
			d, err := discovery.New(&clientgo.Config{Host: "http://in.process", Transport: server, QPS: -1}, discovery.Options{CacheDir: dir})
			if err != nil {
				t.Fatal(err)
			}
			var got result
			got.names, err = d.Names(ctx)
			got.failed = err != nil
			if !slices.IsSorted(got.names) || len(slices.Compact(slices.Clone(got.names))) != len(got.names) {
				t.Errorf("names %q", got.names)
			}
			if m, err := d.Mapping(ctx, name); err == nil {
				got.resource, got.kind = m.Resource, m.GroupVersionKind
				if m.Scope == nil || m.Resource.Group != m.GroupVersionKind.Group || m.Resource.Version != m.GroupVersionKind.Version {
					t.Errorf("mapping %+v", m)
				}
			}
			if most := int64(8 * (4 + bytes.Count(api, []byte{'"'}) + bytes.Count(apis, []byte{'{'}))); server.asked.Load() > most {
				t.Errorf("asked %d times, %d is enough", server.asked.Load(), most)
			}
			results = append(results, got)
		}
		for _, r := range results[1:] {
			if !r.failed && !results[0].failed && (!slices.Equal(r.names, results[0].names) || r.resource != results[0].resource || r.kind != results[0].kind) {
				t.Errorf("on disk %+v, in memory %+v", r, results[0])
			}
		}
		for _, path := range files(t, root) {
			if below, _ := filepath.Rel(root, cache); !strings.HasPrefix(path, below+"/") {
				t.Errorf("written beside the cache: %s", path)
			}
		}
	})
}

// TestBesideTheCache: whatever way a server is asked, and whatever its own address is, the cache stays in its directory; groups of
// good names are found beside those of bad ones.
func TestBesideTheCache(t *testing.T) {
	const bad = "../../../../escaped"
	group := func(name string) string {
		version := `{"groupVersion":"` + name + `/v1","version":"v1"}`
		return `{"name":"` + name + `","versions":[` + version + `],"preferredVersion":` + version + `}`
	}
	ways := map[string]func(d *discovery.Client){
		"names":      func(d *discovery.Client) { _, _ = d.Names(t.Context()) },
		"one":        func(d *discovery.Client) { _, _ = d.Server().ServerResourcesForGroupVersion(bad + "/v1") },
		"all":        func(d *discovery.Client) { _, _, _ = d.Server().ServerGroupsAndResources() },
		"preferred":  func(d *discovery.Client) { _, _ = d.Server().ServerPreferredResources() },
		"namespaced": func(d *discovery.Client) { _, _ = d.Server().ServerPreferredNamespacedResources() },
		"mapping": func(d *discovery.Client) {
			if m, err := d.Mapping(t.Context(), "widgets"); err != nil || m.Resource.Group != "good" {
				t.Errorf("mapping: %v, %v", m, err)
			}
		},
	}
	for way, ask := range ways {
		for _, host := range []string{"http://in.process", "http://../../../../host", "../.."} {
			server := &told{
				api: []byte(`{"versions":[]}`), apis: []byte(`{"groups":[` + group(bad) + `,` + group("good") + `]}`),
				resources: []byte(`{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"good/v1","resources":[{"name":"widgets","namespaced":true,"kind":"Widget"}]}`),
			}
			root := t.TempDir()
			d, err := discovery.New(&clientgo.Config{Host: host, Transport: server, QPS: -1}, discovery.Options{CacheDir: filepath.Join(root, "1", "2", "cache")})
			if err != nil {
				continue // it is no address
			}
			if host == "http://in.process" {
				ask(d)
			} else {
				_, _ = d.Server().ServerGroups()
			}
			for _, path := range files(t, root) {
				if !strings.HasPrefix(path, "1/2/cache/discovery/") && !strings.HasPrefix(path, "1/2/cache/http/") {
					t.Errorf("%s of %s: written beside the cache: %s", way, host, path)
				}
			}
		}
	}
}
