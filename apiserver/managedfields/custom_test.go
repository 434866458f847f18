package managedfields_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	upstream "k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/spec3"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/merge"

	"github.com/keelson-dev/keelson/apiserver/managedfields"
)

// custom is a custom kind, told by both.
type custom struct {
	converter upstream.TypeConverter
	kind      managedfields.Kind
	schemas   []map[string]any // by version: v1, which is stored, v2 and so on
	fail      func(to string) error
}

func customGVK(version int) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "example.com", Version: fmt.Sprintf("v%d", version+1), Kind: "Widget"}
}

// newCustom returns the kind with a schema for each version, as upstream's server for custom resources makes it.
func newCustom(t testing.TB, schemas ...map[string]any) *custom {
	t.Helper()
	c := &custom{schemas: schemas, fail: func(string) error { return nil }}
	crd := &apiextensionsv1.CustomResourceDefinition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{
		Group: "example.com", Scope: apiextensionsv1.NamespaceScoped,
		Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList"},
	}}
	for n, s := range schemas {
		gvk := customGVK(n)
		var props *apiextensionsv1.JSONSchemaProps
		if err := json.Unmarshal([]byte(mustJSON(s)), &props); err != nil {
			t.Fatal(err)
		}
		mustBeStructural(t, props)
		crd.Spec.Versions = append(crd.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{
			Name: gvk.Version, Served: true, Storage: n == 0, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: props},
		})
		v := managedfields.Version{GroupVersionKind: gvk, New: func() managedfields.Object { return &unstructured.Unstructured{Object: map[string]any{}} }}
		v.Schema = managedfields.NewOpenAPI(func() map[string]any { return runtime.DeepCopyJSON(s) })
		if n > 0 {
			v.FromStored, v.ToStored = c.convert(gvk.Version), c.convert("v1")
		}
		c.kind.Versions = append(c.kind.Versions, v)
	}
	var specs []*spec3.OpenAPI
	for _, v := range crd.Spec.Versions {
		s, err := builder.BuildOpenAPIV3(crd, v.Name, builder.Options{})
		if err != nil {
			t.Fatal(err)
		}
		specs = append(specs, s)
	}
	merged, err := builder.MergeSpecsV3(specs...)
	if err != nil {
		t.Fatal(err)
	}
	if c.converter, err = upstream.NewTypeConverter(merged.Components.Schemas, false); err != nil {
		t.Fatal(err)
	}
	return c
}

func mustBeStructural(t testing.TB, props *apiextensionsv1.JSONSchemaProps) {
	t.Helper()
	var internal apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(props, &internal, nil); err != nil {
		t.Fatal(err)
	}
	s, err := structural.NewStructural(&internal)
	if err != nil {
		t.Fatal(err)
	}
	if errs := structural.ValidateStructural(nil, s); len(errs) > 0 {
		t.Fatalf("%s: %v", mustJSON(props), errs)
	}
}

func (c *custom) convert(version string) func(managedfields.Object) (managedfields.Object, error) {
	return func(obj managedfields.Object) (managedfields.Object, error) {
		if err := c.fail(version); err != nil {
			return nil, err
		}
		return obj.DeepCopyObject().(managedfields.Object), nil
	}
}

// Convert, ConvertToVersion and ConvertFieldLabel are what upstream needs: they change the version and nothing else.
func (c *custom) Convert(_, _, _ any) error { return errors.New("not used") }

func (c *custom) ConvertToVersion(in runtime.Object, to runtime.GroupVersioner) (runtime.Object, error) {
	out := in.DeepCopyObject().(*unstructured.Unstructured)
	gv := to.(schema.GroupVersion)
	if gv == out.GroupVersionKind().GroupVersion() {
		return out, nil
	}
	if !slices.ContainsFunc(c.kind.Versions, func(v managedfields.Version) bool { return v.GroupVersion() == gv }) {
		return nil, runtime.NewNotRegisteredErrForKind("test", out.GroupVersionKind())
	}
	if err := c.fail(gv.Version); err != nil {
		return nil, err
	}
	out.SetAPIVersion(gv.String())
	return out, nil
}

func (c *custom) ConvertFieldLabel(schema.GroupVersionKind, string, string) (string, string, error) {
	return "", "", errors.New("not used")
}

// New makes empty objects, for upstream.
func (c *custom) New(gvk schema.GroupVersionKind) (runtime.Object, error) {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(gvk)
	return u, nil
}

// customEndpoint is where objects of a custom kind are written.
type customEndpoint struct {
	version int
	at      managedfields.Endpoint
	theirs  *upstream.FieldManager
	tracker *managedfields.Tracker
}

func (c *custom) endpoint(t testing.TB, version int, sub string) customEndpoint {
	t.Helper()
	at := managedfields.Endpoint{Version: customGVK(version).GroupVersion(), Subresource: sub, Resets: []string{"status"}}
	switch sub {
	case "status":
		at.Resets = []string{"metadata", "spec"}
	case "part":
		at.Resets = []string{"metadata.labels", "spec.a"}
	case "all":
		at.Resets = nil
	}
	set := fieldpath.NewSet()
	for _, path := range at.Resets {
		var p fieldpath.Path
		for name := range strings.SplitSeq(path, ".") {
			p = append(p, fieldpath.FieldNameElement(name))
		}
		set.Insert(p)
	}
	by := map[fieldpath.APIVersion]*fieldpath.Set{}
	for n := range c.schemas {
		by[fieldpath.APIVersion(customGVK(n).GroupVersion().String())] = set
	}
	theirs, err := upstream.NewDefaultCRDFieldManager(c.converter, c, noDefaults{}, c, customGVK(version), at.Version, sub, fieldpath.NewExcludeFilterSetMap(by))
	if err != nil {
		t.Fatal(err)
	}
	return customEndpoint{version, at, theirs, managedfields.New(&managedfields.Schema{}, c.kind, at)}
}

// typedAs returns a copy that says its type, as upstream's objects do.
func typedAs(obj managedfields.Object, version int) *unstructured.Unstructured {
	u := obj.DeepCopyObject().(*unstructured.Unstructured)
	u.SetGroupVersionKind(customGVK(version))
	return u
}

// update has both update live to obj, and returns obj with its managed fields.
func (e customEndpoint) update(t testing.TB, live, obj *unstructured.Unstructured, manager string) (*unstructured.Unstructured, error) {
	t.Helper()
	got, before := obj.DeepCopy(), mustJSON(live)
	e.tracker.Update(live, got, manager)
	if after := mustJSON(live); before != after {
		t.Fatalf("an update changed the live object: %s, was %s", after, before)
	}
	theirs, err := e.theirs.Update(typedAs(live, e.version), typedAs(obj, e.version), manager)
	want := live.GetManagedFields()
	if err == nil {
		want = theirs.(managedfields.Object).GetManagedFields()
	}
	if is := mustJSON(got.GetManagedFields()); is != mustJSON(want) {
		t.Fatalf("%s updates %s:\nwant %s (%v)\n got %s\nlive %s\n new %s", manager, e.at.Version, mustJSON(want), err, is, before, mustJSON(obj))
	}
	return got, err
}

// apply has both apply a configuration, and returns what this one makes of it.
func (e customEndpoint) apply(t testing.TB, live, config *unstructured.Unstructured, manager string, force bool) (*unstructured.Unstructured, error) {
	t.Helper()
	before := mustJSON(live)
	got, err := e.tracker.Apply(live, config.DeepCopy(), manager, force)
	if after := mustJSON(live); before != after {
		t.Fatalf("an apply changed the live object: %s, was %s", after, before)
	}
	var want runtime.Object
	var wantErr error
	for range 300 { // upstream names any one of several fields
		want, wantErr = e.theirs.Apply(typedAs(live, e.version), config.DeepCopy(), manager, force)
		if sameText(wantErr, err) {
			break
		}
	}
	if !sameText(wantErr, err) && !sameLetters(wantErr, err) {
		t.Fatalf("%s applies %s:\nwant %v\n got %v\nlive %s\nconfig %s", manager, e.at.Version, wantErr, err, before, mustJSON(config))
	}
	if err != nil {
		return nil, err
	}
	if is, want := mustJSON(typedAs(got, e.version)), mustJSON(want); is != want {
		t.Fatalf("%s applies %s:\nwant %s\n got %s\nlive %s\nconfig %s", manager, e.at.Version, want, is, before, mustJSON(config))
	}
	return got.(*unstructured.Unstructured), nil
}

// sameText compares the texts of errors, those of conflicts without their order.
func sameText(want, got error) bool {
	if want == nil || got == nil {
		return want == got
	}
	var conflicts merge.Conflicts
	if c := (&managedfields.ConflictError{}); errors.As(got, &c) || errors.As(want, &conflicts) || strings.Contains(got.Error(), "errors:\n") {
		return sameLetters(want, got)
	}
	return want.Error() == got.Error()
}

// sameLetters compares texts with maps or lists in them that are printed in any order.
func sameLetters(want, got error) bool {
	return want != nil && got != nil && sortedBytes(want.Error()) == sortedBytes(got.Error())
}

func sortedBytes(s string) string {
	b := []byte(s)
	slices.Sort(b)
	return string(b)
}

// TestSchemas plays random histories of objects with random schemas in two versions, which change over time, by the tracker
// and by upstream's FieldManager.
func TestSchemas(t *testing.T) {
	outcomes := map[string]int{}
	for round := range uint64(150 * *rounds) {
		synctest.Test(t, func(t *testing.T) {
			h := &customHistory{chance: chance{rand.New(rand.NewPCG(*seed+round, 7))}, outcomes: outcomes}
			h.declare(t, h.kindSchema())
			h.live = &unstructured.Unstructured{Object: map[string]any{}}
			for range 20 {
				time.Sleep(time.Duration(h.IntN(2)) * time.Second)
				if h.one(8) { // the definition is changed
					h.declare(t, h.varied(h.custom.schemas[0]).(map[string]any))
				}
				h.step(t)
			}
		})
	}
	t.Log(outcomes)
	for _, outcome := range []string{"applied", "updated", "apply refused", "update refused", "conflict"} {
		if outcomes[outcome] < 100 {
			t.Errorf("%s only %d times: %v", outcome, outcomes[outcome], outcomes)
		}
	}
}

type customHistory struct {
	chance
	custom   *custom
	live     *unstructured.Unstructured
	outcomes map[string]int
}

// declare makes the kind anew, with a second version that differs a bit.
func (h *customHistory) declare(t *testing.T, s map[string]any) {
	t.Helper()
	second := runtime.DeepCopyJSON(s)
	if h.one(2) {
		second = h.varied(second).(map[string]any)
	}
	h.custom = newCustom(t, s, second)
}

func (h *customHistory) step(t *testing.T) {
	t.Helper()
	version := 0
	if h.one(3) {
		version = 1
	}
	e := h.custom.endpoint(t, version, []string{"", "", "status", "part", "all"}[h.IntN(5)])
	manager := []string{"a", "b", "c", "kubectl", ""}[h.IntN(5)]
	s := h.custom.schemas[version]
	if version == 0 && h.one(12) { // upstream converts from and to what is stored elsewhere
		broken := customGVK(h.IntN(2)).Version
		h.custom.fail = func(to string) error {
			if to == broken {
				return fmt.Errorf("the webhook for %s failed", to)
			}
			return nil
		}
		defer func() { h.custom.fail = func(string) error { return nil } }()
	}
	if h.one(2) {
		config := &unstructured.Unstructured{Object: h.objectOf(s)}
		config.SetGroupVersionKind(customGVK(version))
		config.SetName("name")
		next, err := e.apply(t, h.live, config, manager, h.one(2))
		var conflict *managedfields.ConflictError
		switch {
		case errors.As(err, &conflict):
			h.outcomes["conflict"]++
		case err != nil:
			h.outcomes["apply refused"]++
		default:
			h.outcomes["applied"]++
			h.live = next
		}
	} else {
		obj := h.live.DeepCopy()
		if h.one(6) {
			obj.Object = h.objectOf(s)
			obj.SetManagedFields(h.live.GetManagedFields())
		}
		for range h.IntN(4) {
			h.edit(s, obj.Object)
		}
		obj.SetManagedFields(h.sentFields(obj.GetManagedFields()))
		next, err := e.update(t, h.live, obj, manager)
		switch {
		case err == nil:
			h.outcomes["updated"]++
			h.live = next
		default:
			h.outcomes["update refused"]++
			if h.one(4) {
				h.live = next
			}
		}
	}
	h.live.SetUID("uid")
	h.live = readAgain(h.live)
}

// sentFields are mostly what the client read.
func (h *customHistory) sentFields(read []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	if !h.one(8) {
		return read
	}
	raw := []string{
		`{"f:spec":{"f:a":{"f:b":{}},"f:b":{".":{},"f:a":{},"k:{\"a\":\"b\"}":{".":{},"f:a":{}}},"f:c":{"v:1":{},"v:\"a\"":{}}},"f:status":{"f:a":{"f:a":{"f:a":{}}}}}`,
		`{"f:spec":{".":{},"f:é":{"f:a":{}},"f:a":{"k:{\"a\":1}":{"f:b":{"f:c":{}}}}},"f:metadata":{"f:ownerReferences":{"k:{\"uid\":\"a\"}":{"f:name":{}}}}}`,
		`{"f:spec":{},"f:unknown":{"f:a":{}}}`,
	}
	e := metav1.ManagedFieldsEntry{
		Manager: "odd", Operation: "Update", APIVersion: customGVK(h.IntN(3)).GroupVersion().String(), FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(raw[h.IntN(len(raw))]),
	}
	if h.one(2) {
		e.Operation = "Apply"
	}
	return append(slices.Clone(read), e)
}

// readAgain returns an object as it is read.
func readAgain(obj *unstructured.Unstructured) *unstructured.Unstructured {
	out := &unstructured.Unstructured{}
	obj = obj.DeepCopy()
	obj.SetGroupVersionKind(customGVK(0))
	if err := out.UnmarshalJSON([]byte(mustJSON(obj))); err != nil {
		panic(err)
	}
	delete(out.Object, "apiVersion")
	delete(out.Object, "kind")
	return out
}
