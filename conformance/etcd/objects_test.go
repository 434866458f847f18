package etcd_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/registry"
)

// kind is a kind that keelson stores, in one of the versions in which it is served.
type kind struct {
	registry.Kind
	gvk    schema.GroupVersionKind
	status bool
}

// collection returns the path of the kind's collection, in a namespace or in all.
func (k kind) collection(namespace string) string {
	path := "/apis/" + k.gvk.GroupVersion().String()
	if k.gvk.Group == "" {
		path = "/api/" + k.gvk.Version
	}
	if k.Namespaced && namespace != "" {
		path += "/namespaces/" + namespace
	}
	return path + "/" + k.Plural
}

func (k kind) path(obj map[string]any) string {
	return k.collection(text(obj, "metadata", "namespace")) + "/" + text(obj, "metadata", "name")
}

// kinds returns all that keelson stores, each in all versions.
func kinds(t *testing.T) []kind {
	t.Helper()
	c, err := cluster.New(cluster.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	var out []kind
	for _, res := range c.Registry().Resources() {
		if !res.Stored() {
			continue
		}
		_, status := res.Sub.Views["status"]
		out = append(out, kind{res.Kind, res.GroupVersion.WithKind(res.Names.Kind), status})
		for _, v := range res.Also {
			out = append(out, kind{res.Kind, v.GroupVersion.WithKind(v.Names.Kind), status})
		}
	}
	return out
}

// object is an object to create.
type object struct {
	kind
	body map[string]any
	n    int // of the copy
}

func (o object) path() string { return o.kind.path(o.body) }

// copies is how often each object of the file is created at the start.
const copies = 3

// objects reads those of the file; it has some of each kind. Copies have their own names and addresses.
func objects(t *testing.T, kinds []kind) []object {
	t.Helper()
	data, err := os.ReadFile("testdata/objects.yaml")
	if err != nil {
		t.Fatal(err)
	}
	missing := map[schema.GroupVersionKind]bool{}
	byKind := map[schema.GroupVersionKind]kind{}
	for _, k := range kinds {
		byKind[k.gvk], missing[k.gvk] = k, true
	}
	var out []object
	for doc := range bytes.SplitSeq(data, []byte("\n---\n")) {
		var body map[string]any
		if err := yaml.Unmarshal(doc, &body); err != nil {
			t.Fatal(err)
		}
		gvk := schema.FromAPIVersionAndKind(text(body, "apiVersion"), text(body, "kind"))
		k, ok := byKind[gvk]
		if !ok {
			t.Fatalf("no kind %s", gvk)
		}
		delete(missing, gvk)
		for i := range copies {
			if body := copyOf(t, k, body, i); body != nil {
				out = append(out, object{k, body, i})
			}
		}
	}
	if len(missing) > 0 {
		t.Errorf("testdata/objects.yaml has no object of %v", slices.Collect(maps.Keys(missing)))
	}
	return out
}

// copyOf returns an object or, with i > 0, a copy that does not conflict with it.
func copyOf(t *testing.T, k kind, body map[string]any, i int) map[string]any {
	t.Helper()
	if i == 0 {
		return body
	}
	out := decode(t, encode(t, body))
	name := text(out, "metadata", "name")
	switch {
	case name == "ns" || name == "default":
		return nil // others live there
	case k.Plural == "ipaddresses":
		name += fmt.Sprint(i)
	default:
		name += fmt.Sprintf("-%d", i)
	}
	out["metadata"].(map[string]any)["name"] = name
	if spec, ok := out["spec"].(map[string]any); ok && k.Plural == "services" {
		if spec["clusterIP"] != "None" {
			delete(spec, "clusterIP")
		}
		delete(spec, "healthCheckNodePort")
		if ports, ok := spec["ports"].([]any); ok {
			for _, p := range ports {
				delete(p.(map[string]any), "nodePort")
			}
		}
	}
	return out
}

// create creates an object through a server, with its status.
func (s *server) create(t *testing.T, o object) {
	t.Helper()
	code, data := s.do(t, http.MethodPost, o.collection(text(o.body, "metadata", "namespace")), asJSON, encode(t, o.body))
	if code != http.StatusCreated {
		t.Errorf("%s: %s: %d %s", s.name, o.path(), code, data)
		return
	}
	if o.body["status"] == nil || !o.status {
		return
	}
	have := decode(t, s.get(t, o.path()))
	have["status"] = o.body["status"]
	if code, data = s.do(t, http.MethodPut, o.path()+"/status", asJSON, encode(t, have)); code != http.StatusOK {
		t.Errorf("%s: status of %s: %d %s", s.name, o.path(), code, data)
	}
}

// list is a server's answer to a list, in parts.
type list struct {
	Kind       string
	APIVersion string
	Metadata   map[string]any
	Items      []json.RawMessage
}

// state is what a server serves, by path.
type state map[string][]byte

// look reads all objects through a server, one by one and in lists.
func (s *server) look(t *testing.T, kinds []kind) state {
	t.Helper()
	out := state{}
	for _, k := range kinds {
		all := s.readList(t, k.collection(""))
		for _, item := range all.Items {
			obj := decode(t, item)
			path := k.path(obj)
			out["item of "+path] = item
			out[path] = s.get(t, path)
		}
		all.Metadata["resourceVersion"] = ""
		out["kind of "+k.collection("")] = fmt.Append(nil, all.Kind, " ", all.APIVersion, " ", all.Metadata)
		if !k.Namespaced {
			continue
		}
		// The list as it is on the wire, without its own version.
		body := s.get(t, k.collection("ns"))
		version := text(decode(t, body), "metadata", "resourceVersion")
		out["list "+k.collection("ns")] = bytes.Replace(body, []byte(`"resourceVersion":"`+version+`"`), nil, 1)
	}
	return out
}

func (s *server) readList(t *testing.T, path string) list {
	t.Helper()
	var l list
	if err := json.Unmarshal(s.get(t, path), &l); err != nil {
		t.Fatal(err)
	}
	return l
}

// own reports whether a server keeps this about itself; it changes when servers come and go.
func own(path string) bool {
	for _, part := range []string{
		"/namespaces/default/endpoints/kubernetes", "/namespaces/default/endpointslices/kubernetes",
		"/namespaces/kube-system/leases/apiserver-", "kube-apiserver-legacy-service-account-token-tracking",
		"/configmaps/extension-apiserver-authentication",
	} {
		if strings.Contains(path, part) {
			return true
		}
	}
	return false
}

// compare reports the differences of two states, except for what servers keep about themselves. It returns how many
// answers were the same.
func compare(t *testing.T, what string, want, got state) int {
	t.Helper()
	paths := slices.Sorted(maps.Keys(want))
	for path := range got {
		if _, ok := want[path]; !ok {
			paths = append(paths, path)
		}
	}
	same := 0
	for _, path := range paths {
		switch {
		case own(path):
		case bytes.Equal(undated(path, want[path]), undated(path, got[path])):
			same++
		default:
			t.Errorf("%s: %s:\nwas %s\nis  %s", what, path, differing(want[path], got[path]), differing(got[path], want[path]))
		}
	}
	return same
}

// added is the time of a taint, which is that of the reading if none is stored.
var added = regexp.MustCompile(`"timeAdded":"[^"]*"`)

func undated(path string, answer []byte) []byte {
	if !strings.Contains(path, "/devicetaintrules") && !strings.Contains(path, "/resourceslices") {
		return answer
	}
	return added.ReplaceAll(answer, []byte(`"timeAdded":"some"`))
}

// differing returns a from its first difference to b.
func differing(a, b []byte) string {
	if a == nil {
		return "not there"
	}
	i := 0
	for i < min(len(a), len(b)) && a[i] == b[i] {
		i++
	}
	from, to := max(0, i-60), min(len(a), i+200)
	return fmt.Sprintf("…%s… (at %d of %d bytes)", a[from:to], i, len(a))
}
