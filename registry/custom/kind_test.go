package custom_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/custom"
	"github.com/keelson-dev/keelson/storage/memory"
)

func kindOf(t *testing.T, versions string) registry.Kind {
	t.Helper()
	r, err := custom.New(parse(t, versions), custom.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r.Kind()
}

// serve runs a registry with the kind until the test ends, or stop is called.
func serve(t *testing.T, store *memory.Store, k registry.Kind) (resource *registry.Resource, stop func()) {
	t.Helper()
	r, err := registry.New(store, []registry.Kind{k}, registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	if err := r.WaitSynced(ctx); err != nil {
		t.Fatal(err)
	}
	resource, _ = r.Resource(schema.GroupResource{Group: "example.com", Resource: "widgets"})
	return resource, stop
}

// received returns an object as a server decodes it.
func received(t *testing.T, k registry.Kind, fields string) registry.Object {
	t.Helper()
	obj := k.New()
	u := widget(t, fields)
	u.SetResourceVersion("")
	if _, err := k.Decode([]byte(jsonOf(t, u)), obj); err != nil {
		t.Fatal(err)
	}
	return obj
}

const served = `- {name: v1, served: true, storage: true, subresources: {status: {}, scale: {specReplicasPath: .spec.size, statusReplicasPath: .status.size}}, selectableFields: [{jsonPath: .spec.size}],
  schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer, minimum: 0, default: 1}, max: {type: integer}}, x-kubernetes-validations: [{rule: '!has(self.max) || self.size <= self.max'}]}, status: {type: object, properties: {size: {type: integer}}}}}}}`

// TestKind stores objects of the kind, changes them and reads them again.
func TestKind(t *testing.T) {
	k := kindOf(t, served)
	if k.Prefix != "example.com/widgets" || !k.Namespaced || k.GroupVersion.String() != "example.com/v1" || k.Names.Kind != "Widget" || k.Plural != "widgets" || k.Singular != "widget" ||
		!k.Rules.ConditionalUpdate || !k.Rules.AnyFinalizer || k.Rules.CreateOnUpdate || !slices.Equal(k.Sub.Views["status"].Resets, []string{"metadata", "spec"}) {
		t.Errorf("the kind is %+v", k)
	}
	store := memory.New(memory.Options{})
	resource, stop := serve(t, store, k)
	ctx := t.Context()

	if _, err := resource.Create(ctx, received(t, k, "spec: {size: 2, max: 1}"), registry.CreateOptions{}); !errors.Is(err, registry.ErrInvalid) {
		t.Errorf("an invalid object: %v", err)
	}
	if _, err := resource.Create(ctx, received(t, k, "spec: {max: 5, bogus: 1}\nstatus: {size: 3}"), registry.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	item, err := resource.Get(ctx, "ns", "w", "")
	if err != nil {
		t.Fatal(err)
	}
	created := item.Object.(object)
	if jsonOf(t, created.Object["spec"]) != `{"max":5,"size":1}` || created.Object["status"] != nil || created.GetGeneration() != 1 || len(created.Object) != 2 {
		t.Errorf("created as %v", created.Object)
	}
	record, err := store.Get(ctx, registry.Root+"example.com/widgets/ns/w")
	if err != nil {
		t.Fatal(err)
	}
	var kept unstructured.Unstructured
	if err := kept.UnmarshalJSON(record.Value); err != nil || kept.GetKind() != "Widget" || kept.GetAPIVersion() != "example.com/v1" {
		t.Errorf("stored as %s", record.Value)
	}

	change := func(view string, to func(u object)) (object, error) {
		item, _, err := resource.Update(ctx, "ns", "w", func(_ context.Context, current registry.Object) (registry.Object, error) {
			next := current.DeepCopyObject().(object)
			to(next)
			return next, nil
		}, registry.UpdateOptions{View: view})
		if err != nil {
			return nil, err
		}
		return item.Object.(object), nil
	}
	u, err := change("", func(u object) {
		u.Object["spec"].(map[string]any)["size"] = int64(4)
		u.Object["status"] = map[string]any{}
	})
	if err != nil || u.GetGeneration() != 2 || u.Object["status"] != nil {
		t.Errorf("updated to %v, %v", u, err)
	}
	if u, err = change("", func(u object) { u.Object["spec"].(map[string]any)["size"] = int64(6) }); !errors.Is(err, registry.ErrInvalid) {
		t.Errorf("an invalid update: %v %v", u, err)
	}
	u, err = change("status", func(u object) { u.Object["spec"] = nil; u.Object["status"] = map[string]any{"size": int64(3)} })
	if err != nil || u.GetGeneration() != 2 || jsonOf(t, u.Object["spec"]) != `{"max":5,"size":4}` {
		t.Errorf("status updated to %v, %v", u, err)
	}
	if u, err = change("status", func(u object) { u.Object["status"] = map[string]any{"size": "x"} }); !errors.Is(err, registry.ErrInvalid) {
		t.Errorf("an invalid status: %v %v", u, err)
	}

	stop()
	resource, _ = serve(t, store, k)
	item, err = resource.Get(ctx, "ns", "w", "")
	if err != nil {
		t.Fatal(err)
	}
	read := item.Object.(object)
	if jsonOf(t, read.Object["status"]) != `{"size":3}` || len(read.Object) != 3 {
		t.Errorf("read as %v", read.Object)
	}
	s := registry.NewScale(*k.Sub.Scale, registry.Object(read))
	if s.Spec.Replicas != 4 || s.Status.Replicas != 3 {
		t.Errorf("scale %+v", s)
	}
	if k.Sub.Scale.Set(read, 7); k.Fields(read).String() != "spec.size=7" {
		t.Errorf("fields %v", k.Fields(read))
	}
}

// TestKindScale: an object without replicas has none.
func TestKindScale(t *testing.T) {
	k := kindOf(t, served)
	if n, selector := k.Sub.Scale.Status(received(t, k, "status: {size: 3}")); n != 3 || selector != "" {
		t.Errorf("%d replicas of %q", n, selector)
	}
	if n, _ := k.Sub.Scale.Status(widget(t, "status: {size: x}")); n != 0 {
		t.Errorf("%d replicas", n)
	}
	if !k.Sub.Scale.Validated {
		t.Error("replicas are not validated")
	}
	if err := k.Sub.Scale.Readable(received(t, k, "spec: {}")); err != nil {
		t.Errorf("not readable: %v", err)
	}
	if err := k.Sub.Scale.Readable(widget(t, "")); !errors.Is(err, custom.ErrNoReplicas) {
		t.Errorf("without replicas: %v", err)
	}
	none := kindOf(t, `- {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}`)
	if none.Sub.Scale != nil || none.Sub.Views != nil {
		t.Errorf("subresources %+v", none.Sub)
	}
}

// TestKindMetadata: metadata is the registry's to validate; of updates upstream tells twice.
func TestKindMetadata(t *testing.T) {
	k := kindOf(t, served)
	obj, old := received(t, k, ""), received(t, k, "")
	obj.SetName("A")
	equal(t, k.Rules.Validate(obj), nil)
	obj.SetResourceVersion("1")
	equal(t, k.Rules.ValidateUpdate(obj, old), []string{`metadata.name: Invalid value: "A": field is immutable`})
	equal(t, k.Sub.Views["status"].ValidateUpdate(obj, old), []string{`metadata.name: Invalid value: "A": field is immutable`})
}

// TestKindRulesWait: rules are not asked about an object whose metadata the registry will refuse, as upstream's are not.
func TestKindRulesWait(t *testing.T) {
	k := kindOf(t, served)
	obj := received(t, k, "spec: {size: 2, max: 1}")
	obj.SetName("")
	if errs := k.Rules.Validate(obj); len(errs) != 1 || !strings.Contains(errs[0].Detail, "some validation rules were not checked") {
		t.Errorf("without a name: %v", errs)
	}
	obj.SetName("x")
	if errs := k.Rules.Validate(obj); len(errs) != 1 || !strings.Contains(errs[0].Detail, "failed rule") {
		t.Errorf("with a name: %v", errs)
	}
}

// TestKindRatchets: rules warn of what an update leaves as it was, as upstream's do.
func TestKindRatchets(t *testing.T) {
	k := kindOf(t, served)
	var got []string
	ctx := registry.WithWarnings(context.Background(), func(text string) { got = append(got, text) })
	obj, old := received(t, k, "spec: {size: 2, max: 1}"), received(t, k, "spec: {size: 2, max: 1}")
	obj.SetResourceVersion("1")
	for _, view := range []string{"", "status"} {
		got = nil
		if errs := k.ValidateUpdate(ctx, view, obj, old); len(errs) > 0 || len(got) != 1 || !strings.Contains(got[0], "spec: Invalid value") || !strings.Contains(got[0], "failed rule") {
			t.Errorf("view %q: %v, warnings %q", view, errs, got)
		}
	}
	got = nil
	changed := received(t, k, "spec: {size: 3, max: 1}")
	changed.SetResourceVersion("1")
	if errs := k.ValidateUpdate(ctx, "", changed, old); len(errs) != 1 || len(got) > 0 {
		t.Errorf("what changes: %v, warnings %q", errs, got)
	}
}

// TestKindStatus: an update of the status is judged by the schema of the status alone.
func TestKindStatus(t *testing.T) {
	k := kindOf(t, served)
	obj, old := received(t, k, "spec: {size: 1}"), received(t, k, "")
	obj.(object).Object["spec"] = map[string]any{"size": int64(-1)}
	obj.SetResourceVersion("1")
	equal(t, k.ValidateUpdate(t.Context(), "status", obj, old), nil)
	equal(t, k.ValidateUpdate(t.Context(), "", obj, old), []string{
		".spec.size: Invalid value: -1: should be a non-negative integer",
		"spec.size: Invalid value: -1: spec.size in body should be greater than or equal to 0",
	})
}

// TestKindNumbers: when an object is stored, its numbers are what will be read, wherever they are.
func TestKindNumbers(t *testing.T) {
	k := kindOf(t, `- {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}`)
	for _, number := range []string{"1e2", "-3.0", "1.5", "1e300", "9223372036854775807", "9.3e18", "-9223372036854775808.0", "-9.3e18", "0.0"} {
		for _, value := range []string{"N", "[N]", "[[0, N]]", `{"a": N}`, `[{"a": N}]`, `{"a": [N]}`} {
			data := []byte(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w","generation":1},"f":` + strings.ReplaceAll(value, "N", number) + `}`)
			obj := k.New()
			if _, err := k.Decode(data, obj); err != nil {
				t.Fatal(err)
			}
			k.Rules.Store(obj)
			sent := obj.DeepCopyObject().(object)
			sent.SetAPIVersion("example.com/v1")
			sent.SetKind("Widget")
			read, err := k.DecodeStored([]byte(jsonOf(t, sent)))
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(obj, read) {
				t.Errorf("%s was stored as %#v and read as %#v", data, obj.(object).Object["f"], read.(object).Object["f"])
			}
		}
	}
}

func TestKindWarns(t *testing.T) {
	k := kindOf(t, served)
	var got []string
	ctx := registry.WithWarnings(context.Background(), func(text string) { got = append(got, text) })
	u := widget(t, "")
	u.SetFinalizers([]string{"x"})
	if err := k.Rules.Guard(ctx, u, nil); err != nil || len(got) != 1 {
		t.Errorf("%q %v", got, err)
	}
	if err := k.Rules.Guard(ctx, u, u); err != nil || len(got) != 1 {
		t.Errorf("%q %v", got, err)
	}
}

// TestKindVersions: objects are stored in one version and served in all, under the rules of each.
func TestKindVersions(t *testing.T) {
	k := kindOf(t, `- {name: v1, served: true, storage: true, deprecated: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {a: {type: integer}, b: {type: integer, default: 7}}}}}}}
- {name: v2, served: true, storage: false, selectableFields: [{jsonPath: .spec.a}], schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {a: {type: integer, minimum: 5}, c: {type: integer, default: 8}}}}}}}
- {name: v0, served: false, storage: false, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {a: {type: integer, default: 9}}}}}}}`)
	if len(k.Also) != 1 || k.Warning != "example.com/v1 Widget is deprecated; use example.com/v2 Widget" || k.Also[0].Warning != "" {
		t.Fatalf("%d further versions, warning %q", len(k.Also), k.Warning)
	}
	ctx, v2 := t.Context(), k.Also[0]
	obj := received(t, k, "spec: {a: 1}")
	was := jsonOf(t, obj)
	if got, err := v2.FromStored(ctx, obj); err != nil || jsonOf(t, got.(object).Object["spec"]) != `{"a":1}` || len(got.(object).Object) != 2 || jsonOf(t, obj) != was {
		t.Errorf("converted to %v, %v, argument %v", got, err, obj)
	}
	sent := widget(t, "spec: {a: 1, b: 2}")
	sent.SetAPIVersion("example.com/v2")
	into := v2.New()
	strict, err := v2.Decode([]byte(jsonOf(t, sent)), into)
	if err != nil || len(strict) != 1 || strict[0].Error() != `unknown field "spec.b"` || jsonOf(t, into.(object).Object["spec"]) != `{"a":1,"c":8}` || len(into.(object).Object) != 2 {
		t.Errorf("decoded as %v, %q, %v", into, strict, err)
	}
	was = jsonOf(t, into)
	stored, err := v2.ToStored(ctx, into)
	if err != nil || jsonOf(t, stored) != was || jsonOf(t, into) != was {
		t.Errorf("stored as %v, %v, argument %v", stored, err, into)
	}
	refused := []string{"spec.a: Invalid value: 1: spec.a in body should be greater than or equal to 5"}
	equal(t, v2.Rules.Validate(stored), refused)
	equal(t, k.Rules.Validate(stored), nil)
	equal(t, v2.Rules.ValidateUpdate(stored, received(t, k, "spec: {a: 2}")), refused)
	equal(t, v2.Rules.ValidateUpdate(stored, stored), nil)
	if v2.Rules.Store(stored); jsonOf(t, stored.(object).Object["spec"]) != `{"a":1,"b":7}` || len(stored.(object).Object) != 2 {
		t.Errorf("kept as %v", stored)
	}
	if label, ok := v2.FieldLabel("spec.a"); !ok || label != "spec.a" {
		t.Errorf("label %q %t", label, ok)
	}
	for _, label := range []func(string) (string, bool){v2.FieldLabel, k.FieldLabel} {
		if _, ok := label("spec.b"); ok {
			t.Error("spec.b is selectable")
		}
	}
	if _, ok := k.FieldLabel("spec.a"); ok {
		t.Error("spec.a is selectable in v1")
	}
	if got := k.Fields(obj).String(); got != "spec.a=1" {
		t.Errorf("fields %s", got)
	}

	store := memory.New(memory.Options{})
	for name, record := range map[string]string{
		"a": `{"apiVersion":"example.com/v0","kind":"Widget","metadata":{"name":"a","namespace":"ns"},"spec":{}}`,
		"b": `{"apiVersion":"example.com/v2","kind":"Widget","metadata":{"name":"b","namespace":"ns"},"spec":{"b":1}}`,
		"c": `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"c","namespace":"ns","labels":{"a":1}},"spec":{"x":1}}`,
	} {
		if _, err := store.Create(t.Context(), registry.Root+"example.com/widgets/ns/"+name, []byte(record)); err != nil {
			t.Fatal(err)
		}
	}
	resource, _ := serve(t, store, k)
	for name, want := range map[string]string{"a": `{"a":9}`, "b": `{}`, "c": `{"b":7}`} {
		item, err := resource.Get(t.Context(), "ns", name, "")
		if err != nil {
			t.Fatal(err)
		}
		if got := item.Object.(object); jsonOf(t, got.Object["spec"]) != want || got.GetGeneration() != 1 || len(got.Object) != 2 {
			t.Errorf("%s: read as %v, want %s", name, got.Object, want)
		}
	}
}

// TestUnserved: what is stored in a version that is not served is served in the others, lists under their own name.
func TestUnserved(t *testing.T) {
	crd := parse(t, `- {name: v1, served: false, storage: true, schema: {openAPIV3Schema: {type: object}}}
- {name: v2, served: true, storage: false, deprecated: true, deprecationWarning: old, additionalPrinterColumns: [{name: Name, type: string, jsonPath: .metadata.name}], subresources: {status: {}}, schema: {openAPIV3Schema: {type: object}}}`)
	crd.Spec.Names.ListKind = "Widgets"
	r, err := custom.New(crd, custom.Options{})
	if err != nil {
		t.Fatal(err)
	}
	resource, _ := serve(t, memory.New(memory.Options{}), r.Kind())
	all := resource.Versions()
	if len(all) != 1 || all[0].GroupVersion.Version != "v2" || all[0].ListKind() != "Widgets" || all[0].Warning != "old" || len(all[0].Columns.Definitions) != 2 || all[0].Sub.Views == nil || resource.Sub.Views != nil {
		t.Fatalf("served %+v", all)
	}
	if all[0].Storage() != resource || !resource.Unserved {
		t.Error("v1 is served")
	}
}

const hook = "conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {url: 'https://x.example'}}}\nversions:\n"

// TestKindConverts: where a webhook converts, objects are stored in one version, and each version has its own rules, columns,
// fields and scale.
func TestKindConverts(t *testing.T) {
	crd := parseSpec(t, hook+`
- {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}}}}}}}
- {name: v2, served: true, storage: false, selectableFields: [{jsonPath: .spec.length}], additionalPrinterColumns: [{name: Length, type: string, jsonPath: .spec.length}],
  subresources: {scale: {specReplicasPath: .spec.count, statusReplicasPath: .status.count}},
  schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {length: {type: string, maxLength: 3}, count: {type: integer}}}, status: {type: object, properties: {count: {type: integer}}}}}}}`)
	fail := errors.New("down")
	var down error
	converter := func(_ context.Context, objs []*unstructured.Unstructured, to schema.GroupVersion) ([]*unstructured.Unstructured, error) {
		for _, obj := range objs {
			spec := obj.Object["spec"].(map[string]any)
			if to.Version == "v2" {
				obj.Object["spec"] = map[string]any{"length": fmt.Sprint(spec["size"]), "count": spec["size"]}
			} else {
				n, err := strconv.ParseInt(spec["length"].(string), 10, 64)
				if err != nil {
					return nil, err
				}
				if m, ok := spec["count"].(int64); ok {
					n = m
				}
				obj.Object["spec"] = map[string]any{"size": n}
			}
			obj.SetAPIVersion(to.String())
		}
		return objs, down
	}
	r, err := custom.New(crd, custom.Options{Converter: custom.ConverterFunc(converter)})
	if err != nil {
		t.Fatal(err)
	}
	resource, _ := serve(t, memory.New(memory.Options{}), r.Kind())
	ctx, v2 := t.Context(), resource.Versions()[1]
	send := func(spec string) (registry.Object, error) {
		u, into := widget(t, spec), v2.New()
		u.SetAPIVersion("example.com/v2")
		u.SetResourceVersion("")
		if _, err := v2.Decode([]byte(jsonOf(t, u)), into); err != nil {
			t.Fatal(err)
		}
		return v2.ToStored(ctx, into)
	}
	stored, err := send("spec: {length: '12'}")
	if err != nil || jsonOf(t, stored.(object).Object["spec"]) != `{"size":12}` {
		t.Fatalf("converted to %v, %v", stored, err)
	}
	item, err := v2.Create(ctx, stored, registry.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	long, err := send("spec: {length: '1234'}")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v2.Create(ctx, long, registry.CreateOptions{}); !errors.Is(err, registry.ErrInvalid) || !strings.Contains(err.Error(), "spec.length: Too long") {
		t.Errorf("an object that is invalid in v2: %v", err)
	}
	shown, err := v2.FromStored(ctx, item.Object)
	if err != nil || jsonOf(t, shown.(object).Object["spec"]) != `{"count":12,"length":"12"}` {
		t.Errorf("shown as %v, %v", shown, err)
	}
	if cells := v2.Columns.Cells(shown, time.Time{}); !v2.ShowsVersion() || len(cells) != 2 || cells[1] != "12" {
		t.Errorf("cells %v", cells)
	}
	label, ok := v2.FieldLabel("spec.length")
	if got := v2.Fields(item.Object); !ok || got[label] != "12" {
		t.Errorf("label %s, fields %v", label, got)
	}
	scaled := item.Object.DeepCopyObject().(registry.Object)
	if v2.Sub.Scale.Set(scaled, 5); v2.Sub.Scale.Spec(scaled) != 5 || jsonOf(t, scaled.(object).Object["spec"]) != `{"size":5}` {
		t.Errorf("scaled to %v", scaled)
	}
	down = fail
	if _, err := v2.FromStored(ctx, item.Object); !errors.Is(err, fail) {
		t.Errorf("without the webhook: %v", err)
	}
	if _, err := send("spec: {length: '1'}"); !errors.Is(err, fail) {
		t.Errorf("without the webhook: %v", err)
	}
	if all, err := r.Kind().Also[0].AllFromStored(ctx, []registry.Object{item.Object}); !errors.Is(err, fail) || all != nil {
		t.Errorf("without the webhook: %v, %v", all, err)
	}
	if err := v2.Sub.Scale.Readable(item.Object); !errors.Is(err, fail) {
		t.Errorf("without the webhook: %v", err)
	}
	equal(t, v2.Rules.Validate(item.Object), []string{"<nil>: Internal error: conversion webhook for example.com/v1, Kind=Widget failed: down"})
	if again, err := resource.FromStored(ctx, item.Object); err != nil || again != item.Object {
		t.Errorf("in its own version, without the webhook: %v, %v", again, err)
	}
}
