package managedfields_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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

var names = []string{"a", "b", "c", "é", "x<y>"}

// kindSchema returns a random schema of a kind.
func (h *customHistory) kindSchema() map[string]any {
	s := map[string]any{"type": "object", "properties": map[string]any{"spec": h.schema(0), "status": h.schema(1), "metadata": map[string]any{"type": "object"}}}
	if h.one(8) {
		s["x-kubernetes-preserve-unknown-fields"] = true
	}
	return s
}

func (h *customHistory) scalarSchema() map[string]any {
	s := map[string]any{"type": []string{"string", "integer", "number", "boolean"}[h.IntN(4)]}
	switch {
	case s["type"] == "string" && h.one(3):
		s["format"] = []string{"date-time", "byte", "duration"}[h.IntN(3)]
	case h.one(6):
		return map[string]any{"x-kubernetes-int-or-string": true}
	}
	return s
}

func (h *customHistory) schema(depth int) map[string]any {
	if depth > 4 {
		return h.scalarSchema()
	}
	s := map[string]any{}
	switch h.IntN(10) {
	case 0, 1:
		s = h.scalarSchema()
	case 2, 3, 4:
		s = map[string]any{"type": "object", "properties": h.properties(depth)}
		h.mapType(s)
		switch h.IntN(10) {
		case 0:
			s["x-kubernetes-preserve-unknown-fields"] = true
		case 1:
			s["x-kubernetes-embedded-resource"] = true
		}
	case 5:
		s = map[string]any{"type": "object", "additionalProperties": h.schema(depth + 1)}
		if h.one(6) {
			s["additionalProperties"] = true
		}
		h.mapType(s)
	case 6:
		s = map[string]any{"x-kubernetes-preserve-unknown-fields": true}
		if h.one(2) {
			s["type"] = "object"
		}
		if h.one(3) {
			s = map[string]any{"type": "object"}
		}
	case 7:
		s = map[string]any{"type": "array", "items": h.scalarSchema(), "x-kubernetes-list-type": "set"}
	case 8:
		s = map[string]any{"type": "array", "items": h.schema(depth + 1)}
		if h.one(2) {
			s["x-kubernetes-list-type"] = "atomic"
		}
	case 9:
		s = h.listMap(depth)
	}
	if h.one(10) {
		s["nullable"] = true
	}
	return s
}

func (h *customHistory) mapType(s map[string]any) {
	if h.one(3) {
		s["x-kubernetes-map-type"] = []string{"atomic", "granular"}[h.IntN(2)]
	}
}

func (h *customHistory) properties(depth int) map[string]any {
	properties := map[string]any{}
	for range 1 + h.IntN(4) {
		properties[names[h.IntN(len(names))]] = h.schema(depth + 1)
	}
	return properties
}

// listMap returns the schema of a list whose items have keys, some with a default.
func (h *customHistory) listMap(depth int) map[string]any {
	item := h.properties(depth)
	var keys []any
	for _, name := range []string{"b", "a"} {
		if len(keys) > 0 && h.one(2) {
			break
		}
		key := h.scalarSchema()
		if h.one(3) {
			key["default"] = h.scalarOf(key)
		}
		item[name], keys = key, append(keys, name)
	}
	items := map[string]any{"type": "object", "properties": item}
	if h.one(4) {
		h.mapType(items)
	}
	return map[string]any{"type": "array", "items": items, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys}
}

// varied returns a schema that differs in some places, mostly in how things merge.
func (h *customHistory) varied(v any) any {
	s, ok := v.(map[string]any)
	if !ok {
		return v
	}
	s = maps.Clone(s)
	for _, below := range []string{"items", "additionalProperties"} {
		if s[below] != nil {
			s[below] = h.varied(s[below])
		}
	}
	if properties, ok := s["properties"].(map[string]any); ok {
		properties = maps.Clone(properties)
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			if name != "metadata" { // nothing may be said of it
				properties[name] = h.varied(properties[name])
			}
		}
		if h.one(30) && s["x-kubernetes-preserve-unknown-fields"] == nil {
			properties["new"] = h.schema(3)
		}
		s["properties"] = properties
	}
	switch {
	case !h.one(3):
	case s["type"] == "array":
		if s["x-kubernetes-list-type"] == "map" || s["x-kubernetes-list-type"] == "set" {
			s["x-kubernetes-list-type"] = "atomic"
			delete(s, "x-kubernetes-list-map-keys")
		} else if item := s["items"].(map[string]any); item["properties"] != nil && item["properties"].(map[string]any)["a"] != nil {
			s["x-kubernetes-list-type"], s["x-kubernetes-list-map-keys"] = "map", []any{"a"}
		} else if item["type"] == "string" {
			s["x-kubernetes-list-type"] = "set"
		}
	case s["type"] == "object":
		if s["x-kubernetes-map-type"] == "atomic" {
			delete(s, "x-kubernetes-map-type")
		} else {
			s["x-kubernetes-map-type"] = "atomic"
		}
	}
	if s["properties"] != nil && s["properties"].(map[string]any)["metadata"] != nil {
		delete(s, "x-kubernetes-map-type") // of objects themselves
		if h.one(20) {
			s["x-kubernetes-map-type"] = []string{"atomic", "granular"}[h.IntN(2)]
		}
	}
	return s
}

// objectOf returns a random object with a schema.
func (h *customHistory) objectOf(s map[string]any) map[string]any {
	obj, ok := h.valueOf(s, 0).(map[string]any)
	if !ok {
		obj = map[string]any{}
	}
	delete(obj, "apiVersion")
	delete(obj, "kind")
	obj["metadata"] = h.metadata()
	return obj
}

func (h *customHistory) metadata() map[string]any {
	meta := map[string]any{}
	if h.one(2) {
		meta["labels"] = map[string]any{h.text(): h.text()}
	}
	if h.one(4) {
		meta["finalizers"] = []any{[]any{"a", "b", "c"}[h.IntN(3)]}
	}
	if h.one(6) {
		meta["ownerReferences"] = []any{map[string]any{"uid": h.text(), "name": h.text(), "kind": "K", "apiVersion": "v1"}}
	}
	if h.one(60) {
		meta["unknown"] = "x"
	}
	if h.one(60) {
		meta["creationTimestamp"] = nil
	}
	return meta
}

func (h *customHistory) scalarOf(s map[string]any) any {
	switch s["type"] {
	case "string":
		return h.text()
	case "integer":
		return int64(h.IntN(3))
	case "number":
		return []any{int64(1), 1.0, 0.5}[h.IntN(3)]
	case "boolean":
		return h.one(2)
	}
	if h.one(2) {
		return h.text()
	}
	return int64(h.IntN(3))
}

// valueOf returns a random value with a schema, or rarely another one.
func (h *customHistory) valueOf(v any, depth int) any {
	s, ok := v.(map[string]any)
	switch {
	case h.one(250):
		return h.something(3)
	case h.one(40):
		return nil
	case !ok || s["type"] == nil && s["x-kubernetes-int-or-string"] == nil:
		return h.something(depth)
	case s["type"] == "array":
		list := []any{}
		for range h.IntN(4) {
			list = append(list, h.valueOf(s["items"], depth+1))
			if len(list) > 1 && h.one(40) {
				list = append(list, runtime.DeepCopyJSONValue(list[0]))
			}
		}
		return h.distinct(list, s)
	case s["type"] == "object":
		m := map[string]any{}
		properties, _ := s["properties"].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			if !h.one(4) {
				m[name] = h.valueOf(properties[name], depth+1)
			}
		}
		if s["x-kubernetes-embedded-resource"] != nil {
			m["metadata"], m["kind"] = h.metadata(), h.text()
		}
		free := s["additionalProperties"] != nil || s["x-kubernetes-preserve-unknown-fields"] != nil || properties == nil
		if free || h.one(250) {
			for range h.IntN(3) {
				if name := names[h.IntN(len(names))]; m[name] == nil {
					m[name] = h.valueOf(s["additionalProperties"], depth+1)
				}
			}
		}
		return m
	}
	return h.scalarOf(s)
}

// distinct mostly removes items with keys of others.
func (h *customHistory) distinct(list []any, s map[string]any) []any {
	if s["x-kubernetes-list-type"] == nil || h.one(40) {
		return list
	}
	keys, _ := s["x-kubernetes-list-map-keys"].([]any)
	seen := map[string]bool{}
	return slices.DeleteFunc(list, func(item any) bool {
		m, ok := item.(map[string]any)
		id := mustJSON(item)
		if ok && len(keys) > 0 {
			id = ""
			for _, key := range keys {
				id += mustJSON(m[key.(string)])
			}
			if m[keys[0].(string)] == nil && !h.one(20) {
				return true
			}
		}
		was := seen[id]
		seen[id] = true
		return was
	})
}

// something is any JSON.
func (h *customHistory) something(depth int) any {
	switch h.IntN(7) {
	case 0:
		return nil
	case 1, 2:
		m := map[string]any{}
		for range h.IntN(3) {
			if depth < 5 {
				m[names[h.IntN(len(names))]] = h.something(depth + 1)
			}
		}
		return m
	case 3:
		if depth < 5 {
			return []any{h.something(depth + 1)}
		}
		return []any{}
	}
	return h.scalarOf(map[string]any{})
}

// edit changes a few places of a value.
func (h *customHistory) edit(s any, m map[string]any) {
	of, _ := s.(map[string]any)
	properties, _ := of["properties"].(map[string]any)
	if h.one(8) {
		m["metadata"] = h.metadata()
		if h.live.GetUID() != "" {
			m["metadata"].(map[string]any)["managedFields"] = h.live.Object["metadata"].(map[string]any)["managedFields"]
		}
	}
	name := []string{"spec", "status"}[h.IntN(2)]
	m[name] = h.edited(properties[name], m[name])
	if h.one(20) {
		delete(m, name)
	}
}

func (h *customHistory) edited(schema, v any) any {
	s, _ := schema.(map[string]any)
	if v == nil || h.one(6) {
		return h.valueOf(s, 1)
	}
	switch v := v.(type) {
	case map[string]any:
		if len(v) == 0 {
			return h.valueOf(s, 1)
		}
		keys := slices.Sorted(maps.Keys(v))
		name := keys[h.IntN(len(keys))]
		if h.one(5) {
			delete(v, name)
			return v
		}
		part := s["additionalProperties"]
		if properties, ok := s["properties"].(map[string]any); ok && properties[name] != nil {
			part = properties[name]
		}
		v[name] = h.edited(part, v[name])
		return v
	case []any:
		if len(v) == 0 || h.one(5) {
			return h.valueOf(s, 1)
		}
		i := h.IntN(len(v))
		switch h.IntN(4) {
		case 0:
			return slices.Delete(v, i, i+1)
		case 1:
			slices.Reverse(v)
		case 2:
			return append(v, runtime.DeepCopyJSONValue(v[i]))
		default:
			v[i] = h.edited(s["items"], v[i])
		}
		return v
	}
	return h.valueOf(s, 1)
}
