package registrytest

import (
	"context"
	"fmt"
	"math/rand"
	"reflect"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/randfill"

	"github.com/keelson-dev/keelson/registry"
)

// rounds is how many random objects are tried per kind.
const rounds = 100

// Kinds fails the test if one of the kinds breaks the contract of a registry, or if two of them conflict. Its
// random objects are the same in every run.
func Kinds(t *testing.T, kinds []registry.Kind) {
	t.Helper()
	t.Run("Names", func(t *testing.T) { testNames(t, kinds) })
	for _, k := range kinds {
		if k.Answer != nil {
			continue
		}
		t.Run(k.Names.Kind, func(t *testing.T) {
			testTypes(t, k)
			fill := filler(int64(len(k.Plural)))
			for range rounds {
				testDefaults(t, k, fill)
				testCreate(t, k, fill)
				testUpdate(t, k, fill)
				testVersions(t, k, fill)
				testColumns(t, k, fill)
				if t.Failed() {
					return
				}
			}
		})
	}
}

func testNames(t *testing.T, kinds []registry.Kind) {
	seen := map[string]string{}
	once := func(what, value, owner string) {
		if other, twice := seen[what+value]; twice {
			t.Errorf("%s and %s have the same %s %q", other, owner, what, value)
		}
		seen[what+value] = owner
	}
	for _, k := range kinds {
		resource := k.GroupResource().String()
		if k.Names.Kind == "" || k.Plural == "" || k.Singular == "" || k.GroupVersion.Version == "" {
			t.Errorf("a kind lacks a name or version: %+v %s", k.Names, k.GroupVersion)
		}
		if k.Plural != strings.ToLower(k.Plural) || k.Singular != strings.ToLower(k.Singular) {
			t.Errorf("%s: resource names must be in lower case", resource)
		}
		once("resource", resource, resource)
		once("kind", k.GroupVersion.WithKind(k.Names.Kind).String(), resource)
		for _, short := range k.Short {
			once("short name", short, resource)
		}
		for _, v := range k.Also {
			once("kind", v.GroupVersion.WithKind(v.Names.Kind).String(), resource)
		}
		if k.Answer == nil {
			once("prefix", k.Prefix+"/", resource)
		}
	}
}

// testTypes checks that New returns new objects, and that lists have items of their type.
func testTypes(t *testing.T, k registry.Kind) {
	type version struct {
		of      string
		newObj  func() registry.Object
		newList func() runtime.Object
	}
	versions := []version{{k.GroupVersion.String(), k.New, k.NewList}}
	for _, v := range k.Also {
		versions = append(versions, version{v.GroupVersion.String(), v.New, v.NewList})
	}
	for _, v := range versions {
		obj, list := v.newObj(), v.newList()
		if reflect.ValueOf(obj).Pointer() == reflect.ValueOf(v.newObj()).Pointer() {
			t.Errorf("%s: New returns one object twice", v.of)
		}
		if err := meta.SetList(list, []runtime.Object{obj}); err != nil {
			t.Errorf("%s: %T is not a list of %T: %v", v.of, list, obj, err)
		}
	}
}

func testDefaults(t *testing.T, k registry.Kind, fill *randfill.Filler) {
	if k.Rules.Default == nil {
		return
	}
	obj := random(k.New, fill)
	k.Rules.Default(obj)
	once := obj.DeepCopyObject()
	k.Rules.Default(obj)
	same(t, "Default twice", obj, once)
}

// testCreate checks that validation changes nothing, and that the set of selectable fields never varies.
func testCreate(t *testing.T, k registry.Kind, fill *randfill.Filler) {
	obj := stored(k, fill)
	before := obj.DeepCopyObject()
	if k.Rules.Validate != nil {
		_ = k.Rules.Validate(obj).ToAggregate()
	}
	if k.Rules.ValidateName != nil {
		k.Rules.ValidateName(obj.GetName(), false)
		k.Rules.ValidateName(obj.GetName(), true)
	}
	if k.Fields != nil {
		empty := k.Fields(k.New())
		for label := range k.Fields(obj) {
			if !empty.Has(label) {
				t.Errorf("Fields has %s for some objects only", label)
			}
		}
	}
	if k.Rules.Deletion.Grace != nil {
		k.Rules.Deletion.Grace(obj, nil)
	}
	if k.Rules.Deletion.Held != nil {
		k.Rules.Deletion.Held(obj)
	}
	if s := k.Sub.Scale; s != nil {
		s.Status(obj)
		if n := s.Spec(obj); n < 0 {
			return
		}
	}
	same(t, "validated", obj, before)
	if k.Rules.Deletion.Begin != nil {
		k.Rules.Deletion.Begin(obj)
	}
	if s := k.Sub.Scale; s != nil {
		if s.Set(obj, 7); s.Spec(obj) != 7 {
			t.Errorf("Scale.Set sets %d instead of 7", s.Spec(obj))
		}
	}
}

// testUpdate checks that the old object stays unchanged, and shares nothing with the new one.
func testUpdate(t *testing.T, k registry.Kind, fill *randfill.Filler) {
	views := map[string]registry.View[registry.Object]{
		"": {PrepareUpdate: k.Rules.PrepareUpdate, ValidateUpdate: k.Rules.ValidateUpdate},
	}
	for name, view := range k.Sub.Views {
		views[name] = view
	}
	old := stored(k, fill)
	next := random(k.New, fill)
	if k.Rules.Default != nil {
		k.Rules.Default(next)
	}
	for name, view := range views {
		obj, was := next.DeepCopyObject().(registry.Object), old.DeepCopyObject()
		if view.PrepareUpdate != nil {
			view.PrepareUpdate(context.Background(), obj, old)
		}
		prepared := obj.DeepCopyObject()
		if view.ValidateUpdate != nil {
			_ = view.ValidateUpdate(obj, old).ToAggregate()
		}
		same(t, fmt.Sprintf("object validated in update %q", name), obj, prepared)
		same(t, fmt.Sprintf("old object in update %q", name), old, was)
		overwrite(reflect.ValueOf(obj))
		same(t, fmt.Sprintf("old object after changing the new one of update %q", name), old, was)
	}
}

// testVersions checks that conversions lose nothing and do not change their arguments.
func testVersions(t *testing.T, k registry.Kind, fill *randfill.Filler) {
	for _, v := range k.Also {
		served := random(v.New, fill)
		was := served.DeepCopyObject()
		obj := convert(t, v.ToStored, served)
		same(t, "converted "+v.GroupVersion.String(), convert(t, v.FromStored, obj), was)
		overwrite(reflect.ValueOf(obj))
		same(t, "argument of ToStored", served, was)

		obj = random(k.New, fill)
		was = obj.DeepCopyObject()
		served = convert(t, v.FromStored, obj)
		overwrite(reflect.ValueOf(served))
		same(t, "argument of FromStored", obj, was)

		if v.Rules != nil {
			obj, old := stored(k, fill), stored(k, fill)
			if v.Rules.Validate != nil {
				_ = v.Rules.Validate(obj).ToAggregate()
			}
			if v.Rules.ValidateUpdate != nil {
				_ = v.Rules.ValidateUpdate(obj, old).ToAggregate()
			}
		}
		if v.FieldLabel != nil {
			v.FieldLabel("metadata.name")
		}
	}
}

func convert(t *testing.T, conversion func(context.Context, registry.Object) (registry.Object, error), obj registry.Object) registry.Object {
	t.Helper()
	out, err := conversion(t.Context(), obj)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// testColumns checks that there is a cell for each column, and that it depends on the object and the time only.
func testColumns(t *testing.T, k registry.Kind, fill *randfill.Filler) {
	if k.Columns.Cells == nil {
		return
	}
	obj := stored(k, fill)
	before := obj.DeepCopyObject()
	now := time.Unix(1e9, 0)
	cells := k.Columns.Cells(obj, now)
	if len(cells) != len(k.Columns.Definitions) {
		t.Errorf("Columns has %d cells for %d definitions", len(cells), len(k.Columns.Definitions))
	}
	for i, cell := range cells {
		switch cell.(type) {
		case string, bool, int64, float64, nil:
		default:
			t.Errorf("cell %d is a %T: neither a string, an int64, a float64 nor a bool", i, cell)
		}
	}
	if again := k.Columns.Cells(obj, now); !reflect.DeepEqual(again, cells) {
		t.Errorf("the same object has cells %v, then %v", cells, again)
	}
	if k.Columns.Conditions != nil {
		k.Columns.Conditions(obj)
	}
	same(t, "printed", obj, before)
}

// stored returns a random object as a create would leave it.
func stored(k registry.Kind, fill *randfill.Filler) registry.Object {
	obj := random(k.New, fill)
	if k.Rules.Default != nil {
		k.Rules.Default(obj)
	}
	if k.Rules.PrepareCreate != nil {
		k.Rules.PrepareCreate(context.Background(), obj)
	}
	return obj
}

func random(newObj func() registry.Object, fill *randfill.Filler) registry.Object {
	obj := newObj()
	fill.Fill(obj)
	return obj
}

func same(t *testing.T, what string, got, want runtime.Object) {
	t.Helper()
	if !equality.Semantic.DeepEqual(got, want) {
		t.Errorf("%s differs:\n got %+v\nwant %+v", what, got, want)
	}
}

func filler(seed int64) *randfill.Filler {
	return randfill.New().RandSource(rand.NewSource(seed)).NilChance(.3).NumElements(0, 2).MaxDepth(14).Funcs(fillers()...)
}
