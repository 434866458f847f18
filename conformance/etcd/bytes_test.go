package etcd_test

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/keelson-dev/keelson/internal/etcdtest"
	"github.com/keelson-dev/keelson/registry/codec"
)

// TestSameBytes lets each create the same objects in its own etcd: the same keys hold the same bytes, except for random
// values and times.
func TestSameBytes(t *testing.T) {
	kinds := kinds(t)
	all := objects(t, kinds)
	mine := map[string]map[string]record{}
	listen := freePort(t)
	for name, start := range map[string]func(*testing.T, settings) *server{"upstream": startUpstream, "keelson": startKeelson} {
		set := newSettings(t, etcdtest.Start(t, etcdtest.Options{}).Endpoint(0))
		set.keelson, set.listen = set.upstream, listen
		s := start(t, set)
		for _, o := range all {
			if o.n == 0 {
				s.create(t, o)
			}
		}
		mine[name] = dump(t, set.etcd)
		s.stop(t)
	}
	prefixes := map[string]bool{}
	for _, k := range kinds {
		prefixes["/registry/"+k.Prefix+"/"] = true
	}
	served := func(key string) bool {
		for prefix := range prefixes {
			if strings.HasPrefix(key, prefix) {
				return true
			}
		}
		return strings.HasPrefix(key, "/registry/masterleases/") || strings.HasPrefix(key, "/registry/ranges/")
	}
	keys := slices.Sorted(maps.Keys(mine["upstream"]))
	for key := range mine["keelson"] {
		if _, ok := mine["upstream"][key]; !ok {
			t.Errorf("%s: only keelson has it: %s", key, short(mine["keelson"][key].value))
		}
	}
	same := 0
	for _, key := range keys {
		if !served(key) || ownKey(key) && !strings.Contains(key, "192.0.2.") && !strings.HasSuffix(key, "/default/kubernetes") {
			continue
		}
		want, got := mine["upstream"][key], mine["keelson"][key]
		switch {
		case got.value == nil:
			t.Errorf("%s: only upstream has it: %s", key, short(want.value))
			continue
		case want.leased != got.leased:
			t.Errorf("%s ends by itself: upstream's %v, keelson's %v", key, want.leased, got.leased)
		}
		a, b := general(t, key, want.value), general(t, key, got.value)
		if diff := cmp.Diff(a, b); diff != "" {
			t.Errorf("%s (-upstream +keelson):\n%s", key, diff)
		} else {
			same++
		}
	}
	t.Logf("%d keys hold the same", same)
}

// general is the content of a value without random values and times. It checks that the value is written like its
// object: nothing in it would be lost.
func general(t *testing.T, key string, value []byte) map[string]any {
	t.Helper()
	obj, gvk, err := scheme.Codecs.UniversalDeserializer().Decode(value, nil, nil)
	if err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	again, err := codec.Stored(*gvk, obj)
	if err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	if !bytes.Equal(again, value) {
		t.Errorf("%s: holds %q, which is written as %q", key, value, again)
	}
	meta := obj.(metav1.Object)
	if fields := meta.GetManagedFields(); len(fields) > 0 && !slices.ContainsFunc(fields, func(f metav1.ManagedFieldsEntry) bool { return f.Manager == "conformance" }) {
		// Keelson writes the objects it creates at startup without managed fields.
		meta.SetManagedFields(nil)
	}
	if role, ok := obj.(*rbacv1.ClusterRole); ok && role.AggregationRule != nil {
		role.Rules = nil // aggregated by keelson at startup, by upstream's controller manager later
	}
	if strings.HasPrefix(key, "/registry/masterleases/") {
		meta.SetGeneration(1) // the number of renewals
	}
	text := encode(t, obj)
	if uid := string(meta.GetUID()); uid != "" { // a job has it in its labels, too
		text = bytes.ReplaceAll(text, []byte(uid), []byte("some"))
	}
	out := decode(t, text)
	out["is"] = gvk.String()
	timeless(out)
	return out
}

// timeless replaces random values and times.
func timeless(v any) {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			switch name {
			case "uid", "creationTimestamp", "lastTransitionTime", "lastPhaseTransitionTime", "time":
				v[name] = "some"
			default:
				timeless(value)
			}
		}
	case []any:
		for _, value := range v {
			timeless(value)
		}
	}
}
