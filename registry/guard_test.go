package registry_test

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/storage/memory"
)

// TestGuard: every write of an object passes its kind's Guard, which sees the object as it would be stored. A
// refused object is neither stored nor shown to admission. Writes of a subresource bypass it and pass the Guard of
// their view.
func TestGuard(t *testing.T) {
	refused := errors.New("refused")
	kind := registry.Definition[*corev1.ConfigMap]{
		Names:        registry.Names{Kind: "ConfigMap", Plural: "configmaps", Singular: "configmap"},
		GroupVersion: corev1.SchemeGroupVersion, Namespaced: true,
		New:     func() *corev1.ConfigMap { return &corev1.ConfigMap{} },
		NewList: func() runtime.Object { return &corev1.ConfigMapList{} },
		Rules: registry.Rules[*corev1.ConfigMap]{
			CreateOnUpdate: true,
			Guard: func(_ context.Context, obj, old *corev1.ConfigMap) error {
				if obj.Data["grants"] == "all" && (old == nil || old.Data["grants"] != "none") {
					return refused
				}
				if old != nil && old.Data["locked"] != "" {
					return refused
				}
				return nil
			},
		},
		Sub: registry.Subresources[*corev1.ConfigMap]{Views: map[string]registry.View[*corev1.ConfigMap]{"status": {}, "guarded": {
			Guard: func(_ context.Context, obj, old *corev1.ConfigMap) error {
				if obj.Data["name"] != old.Data["name"] {
					return refused
				}
				return nil
			},
		}}},
	}.Kind()
	res := openKind(t, memory.New(memory.Options{}), kind, registry.Options{})
	made := func(name string, data map[string]string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}, Data: data}
	}
	for _, data := range []map[string]string{{"name": "open"}, {"name": "locked", "locked": "yes"}} {
		if _, err := res.Create(t.Context(), made(data["name"], data), registry.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	all := map[string]string{"grants": "all"}
	admitted := false
	admit := func(context.Context, registry.Object, registry.Object) error { admitted = true; return nil }
	update := func(name string, data map[string]string, o registry.UpdateOptions) func() error {
		return func() error {
			o.Admit = admit
			_, _, err := res.Update(t.Context(), "a", name, func(_ context.Context, current registry.Object) (registry.Object, error) {
				if current == nil {
					return made(name, data), nil
				}
				next := current.DeepCopyObject().(*corev1.ConfigMap)
				next.Data = data
				return next, nil
			}, o)
			return err
		}
	}
	create := func(o registry.CreateOptions, obj *corev1.ConfigMap) func() error {
		return func() error {
			o.Admit = func(ctx context.Context, obj registry.Object) error { return admit(ctx, obj, nil) }
			_, err := res.Create(t.Context(), obj, o)
			return err
		}
	}
	unnamed := made("", all)
	unnamed.GenerateName = "new-"
	for name, tt := range map[string]struct {
		write   func() error
		refused bool
	}{
		"create":                   {create(registry.CreateOptions{}, made("new", all)), true},
		"create, generated name":   {create(registry.CreateOptions{}, unnamed), true},
		"create, dry":              {create(registry.CreateOptions{DryRun: true}, made("new", all)), true},
		"update that creates":      {update("new", all, registry.UpdateOptions{}), true},
		"patch that creates":       {update("new", all, registry.UpdateOptions{Patch: true, Create: true}), true},
		"update":                   {update("open", all, registry.UpdateOptions{}), true},
		"update, dry":              {update("open", all, registry.UpdateOptions{DryRun: true}), true},
		"patch":                    {update("open", all, registry.UpdateOptions{Patch: true}), true},
		"by the stored object":     {update("locked", nil, registry.UpdateOptions{}), true},
		"of a subresource":         {update("open", all, registry.UpdateOptions{View: "status", DryRun: true}), false},
		"of a guarded subresource": {update("open", nil, registry.UpdateOptions{View: "guarded", DryRun: true}), true},
		"as its guard allows":      {update("open", map[string]string{"name": "open", "grants": "all"}, registry.UpdateOptions{View: "guarded", DryRun: true}), false},
		"of nothing that counts":   {update("open", map[string]string{"x": "y"}, registry.UpdateOptions{DryRun: true}), false},
	} {
		admitted = false
		before, err := res.List(t.Context(), registry.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := tt.write(); errors.Is(err, refused) != tt.refused || !tt.refused && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		after, err := res.List(t.Context(), registry.ListOptions{})
		if err != nil || after.Revision != before.Revision || admitted == tt.refused {
			t.Errorf("%s: revision %d then %d, admitted %v, %v", name, before.Revision, after.Revision, admitted, err)
		}
	}
}
