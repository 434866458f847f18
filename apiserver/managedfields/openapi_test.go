package managedfields_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/keelson-dev/keelson/apiserver/managedfields"
)

// widgetSchema has one property of each sort.
const widgetSchema = `{"type":"object","properties":{"spec":{"type":"object","properties":{
"atomic":{"type":"array","items":{"type":"string"}},
"set":{"type":"array","items":{"type":"string"},"x-kubernetes-list-type":"set"},
"ports":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["port","protocol"],"items":{"type":"object","properties":{
  "port":{"type":"integer"},"protocol":{"type":"string","default":"TCP"},"name":{"type":"string"},
  "rules":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["id"],"items":{"type":"object","properties":{"id":{"type":"string"},"to":{"type":"string"}}}}}}},
"struct":{"type":"object","x-kubernetes-map-type":"atomic","properties":{"a":{"type":"string"},"b":{"type":"string"}}},
"labels":{"type":"object","additionalProperties":{"type":"string"}},
"target":{"x-kubernetes-int-or-string":true},
"at":{"type":"string","format":"date-time"},
"data":{"type":"string","format":"byte"},
"any":{"type":"object"},
"free":{"type":"object","x-kubernetes-preserve-unknown-fields":true},
"template":{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true},
"n":{"type":"integer","nullable":true}}}}}`

// fromJSON returns a schema, or the content of an object.
func fromJSON(t testing.TB, text string) map[string]any {
	t.Helper()
	u := struct {
		Object map[string]any `json:"object"`
	}{}
	if err := json.Unmarshal([]byte(`{"object":`+text+`}`), &u); err != nil {
		t.Fatal(err)
	}
	return u.Object
}

// widget returns an object with a spec.
func widget(t testing.TB, spec string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON([]byte(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w","namespace":"ns"},"spec":` + spec + `}`)); err != nil {
		t.Fatal(err)
	}
	return u
}

// stored is a widget as a registry has it.
func stored(t testing.TB, spec string) *unstructured.Unstructured {
	t.Helper()
	u := widget(t, spec)
	delete(u.Object, "apiVersion")
	delete(u.Object, "kind")
	return u
}

// TestSchemaRefuses has what a schema does not allow, in upstream's words.
func TestSchemaRefuses(t *testing.T) {
	synctest.Test(t, testSchemaRefuses) // upstream and the tracker note the same time
}

func testSchemaRefuses(t *testing.T) {
	e := newCustom(t, fromJSON(t, widgetSchema)).endpoint(t, 0, "")
	const patch = "failed to create typed patch object (ns/w; example.com/v1, Kind=Widget): "
	for config, want := range map[string]string{
		`{"foo":1}`:             patch + ".spec.foo: field not declared in schema",
		`{"set":["a","b","a"]}`: patch + `.spec.set: duplicate entries for key [="a"]`,
		`{"set":[null]}`:        patch + ".spec.set: element 0: associative list without keys has an element that's an explicit null",
		`{"set":"a"}`:           patch + ".spec.set: expected list, got &{a}",
		`{"ports":[{"port":1},{"port":1,"protocol":"TCP"}]}`: patch + `.spec.ports: duplicate entries for key [port=1,protocol="TCP"]`,
		`{"ports":[{"port":1,"rules":[{"to":"x"}]}]}`:        patch + `.spec.ports[port=1,protocol="TCP"].rules: element 0: associative list with keys has an element that omits all key fields ["id"] (and doesn't have default values for any key fields)`,
		`{"ports":[null]}`:                      patch + ".spec.ports: element 0: associative list with keys may not have a null element",
		`{"ports":["x"]}`:                       patch + ".spec.ports: element 0: associative list with keys may not have non-map elements",
		`{"n":"1"}`:                             patch + ".spec.n: expected numeric (int or float), got string",
		`{"labels":{"a":1}}`:                    patch + ".spec.labels.a: expected string, got &value.valueUnstructured{Value:1}",
		`{"at":1,"any":{"a":{"b":1}}}`:          "",
		`{"data":1}`:                            patch + ".spec.data: expected string, got &value.valueUnstructured{Value:1}",
		`{"target":{}}`:                         "",
		`{"struct":{"c":"d"}}`:                  patch + ".spec.struct.c: field not declared in schema",
		`{"template":{"metadata":{"foo":"d"}}}`: patch + ".spec.template.metadata.foo: field not declared in schema",
		`{"template":{"kind":1}}`:               patch + ".spec.template.kind: expected string, got &value.valueUnstructured{Value:1}",
		`{"free":{"a":{"b":[1,{"c":null}]}}}`:   "",
		`{"n":null,"set":null,"ports":null,"struct":null,"labels":null,"target":null,"free":null,"template":null}`: "",
	} {
		_, err := e.apply(t, stored(t, "{}"), widget(t, config), "m", false)
		got := ""
		if err != nil {
			got = err.Error()
		}
		// The library prints some values as they are in memory.
		if text, _, cut := strings.Cut(got, ", got &"); cut {
			got, want, _ = text, strings.Split(want, ", got &")[0], ""
		}
		if got != want {
			t.Errorf("%s: %s, want %s", config, got, want)
		}
	}
	if _, err := newCustom(t, fromJSON(t, `{"type":"object"}`)).endpoint(t, 0, "").apply(t, stored(t, "{}"), widget(t, "{}"), "m", false); err == nil || !strings.HasSuffix(err.Error(), ".spec: field not declared in schema") {
		t.Errorf("a schema without properties: %v", err)
	}
	config := widget(t, "{}")
	config.Object["metadata"].(map[string]any)["foo"] = "bar"
	if _, err := e.apply(t, stored(t, "{}"), config, "m", false); err == nil || err.Error() != patch+".metadata.foo: field not declared in schema" {
		t.Errorf("unknown metadata: %v", err)
	}
	_, err := e.apply(t, stored(t, `{"n":"x"}`), widget(t, "{}"), "m", false)
	if want := "failed to create manager for existing fields: failed to convert new object (ns/w; example.com/v1, Kind=Widget) to smd typed: .spec.n: expected numeric (int or float), got string"; err == nil || err.Error() != want {
		t.Errorf("apply to an object that its schema does not allow: %v, want %s", err, want)
	}
}

// TestSchemaOwns has what an update makes the manager own.
func TestSchemaOwns(t *testing.T) {
	synctest.Test(t, testSchemaOwns) // upstream and the tracker note the same time
}

func testSchemaOwns(t *testing.T) {
	e := newCustom(t, fromJSON(t, widgetSchema)).endpoint(t, 0, "")
	for _, test := range []struct{ name, live, obj, want string }{
		{"an atomic list", `{"atomic":["a"]}`, `{"atomic":["a","b"]}`, `{"f:spec":{"f:atomic":{}}}`},
		{"a set", `{"set":["a"]}`, `{"set":["b","a"]}`, `{"f:spec":{"f:set":{"v:\"b\"":{}}}}`},
		{"a new set", `{}`, `{"set":["b"]}`, `{"f:spec":{"f:set":{".":{},"v:\"b\"":{}}}}`},
		{"an item with a default key", `{"ports":[]}`, `{"ports":[{"port":1,"name":"x"}]}`, `{"f:spec":{"f:ports":{"k:{\"port\":1,\"protocol\":\"TCP\"}":{".":{},"f:name":{},"f:port":{}}}}}`},
		{"an item below an item", `{"ports":[{"port":1,"rules":[{"id":"a"}]}]}`, `{"ports":[{"port":1,"rules":[{"id":"a","to":"b"}]}]}`, `{"f:spec":{"f:ports":{"k:{\"port\":1,\"protocol\":\"TCP\"}":{"f:rules":{"k:{\"id\":\"a\"}":{"f:to":{}}}}}}}`},
		{"an atomic struct", `{"struct":{"a":"1"}}`, `{"struct":{"a":"1","b":"2"}}`, `{"f:spec":{"f:struct":{}}}`},
		{"a map", `{"labels":{"a":"1"}}`, `{"labels":{"a":"1","b":"2"}}`, `{"f:spec":{"f:labels":{"f:b":{}}}}`},
		{"unknown fields", `{"free":{}}`, `{"free":{"a":{"b":[{"c":1}]}}}`, `{"f:spec":{"f:free":{"f:a":{".":{},"f:b":{}}}}}`},
		{"embedded metadata", `{"template":{}}`, `{"template":{"metadata":{"finalizers":["a"]}}}`, `{"f:spec":{"f:template":{"f:metadata":{".":{},"f:finalizers":{".":{},"v:\"a\"":{}}}}}}`},
		{"a null", `{}`, `{"n":null,"labels":null}`, `{"f:spec":{"f:labels":{},"f:n":{}}}`},
		{"a duplicate", `{"set":["a"]}`, `{"set":["a","a"]}`, `{"f:spec":{"f:set":{"v:\"a\"":{}}}}`},
		{"a string for a number", `{"target":1}`, `{"target":"1"}`, `{"f:spec":{"f:target":{}}}`},
		{"a number in another notation", `{"n":1}`, `{"n":1.0}`, ``},
		{"metadata", `{}`, `{}`, ``},
	} {
		live := stored(t, test.live)
		if _, err := e.update(t, &unstructured.Unstructured{Object: map[string]any{}}, live, "first"); err != nil {
			t.Fatal(err)
		}
		live.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "x", Operation: "Update", APIVersion: "example.com/v1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{}}}`)}})
		obj := stored(t, test.obj)
		obj.SetManagedFields(live.GetManagedFields())
		live.SetUID("u")
		obj, err := e.update(t, live, obj, "me")
		if err != nil {
			t.Fatal(test.name, err)
		}
		got := ""
		for _, entry := range obj.GetManagedFields() {
			if entry.Manager == "me" {
				got = entry.FieldsV1.GetRawString()
			}
		}
		if got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

// TestSchemaConflict has two appliers of an item's field.
func TestSchemaConflict(t *testing.T) {
	synctest.Test(t, testSchemaConflict) // upstream and the tracker note the same time
}

func testSchemaConflict(t *testing.T) {
	e := newCustom(t, fromJSON(t, widgetSchema)).endpoint(t, 0, "")
	one, err := e.apply(t, stored(t, "{}"), widget(t, `{"ports":[{"port":1,"name":"x","rules":[{"id":"a","to":"b"}]}]}`), "one", false)
	if err != nil {
		t.Fatal(err)
	}
	theirs := widget(t, `{"ports":[{"port":1,"protocol":"TCP","rules":[{"id":"a","to":"c"}]}]}`)
	_, err = e.apply(t, one, theirs, "two", false)
	if want := `Apply failed with 1 conflict: conflict with "one": .spec.ports[port=1,protocol="TCP"].rules[id="a"].to`; err == nil || err.Error() != want {
		t.Errorf("conflict: %v, want %s", err, want)
	}
	two, err := e.apply(t, one, theirs, "two", true)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := mustJSON(two.Object["spec"]), `{"ports":[{"name":"x","port":1,"protocol":"TCP","rules":[{"id":"a","to":"c"}]}]}`; got != want {
		t.Errorf("merged: %s, want %s", got, want)
	}
}

// TestSchemaChanges has a list that moved item by item and now as a whole, and one that did as a whole.
func TestSchemaChanges(t *testing.T) {
	synctest.Test(t, testSchemaChanges) // upstream and the tracker note the same time
}

func testSchemaChanges(t *testing.T) {
	const properties = `{"type":"object","properties":{"spec":{"type":"object","properties":{"l":{"type":"array","items":{"type":"string"},"x-kubernetes-list-type":%q}}}}}`
	const maps = `{"type":"object","properties":{"spec":{"type":"object","properties":{"m":{"type":"object","additionalProperties":%s,"x-kubernetes-map-type":%q}}}}}`
	const number, either = `{"type":"integer"}`, `{"x-kubernetes-int-or-string":true}`
	declared := func(format string, args ...any) *custom {
		return newCustom(t, fromJSON(t, fmt.Sprintf(format, args...)))
	}
	set, atomic := declared(properties, "set"), declared(properties, "atomic")
	for _, test := range []struct {
		name         string
		before, then *custom
		spec, want   string
	}{
		{"a set becomes atomic", set, atomic, `{"l":["a"]}`, `{"f:spec":{"f:l":{}}}`},
		{"an atomic list becomes a set", atomic, set, `{"l":["a"]}`, `{"f:spec":{"f:l":{}}}`},
		{"a map becomes atomic", declared(maps, number, "granular"), declared(maps, number, "atomic"), `{"m":{"a":1}}`, `{"f:spec":{"f:m":{}}}`},
		{"a map of anything stays what it was", declared(maps, either, "granular"), declared(maps, either, "atomic"), `{"m":{"a":1}}`, `{"f:spec":{"f:m":{"f:a":{}}}}`},
	} {
		one, err := test.before.endpoint(t, 0, "").apply(t, stored(t, "{}"), widget(t, test.spec), "one", false)
		if err != nil {
			t.Fatal(err)
		}
		one.SetUID("u")
		obj := one.DeepCopy()
		obj.SetLabels(map[string]string{"a": "b"})
		obj, err = test.then.endpoint(t, 0, "").update(t, one, obj, "two")
		if err != nil {
			t.Fatal(err)
		}
		if got := obj.GetManagedFields()[0].FieldsV1.GetRawString(); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

// TestSchemaOnce reads a schema when it is needed, and once, whoever needs it.
func TestSchemaOnce(t *testing.T) {
	var reads atomic.Int32
	top := fromJSON(t, widgetSchema)
	shared := managedfields.NewOpenAPI(func() map[string]any { reads.Add(1); return top })
	kind := managedfields.Kind{Versions: []managedfields.Version{{
		GroupVersionKind: customGVK(0), Schema: shared,
		New: func() managedfields.Object { return &unstructured.Unstructured{Object: map[string]any{}} },
	}}}
	var s managedfields.Schema
	trackers := make([]*managedfields.Tracker, 8)
	for i := range trackers {
		trackers[i] = managedfields.New(&s, kind, managedfields.Endpoint{Version: customGVK(0).GroupVersion(), Subresource: strings.Repeat("x", i)})
	}
	if n := reads.Load(); n != 0 {
		t.Errorf("the schema was read %d times before anybody needed it", n)
	}
	var wait sync.WaitGroup
	for _, tracker := range trackers {
		wait.Go(func() {
			obj := stored(t, `{"set":["a"]}`)
			tracker.Update(&unstructured.Unstructured{Object: map[string]any{}}, obj, "m")
			if _, err := tracker.Apply(obj, widget(t, `{"set":["b"]}`), "n", false); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if n := reads.Load(); n != 1 {
		t.Errorf("the schema was read %d times", n)
	}
}

// TestSchemaMalformed has schemas that say nothing: all but objects moves as a whole.
func TestSchemaMalformed(t *testing.T) {
	deep := func(n int, inner, outer string) string {
		return strings.Repeat(inner, n) + "{}" + strings.Repeat(outer, n)
	}
	const most = 500 // with the schema itself and the innermost one
	for _, test := range []struct {
		schema string
		read   bool
	}{
		{`null`, false},
		{`{"type":1}`, false},
		{`{"type":"map"}`, false},
		{`{"type":"object","properties":[]}`, false},
		{`{"type":"object","properties":{"spec":"x"}}`, false},
		{`{"type":"object","properties":{"spec":{"$ref":"#/x"}}}`, false},
		{`{"type":"object","properties":{"spec":{"type":"array"}}}`, false},
		{`{"type":"object","properties":{"spec":{"type":"array","items":[{}]}}}`, false},
		{`{"type":"object","properties":{"spec":{"type":"array","items":{},"x-kubernetes-list-type":"bag"}}}`, false},
		{`{"type":"object","properties":{"spec":{"type":"array","items":{},"x-kubernetes-list-type":"map"}}}`, false},
		{`{"type":"object","properties":{"spec":{"type":"array","items":{},"x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":[]}}}`, false},
		{`{"type":"object","properties":{"spec":{"type":"array","items":{},"x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":[1]}}}`, false},
		{`{"type":"object","x-kubernetes-map-type":"set"}`, false},
		{`{"type":"object","additionalProperties":1}`, false},
		{`{"type":"object","x-kubernetes-preserve-unknown-fields":"true"}`, false},
		{deep(most-1, `{"type":"object","properties":{"a":`, `}}`), true},
		{deep(most, `{"type":"object","properties":{"a":`, `}}`), false},
		{deep(most-1, `{"items":`, `}`), true},
		{deep(most, `{"items":`, `}`), false},
		{deep(most, `{"additionalProperties":`, `}`), false},
		{`{"type":"object","properties":{"a":{}}}`, true},
		{`{"type":"object","properties":{"a":{},"metadata":1,"kind":{"type":"integer"}}}`, true},
	} {
		kind := managedfields.Kind{Versions: []managedfields.Version{{
			GroupVersionKind: customGVK(0), Schema: managedfields.NewOpenAPI(func() map[string]any { return fromJSON(t, test.schema) }),
			New: func() managedfields.Object { return &unstructured.Unstructured{Object: map[string]any{}} },
		}}}
		tracker := managedfields.New(&managedfields.Schema{}, kind, managedfields.Endpoint{Version: customGVK(0).GroupVersion()})
		config := widget(t, `{}`)
		delete(config.Object, "spec")
		config.SetFinalizers([]string{"a"}) // a set, if objects are known
		got, err := tracker.Apply(&unstructured.Unstructured{Object: map[string]any{}}, config, "m", false)
		if err != nil {
			t.Errorf("%.100s: %v", test.schema, err)
			continue
		}
		if read := strings.Contains(got.GetManagedFields()[0].FieldsV1.GetRawString(), `v:\"a\"`); read != test.read {
			t.Errorf("%.100s: it says something: %v, want %v", test.schema, read, test.read)
		}
	}
}

// TestConversionFails has conversions that fail: to the version of a manager, of the endpoint, and to what is stored.
func TestConversionFails(t *testing.T) {
	synctest.Test(t, testConversionFails) // upstream and the tracker note the same time
}

func testConversionFails(t *testing.T) {
	c := newCustom(t, fromJSON(t, widgetSchema), fromJSON(t, widgetSchema))
	first, second := c.endpoint(t, 0, ""), c.endpoint(t, 1, "")
	config := widget(t, `{"set":["a"]}`)
	config.SetAPIVersion("example.com/v2")
	live, err := second.apply(t, stored(t, "{}"), config, "one", false)
	if err != nil {
		t.Fatal(err)
	}
	live.SetUID("u")
	broken := errors.New("broken")
	c.fail = func(to string) error {
		if to == "v2" {
			return broken
		}
		return nil
	}
	if _, err := first.apply(t, live, widget(t, `{"set":["b"]}`), "two", false); !errors.Is(err, broken) || err.Error() != "broken" {
		t.Errorf("apply beside a manager of a version that is not to be had: %v", err)
	}
	obj := live.DeepCopy()
	obj.Object["spec"] = map[string]any{"n": int64(1)}
	if obj, err = first.update(t, live, obj, "two"); err == nil || mustJSON(obj.GetManagedFields()) != mustJSON(live.GetManagedFields()) {
		t.Errorf("update beside a manager of a version that is not to be had: %v, %v", err, obj)
	}
	calls := 0
	c.fail = func(string) error {
		if calls++; calls == 2 { // the first one was of the live object
			return broken
		}
		return nil
	}
	obj = live.DeepCopy()
	obj.Object["spec"] = map[string]any{"n": int64(1)}
	first.tracker.Update(live, obj, "two")
	if calls != 2 || mustJSON(obj.GetManagedFields()) != mustJSON(live.GetManagedFields()) {
		t.Errorf("update to what cannot be converted, after %d conversions: %v", calls, obj)
	}
	c.fail = func(to string) error {
		if to == "v2" {
			return broken
		}
		return nil
	}
	if _, err := second.tracker.Apply(live, config.DeepCopy(), "two", false); !errors.Is(err, broken) || err.Error() != "broken" {
		t.Errorf("apply to what is not to be had in the version: %v", err)
	}
	c.fail = func(to string) error {
		if to == "v1" {
			return broken
		}
		return nil
	}
	config.Object["spec"] = map[string]any{"set": []any{"c"}}
	if _, err := second.tracker.Apply(live, config, "two", false); !errors.Is(err, broken) || err.Error() != "broken" {
		t.Errorf("apply of what cannot be stored: %v", err)
	}
}

// Who owns fields in a version that there is not is forgotten.
func TestSchemaVersionGone(t *testing.T) {
	synctest.Test(t, testSchemaVersionGone) // upstream and the tracker note the same time
}

func testSchemaVersionGone(t *testing.T) {
	old, now := newCustom(t, fromJSON(t, widgetSchema), fromJSON(t, widgetSchema)), newCustom(t, fromJSON(t, widgetSchema))
	config := widget(t, `{"set":["a"]}`)
	config.SetAPIVersion("example.com/v2")
	live, err := old.endpoint(t, 1, "").apply(t, stored(t, "{}"), config, "one", false)
	if err != nil {
		t.Fatal(err)
	}
	live.SetUID("u")
	e := now.endpoint(t, 0, "")
	obj, err := e.apply(t, live, widget(t, `{"set":["b"]}`), "two", false)
	if err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(obj.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool { return e.Manager == "one" }) {
		t.Errorf("after an apply: %v", obj.GetManagedFields())
	}
	obj = live.DeepCopy()
	obj.Object["spec"] = map[string]any{"n": int64(1)}
	if obj, err = e.update(t, live, obj, "two"); err != nil || len(obj.GetManagedFields()) != 1 || obj.GetManagedFields()[0].Manager != "two" {
		t.Errorf("after an update: %v, %v", obj.GetManagedFields(), err)
	}
}
