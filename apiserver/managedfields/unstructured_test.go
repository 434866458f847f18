package managedfields_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	upstream "k8s.io/apimachinery/pkg/util/managedfields"

	"github.com/keelson-dev/keelson/apiserver/managedfields"
)

// TestUnstructured holds kinds of which nothing is known to upstream's deduced types: objects
// merge field by field, all else moves as a whole.
func TestUnstructured(t *testing.T) {
	gvk := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}
	empty := func() managedfields.Object {
		u := &unstructured.Unstructured{Object: map[string]any{}}
		u.SetGroupVersionKind(gvk)
		return u
	}
	kind := managedfields.Kind{Versions: []managedfields.Version{{GroupVersionKind: gvk, New: empty}}}
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			h := &history{chance: chance{rand.New(rand.NewPCG(seed, 1))}, gvk: gvk}
			theirs, err := upstream.NewDefaultCRDFieldManager(upstream.NewDeducedTypeConverter(), asIs{}, noDefaults{}, maker(empty), gvk, gvk.GroupVersion(), "", nil)
			if err != nil {
				t.Fatal(err)
			}
			tracker := managedfields.New(&managedfields.Schema{}, kind, managedfields.Endpoint{Version: gvk.GroupVersion()})
			live := empty()
			for range 10 {
				time.Sleep(time.Duration(h.IntN(2)) * time.Second)
				obj := live.DeepCopyObject().(*unstructured.Unstructured)
				h.randomEdit(obj.Object, 0)
				manager := fmt.Sprint("m", h.IntN(3))
				live = stepUnstructured(t, h, theirs, tracker, live.(*unstructured.Unstructured), obj, manager)
				live.SetUID("uid")
			}
		})
	}
}

func stepUnstructured(t *testing.T, h *history, theirs *upstream.FieldManager, tracker *managedfields.Tracker, live, obj *unstructured.Unstructured, manager string) managedfields.Object {
	t.Helper()
	var want, got runtime.Object
	var wantErr, err error
	if apply := h.one(3); apply {
		obj.SetManagedFields(nil)
		force := h.one(2)
		want, wantErr = theirs.Apply(live.DeepCopy(), obj.DeepCopy(), manager, force)
		got, err = tracker.Apply(live, obj, manager, force)
	} else {
		want, wantErr = theirs.Update(live.DeepCopy(), obj.DeepCopy(), manager)
		tracker.Update(live, obj, manager)
		got = obj
	}
	if !sameError(wantErr, err) {
		t.Fatalf("want %v, got %v", wantErr, err)
	}
	if err != nil {
		return live
	}
	if mustJSON(want) != mustJSON(got) {
		t.Fatalf("%s:\nwant %s\n got %s\nfrom %s", manager, mustJSON(want), mustJSON(got), mustJSON(live))
	}
	return got.(managedfields.Object)
}

// randomEdit changes a few fields of a JSON object.
func (h *history) randomEdit(m map[string]any, depth int) {
	for range 1 + h.IntN(3) {
		key := []string{"spec", "status", "a", "b", "é"}[h.IntN(5)]
		switch inner, ok := m[key].(map[string]any); {
		case h.one(5):
			delete(m, key)
		case ok && !h.one(6):
			h.randomEdit(inner, depth+1)
		default:
			m[key] = h.anything(depth)
		}
	}
}

func (h *history) anything(depth int) any {
	switch h.IntN(8) {
	case 0:
		return nil
	case 1:
		return []any{h.text(), int64(h.IntN(3))}
	case 2:
		return int64(h.IntN(3))
	case 3:
		return h.one(2)
	case 4:
		return []any{}
	case 5, 6:
		m := map[string]any{}
		if depth < 4 && !h.one(3) {
			h.randomEdit(m, depth+1)
		}
		return m
	}
	return h.text()
}

// asIs converts nothing.
type asIs struct{ conversion }

func (asIs) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in, nil
}

type maker func() managedfields.Object

func (m maker) New(schema.GroupVersionKind) (runtime.Object, error) { return m(), nil }

// Objects of a registry have no type of their own, and an apply gives them none.
func TestApplyToUnstructuredWithoutType(t *testing.T) {
	gvk := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Backup"}
	tracker := managedfields.New(&managedfields.Schema{}, managedfields.Kind{Versions: []managedfields.Version{{
		GroupVersionKind: gvk, New: func() managedfields.Object { return &unstructured.Unstructured{Object: map[string]any{}} },
	}}}, managedfields.Endpoint{Version: gvk.GroupVersion()})
	live := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "a"}, "spec": map[string]any{"a": "1"}}}
	config := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "a"}, "spec": map[string]any{"b": "2"}}}
	config.SetGroupVersionKind(gvk)
	got, err := tracker.Apply(live, config, "m", false)
	if err != nil {
		t.Fatal(err)
	}
	content := got.(*unstructured.Unstructured).Object
	_, kind := content["kind"]
	_, version := content["apiVersion"]
	if spec := fmt.Sprint(content["spec"]); kind || version || spec != "map[a:1 b:2]" {
		t.Errorf("applied: %v", content)
	}
	if _, typed := live.Object["kind"]; typed {
		t.Errorf("the live object was changed: %v", live)
	}
}
