package managedfields_test

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	upstream "k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/keelson-dev/keelson/apiserver/managedfields"
)

var (
	rounds = flag.Int("rounds", 1, "random histories per kind")
	seed   = flag.Uint64("seed", 1, "where the random histories begin")
)

// TestVersions does the same for a kind that is served, and written, in two versions.
func TestVersions(t *testing.T) {
	converter := applyconfigurations.NewTypeConverter(scheme.Scheme)
	for round := range 10 * *rounds {
		synctest.Test(t, func(t *testing.T) {
			stored := schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
			also := schema.GroupVersionKind{Group: "apps", Version: "v1beta2", Kind: "Deployment"}
			h := newHistory(t, converter, stored, *seed+uint64(round), also)
			for range 15 {
				time.Sleep(time.Duration(h.IntN(3)) * time.Second)
				h.step(t)
			}
		})
	}
}

// TestUpstream plays random histories of every kind that client-go has a merge schema of, by the
// tracker and by upstream's FieldManager: after each write, both must tell the same.
func TestUpstream(t *testing.T) {
	converter := applyconfigurations.NewTypeConverter(scheme.Scheme)
	for _, gvk := range appliedKinds(converter) {
		t.Run(gvk.GroupVersion().String()+" "+gvk.Kind, func(t *testing.T) {
			for round := range *rounds {
				synctest.Test(t, func(t *testing.T) {
					h := newHistory(t, converter, gvk, *seed+uint64(round))
					for range 12 {
						time.Sleep(time.Duration(h.IntN(3)) * time.Second)
						h.step(t)
					}
				})
			}
		})
	}
}

func appliedKinds(converter upstream.TypeConverter) []schema.GroupVersionKind {
	var kinds []schema.GroupVersionKind
	for gvk, typ := range scheme.Scheme.AllKnownTypes() {
		obj, ok := reflect.New(typ).Interface().(managedfields.Object)
		if !ok {
			continue
		}
		obj.GetObjectKind().SetGroupVersionKind(gvk)
		if _, err := converter.ObjectToTyped(obj); err == nil {
			kinds = append(kinds, gvk)
		}
	}
	slices.SortFunc(kinds, func(a, b schema.GroupVersionKind) int { return cmp.Compare(a.String(), b.String()) })
	return kinds
}

// history is what happens to one object, told by both.
type history struct {
	chance
	gvk       schema.GroupVersionKind
	live      managedfields.Object // nil before it is created
	endpoints []endpoint
}

type endpoint struct {
	name    string
	gvk     schema.GroupVersionKind
	theirs  *upstream.FieldManager
	tracker *managedfields.Tracker
}

func newHistory(t *testing.T, converter upstream.TypeConverter, stored schema.GroupVersionKind, seed uint64, also ...schema.GroupVersionKind) *history {
	t.Helper()
	h := &history{chance: chance{rand.New(rand.NewPCG(seed, 0))}, gvk: stored}
	kind := managedfields.Kind{Versions: []managedfields.Version{{GroupVersionKind: stored, New: h.empty}}}
	for _, gvk := range also {
		kind.Versions = append(kind.Versions, managedfields.Version{
			GroupVersionKind: gvk, New: func() managedfields.Object { return newObject(gvk) },
			FromStored: func(obj managedfields.Object) (managedfields.Object, error) { return converted(obj, gvk), nil },
			ToStored:   func(obj managedfields.Object) (managedfields.Object, error) { return converted(obj, stored), nil },
		})
	}
	for _, at := range []managedfields.Endpoint{
		{Resets: []string{"status"}},
		{Subresource: "status", Resets: []string{"spec", "metadata.labels"}},
		{Subresource: "resize"},
	} {
		for _, v := range kind.Versions {
			at.Version = v.GroupVersion()
			theirs, err := upstream.NewDefaultFieldManager(converter, conversion{}, noDefaults{}, named{}, v.GroupVersionKind, stored.GroupVersion(), at.Subresource, filters(at, kind))
			if err != nil {
				t.Fatal(err)
			}
			h.endpoints = append(h.endpoints, endpoint{at.Subresource, v.GroupVersionKind, theirs, managedfields.New(&managedfields.Schema{}, kind, at)})
		}
	}
	return h
}

// converted returns a copy of an object in a version of the same fields.
func converted(obj managedfields.Object, gvk schema.GroupVersionKind) managedfields.Object {
	out := newObject(gvk)
	if err := json.Unmarshal([]byte(mustJSON(obj)), out); err != nil {
		panic(err)
	}
	if was := obj.GetObjectKind().GroupVersionKind(); was.Kind == "" {
		gvk = was
	}
	out.GetObjectKind().SetGroupVersionKind(gvk)
	return out
}

func newObject(gvk schema.GroupVersionKind) managedfields.Object {
	obj, err := scheme.Scheme.New(gvk)
	if err != nil {
		panic(err)
	}
	return obj.(managedfields.Object)
}

// filters are what the endpoint resets, for upstream.
func filters(at managedfields.Endpoint, kind managedfields.Kind) map[fieldpath.APIVersion]fieldpath.Filter {
	set := fieldpath.NewSet(fieldpath.MakePathOrDie("status"))
	switch at.Subresource {
	case "status":
		set = fieldpath.NewSet(fieldpath.MakePathOrDie("spec"), fieldpath.MakePathOrDie("metadata", "labels"))
	case "resize":
		return nil
	}
	by := map[fieldpath.APIVersion]*fieldpath.Set{}
	for _, v := range kind.Versions {
		by[fieldpath.APIVersion(v.GroupVersion().String())] = set
	}
	return fieldpath.NewExcludeFilterSetMap(by)
}

func (h *history) empty() managedfields.Object { return newObject(h.gvk) }

// named returns a copy that says its type, as upstream's objects do.
func (h *history) named(obj managedfields.Object) managedfields.Object {
	obj = obj.DeepCopyObject().(managedfields.Object)
	obj.GetObjectKind().SetGroupVersionKind(h.gvk)
	return obj
}

var managers = []string{"kubectl", "kubelet", "x", "controller <a&b>", "y", ""}

func (h *history) step(t *testing.T) {
	t.Helper()
	versions := len(h.endpoints) / 3
	e := h.endpoints[h.IntN(versions)]
	live := h.live
	switch {
	case live == nil:
		live = h.empty()
	case h.one(3):
		e = h.endpoints[versions+h.IntN(2*versions)]
	}
	obj := live.DeepCopyObject().(managedfields.Object)
	if v := reflect.ValueOf(obj).Elem(); h.live == nil {
		h.fill(v, 0)
	} else {
		for range h.IntN(4) {
			h.mutate(v, 0)
		}
	}
	obj = h.decoded(obj)
	obj.SetManagedFields(h.sent(live.GetManagedFields()))
	manager := managers[h.IntN(len(managers))]
	if h.one(4) {
		manager += fmt.Sprint(h.IntN(12)) // many, so that old ones are merged
	}
	what := fmt.Sprintf("%s %s %q", e.gvk, e.name, manager)
	before := mustJSON(live)
	var next managedfields.Object
	if h.one(3) {
		next = h.apply(t, e, what, live, obj, manager)
	} else {
		next = h.update(t, e, what, live, obj, manager)
	}
	if after := mustJSON(live); after != before {
		t.Fatalf("%s: changed the live object", what)
	}
	if next == nil {
		return
	}
	next.SetUID("uid")
	h.live = h.decoded(next)
}

// decoded returns an object as it is when it was decoded: upstream compares lists by what they
// are in memory, which includes an empty list where none is.
func (h *history) decoded(obj managedfields.Object) managedfields.Object {
	read := h.empty()
	if err := json.Unmarshal([]byte(mustJSON(obj)), read); err != nil {
		panic(err)
	}
	return read
}

// sent are the managed fields that a client sends along: mostly those that it read.
func (h *history) sent(live []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	switch h.IntN(12) {
	case 0:
		return nil
	case 1:
		if h.one(3) {
			return []metav1.ManagedFieldsEntry{{}}
		}
	case 2:
		fields := []string{
			``, `{}`, `null`, `{"f:spec":{}}`, `{"f:spec":{"f:b":{},"f:a":{}}}`, `{"f:metadata":{"f:labels":{".":{},"f:a":{}}},"f:zz":{"k:{\"a\":1}":{}}}`, `{"bad"`,
			`{"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{".":{},"f:image":{}, "f:resources":{"f:limits":{}}}}}}`, `{"f:status":{},"f:unknown":{"v:1":{},"i:0":{}}}`,
			`{"f:spec":{"f:selector":{"f:matchLabels":{"f:app":{}}},"f:template":{"f:spec":{"f:nodeSelector":{"f:a":{}},"f:tolerations":{"k:{\"key\":\"a\"}":{}}}},"f:tolerations":{"i:0":{}},"f:nodeSelector":{".":{},"f:b":{}},"f:data":{"f:x":{}}},"f:data":{"f:y":{"f:z":{}}}}`,
			`{".":{}}`, `{"f:metadata":{"f:name":{},"f:ownerReferences":{"k:{\"uid\":\"é\"}":{"f:x":{}},"k:{\"uid\":\"a\"}":{".":{},"f:uid":{}}}}}`, `{"x:y":{}}`,
		}
		raw := fields[h.IntN(len(fields))]
		e := metav1.ManagedFieldsEntry{Manager: "odd", Operation: "Update", APIVersion: h.gvk.GroupVersion().String(), FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(raw)}
		if h.one(3) {
			e.APIVersion = "example.com/v9"
		}
		if h.one(3) {
			e.Operation = "Apply"
		}
		if h.one(8) {
			e.FieldsType = ""
		}
		return append(slices.Clone(live), e)
	}
	return live
}

func (h *history) update(t *testing.T, e endpoint, what string, live, obj managedfields.Object, manager string) managedfields.Object {
	t.Helper()
	theirs, err := e.theirs.Update(h.named(live), h.named(obj), manager)
	e.tracker.Update(live, obj, manager)
	if err != nil {
		// Upstream then leaves all as it was. The tracker does not look for items without a key
		// in what moves as a whole.
		obj.SetManagedFields(live.GetManagedFields())
		return obj
	}
	want, got := mustJSON(theirs.(managedfields.Object).GetManagedFields()), mustJSON(obj.GetManagedFields())
	if want != got {
		t.Fatalf("update %s:\nwant %s\n got %s\nlive %s\n new %s", what, want, got, mustJSON(live), mustJSON(obj))
	}
	return obj
}

func (h *history) apply(t *testing.T, e endpoint, what string, live, obj managedfields.Object, manager string) managedfields.Object {
	t.Helper()
	obj.SetManagedFields(nil)
	if h.one(20) {
		obj.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "me"}})
	}
	config := h.config(t, obj, e.gvk)
	force := h.one(2)
	theirs, wantErr := e.theirs.Apply(h.named(live), &unstructured.Unstructured{Object: runtime.DeepCopyJSON(config.Object)}, manager, force)
	ours, err := e.tracker.Apply(live, config, manager, force)
	if !sameError(wantErr, err) {
		t.Fatalf("apply %s:\nwant %v\n got %v\nlive %s\nconfig %s", what, wantErr, err, mustJSON(live), mustJSON(config))
	}
	if err != nil {
		return nil
	}
	want, got := mustJSON(theirs), mustJSON(h.named(ours))
	if want != got {
		t.Fatalf("apply %s:\nwant %s\n got %s\nlive %s\nconfig %s", what, want, got, mustJSON(live), mustJSON(config))
	}
	return ours
}

// sameError compares errors that list conflicts in any order, or what is wrong with an object
// up to a point that differs.
func sameError(want, got error) bool {
	if want == nil || got == nil {
		return want == got
	}
	a, b := want.Error(), got.Error()
	for _, untyped := range []string{"failed to create typed patch object", "failed to create typed live object", "failed to create manager for existing fields"} {
		if strings.HasPrefix(a, untyped) {
			return true
		}
	}
	x, y := []byte(a), []byte(b)
	slices.Sort(x)
	slices.Sort(y)
	return string(x) == string(y)
}

// config is a part of an object, as somebody applies it.
func (h *history) config(t *testing.T, obj managedfields.Object, gvk schema.GroupVersionKind) *unstructured.Unstructured {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(h.named(obj))
	if err != nil {
		t.Fatal(err)
	}
	h.thin(content)
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(gvk)
	u.SetName("name")
	if h.one(20) {
		content["unknown"] = "field"
	}
	return u
}

func (h *history) thin(v any) {
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(keysOf(v)) {
			if h.one(4) && k != "name" && k != "key" && k != "type" && k != "uid" {
				delete(v, k)
				continue
			}
			h.thin(v[k])
		}
	case []any:
		for i := range v {
			h.thin(v[i])
		}
	}
}

func keysOf(m map[string]any) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func mustJSON(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// conversion is what upstream needs to convert between the versions of a kind.
type conversion struct{}

func (conversion) Convert(_, _, _ any) error { return fmt.Errorf("not used") }

func (conversion) ConvertToVersion(in runtime.Object, to runtime.GroupVersioner) (runtime.Object, error) {
	gv, ok := to.(schema.GroupVersion)
	if ok && !scheme.Scheme.IsVersionRegistered(gv) {
		return nil, runtime.NewNotRegisteredErrForTarget("test", reflect.TypeOf(in), to)
	}
	if u, ok := in.(*unstructured.Unstructured); ok {
		obj := newObject(u.GroupVersionKind())
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, obj); err != nil {
			return nil, fmt.Errorf("unable to convert unstructured object to %v: %w", u.GroupVersionKind(), err)
		}
		in = obj
	}
	if gvk := in.GetObjectKind().GroupVersionKind(); ok && gvk.GroupVersion() != gv {
		return converted(in.(managedfields.Object), gv.WithKind(gvk.Kind)), nil
	}
	return in, nil
}

func (conversion) ConvertFieldLabel(schema.GroupVersionKind, string, string) (string, string, error) {
	return "", "", fmt.Errorf("not used")
}

// named makes objects that say their type, as upstream's do.
type named struct{}

func (named) New(gvk schema.GroupVersionKind) (runtime.Object, error) {
	obj, err := scheme.Scheme.New(gvk)
	if err == nil {
		obj.GetObjectKind().SetGroupVersionKind(gvk)
	}
	return obj, err
}

type noDefaults struct{}

func (noDefaults) Default(runtime.Object) {}
