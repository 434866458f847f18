package etcd_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/keelson-dev/keelson/internal/etcdtest"
	"github.com/keelson-dev/keelson/registry/codec"
)

// variants is how many random subsets of each full object are stored.
const variants = 12

// TestStored lets both serve objects written directly to etcd: objects with every field of their kind, and with random
// subsets of them; in protobuf and in JSON; in the versions that older servers stored.
func TestStored(t *testing.T) {
	set := newSettings(t, etcdtest.Start(t, etcdtest.Options{}).Endpoint(0))
	kinds := kinds(t)
	stored := map[string][]byte{}
	kinds = slices.DeleteFunc(kinds, func(k kind) bool {
		return k.Plural == "prioritylevelconfigurations" // one whose fields contradict each other ends kube-apiserver: it acts on them
	})
	for _, k := range kinds {
		for name, obj := range full(t, k) {
			maps.Copy(stored, forms(t, k, name, obj))
		}
	}
	put(t, set.etcd, stored)
	t.Logf("%d stored values", len(stored))

	upstream := startUpstream(t, set)
	want := upstream.look(t, kinds)
	upstream.stop(t)
	keelson := startKeelson(t, set)
	got := keelson.look(t, kinds)
	t.Logf("%d answers are the same", compare(t, "stored past both", want, got))
	after := dump(t, set.etcd)
	for key, value := range stored {
		if !bytes.Equal(after[key].value, value) {
			t.Errorf("%s was changed: %q, then %q", key, value, after[key].value)
		}
	}
}

// full returns objects of a kind with all fields set, as published for tests of encodings, by version: the one that
// upstream stores, and those that it once stored.
func full(t *testing.T, k kind) map[schema.GroupVersion][]byte {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/api")
	dir, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "testdata", "HEAD", "*."+k.gvk.Kind+".json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no data: %v", err)
	}
	out := map[schema.GroupVersion][]byte{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		gv, err := schema.ParseGroupVersion(text(decode(t, data), "apiVersion"))
		if err != nil {
			t.Fatal(err)
		}
		if gv.Group != k.gvk.Group && gv != ingresses || tooOld(gv, k) {
			continue
		}
		out[gv] = data
	}
	return out
}

// ingresses is the first group of ingresses.
var ingresses = schema.GroupVersion{Group: "extensions", Version: "v1beta1"}

// tooOld reports whether no server since Kubernetes 1.9 has stored a version; keelson does not know these.
func tooOld(gv schema.GroupVersion, k kind) bool {
	return gv == ingresses && k.Plural != "ingresses" || gv.Group == "apps" && gv.Version != "v1" ||
		gv.Group == "rbac.authorization.k8s.io" && gv.Version == "v1alpha1"
}

// forms are the encodings in which an object may have been stored, by key.
func forms(t *testing.T, k kind, gv schema.GroupVersion, full []byte) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	random := rand.New(rand.NewPCG(1, uint64(len(full))))
	for i := range variants {
		body := decode(t, full)
		if i > 1 {
			prune(random, body, "kind", "apiVersion", "metadata", "name", "namespace", "scope") // scope once had no default
		}
		if strategy, ok := field(body, "spec", "strategy").(map[string]any); ok {
			strategy["type"] = "RollingUpdate" // other types have no numbers, which upstream's encoding cannot express
		}
		if source, ok := field(body, "spec", "source").(map[string]any); ok && k.Plural == "volumeattachments" && gv.Version == "v1alpha1" {
			delete(source, "inlineVolumeSpec") // which came when no server stored that version any more
		}
		namespace := ""
		if k.Namespaced {
			namespace = "stored"
			body["metadata"].(map[string]any)["namespace"] = namespace
		}
		name := fmt.Sprintf("%s-%d", strings.ReplaceAll(strings.ToLower(gv.String()), "/", "."), i)
		body["metadata"].(map[string]any)["name"] = name
		key := "/registry/" + k.Prefix + "/" + strings.TrimPrefix(namespace+"/"+name, "/")
		data := encode(t, body)
		obj, gvk, err := scheme.Codecs.UniversalDeserializer().Decode(data, nil, nil)
		if err != nil {
			t.Fatalf("%s: %v", key, err)
		}
		if i == 1 {
			out[key] = data
			continue
		}
		out[key] = protobuf(t, *gvk, obj)
	}
	return out
}

func protobuf(t *testing.T, gvk schema.GroupVersionKind, obj runtime.Object) []byte {
	t.Helper()
	obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	obj.(metav1.Object).SetResourceVersion("")
	data, err := codec.Protobuf(gvk, obj)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// prune removes random fields except those to keep.
func prune(random *rand.Rand, v any, keep ...string) {
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if !slices.Contains(keep, name) && random.IntN(4) == 0 {
				delete(v, name)
				continue
			}
			prune(random, v[name], keep...)
		}
	case []any:
		for _, value := range v {
			prune(random, value, keep...)
		}
	}
}
