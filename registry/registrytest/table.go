package registrytest

import (
	"context"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/registry"
)

// Change is one case of a table: a change to a valid object, and the expected errors.
type Change[T registry.Object] struct {
	Name string
	// To changes the valid object, which in an update is a copy of the stored one.
	To func(obj T)
	// Refused lists the expected errors as a client reads them; empty means accepted.
	Refused []string
}

// Create tests changes in creates of a kind. good must be accepted unchanged.
func Create[T registry.Object](t *testing.T, k registry.Kind, good T, changes []Change[T]) {
	t.Helper()
	for _, change := range append([]Change[T]{{Name: "good", To: func(T) {}}}, changes...) {
		t.Run("create "+change.Name, func(t *testing.T) {
			obj := good.DeepCopyObject().(T)
			change.To(obj)
			var errs field.ErrorList
			Prepare(k, obj)
			if k.Rules.Validate != nil {
				errs = k.Rules.Validate(obj)
			}
			refused(t, errs, change.Refused)
		})
	}
}

// Update tests changes in updates of a stored object, or of the named view of it.
func Update[T registry.Object](t *testing.T, k registry.Kind, view string, stored T, changes []Change[T]) {
	t.Helper()
	for _, change := range append([]Change[T]{{Name: "nothing", To: func(T) {}}}, changes...) {
		t.Run(strings.TrimSpace("update "+view)+" "+change.Name, func(t *testing.T) {
			old := stored.DeepCopyObject().(T)
			if k.Rules.Default != nil {
				k.Rules.Default(old)
			}
			obj := old.DeepCopyObject().(T)
			change.To(obj)
			refused(t, Replace(k, view, obj, old), change.Refused)
		})
	}
}

// Prepare applies to obj the steps of a create that precede validation.
func Prepare(k registry.Kind, obj registry.Object) {
	if k.Rules.Default != nil {
		k.Rules.Default(obj)
	}
	if k.Rules.PrepareCreate != nil {
		k.Rules.PrepareCreate(context.Background(), obj)
	}
}

// Replace applies to obj the steps of an update of old, directly or by a view, and returns the validation
// errors.
func Replace(k registry.Kind, view string, obj, old registry.Object) field.ErrorList {
	if k.Rules.Default != nil {
		k.Rules.Default(obj)
	}
	rules := registry.View[registry.Object]{PrepareUpdate: k.Rules.PrepareUpdate, ValidateUpdate: k.Rules.ValidateUpdate}
	if view != "" {
		rules = k.Sub.Views[view]
	}
	obj.SetGeneration(old.GetGeneration())
	if rules.PrepareUpdate != nil {
		rules.PrepareUpdate(context.Background(), obj, old)
	}
	if rules.ValidateUpdate == nil {
		return nil
	}
	return rules.ValidateUpdate(obj, old)
}

// Find returns the kind with the given plural name.
func Find(t *testing.T, kinds []registry.Kind, plural string) registry.Kind {
	t.Helper()
	i := slices.IndexFunc(kinds, func(k registry.Kind) bool { return k.Plural == plural })
	if i < 0 {
		t.Fatalf("no kind %s", plural)
	}
	return kinds[i]
}

func refused(t *testing.T, errs field.ErrorList, want []string) {
	t.Helper()
	var got []string
	for _, e := range errs {
		if s := e.Error(); !slices.Contains(got, s) { // an update may validate a field twice
			got = append(got, s)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("refused with\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}
