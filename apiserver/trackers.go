package apiserver

import (
	"context"
	"slices"
	"sync"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/apiserver/managedfields"
	"github.com/keelson-dev/keelson/registry"
)

// trackers record who set which field of the objects that the server stores.
type trackers struct {
	schema managedfields.Schema
	scales sync.Map // has the tracker of the scale subresource, which is the same for all kinds
}

// tracker returns the tracker of an endpoint's objects, or of a view of them.
func (t *trackers) tracker(e *endpoint, view string) *managedfields.Tracker {
	if tracker, ok := e.trackers.Load(view); ok {
		return tracker.(*managedfields.Tracker)
	}
	stored := e.resource.Storage()
	kind := managedfields.Kind{Versions: []managedfields.Version{{
		GroupVersionKind: stored.GroupVersion.WithKind(stored.Names.Kind),
		New:              func() managedfields.Object { return stored.New() },
		Schema:           e.schema(stored.GroupVersion, stored.Schema),
	}}}
	custom := e.resource.Decode != nil
	kind.Alike = custom && !slices.ContainsFunc(e.resource.Also, func(v registry.Version) bool { return v.AllFromStored != nil })
	if e.resource.Rules.Default != nil {
		kind.Default = func(obj managedfields.Object) { e.resource.Rules.Default(obj) }
	}
	for i := range e.resource.Also {
		v := &e.resource.Also[i]
		kind.Versions = append(kind.Versions, managedfields.Version{
			GroupVersionKind: v.GroupVersion.WithKind(v.Names.Kind),
			New:              func() managedfields.Object { return v.New() },
			Schema:           e.schema(v.GroupVersion, v.Schema),
			FromStored:       converted(v.FromStored),
			ToStored:         converted(v.ToStored),
		})
	}
	tracker, _ := e.trackers.LoadOrStore(view, managedfields.New(&t.schema, kind, managedfields.Endpoint{
		Version: e.gv, Subresource: view, Resets: resets(e, view), ResetsHere: custom && view == "",
	}))
	return tracker.(*managedfields.Tracker)
}

// converted adapts a conversion.
func converted(convert func(context.Context, registry.Object) (registry.Object, error)) func(managedfields.Object) (managedfields.Object, error) {
	return func(obj managedfields.Object) (managedfields.Object, error) {
		return convert(context.Background(), obj)
	}
}

// schema returns the schema of a version of the endpoint's kind, which its trackers share, or nil if it has none.
func (e *endpoint) schema(gv schema.GroupVersion, of func() map[string]any) *managedfields.OpenAPI {
	if of == nil {
		return nil
	}
	known, _ := e.schemas.LoadOrStore(gv, managedfields.NewOpenAPI(of))
	return known.(*managedfields.OpenAPI)
}

// resets are the fields that a write to the object itself, or to a view of it, does not change.
func resets(e *endpoint, view string) []string {
	_, status := e.resource.Sub.Views["status"]
	own := e.resource.Sub.Views[view].Resets
	if view == "" {
		own = e.resource.Sub.Resets
	}
	switch {
	case own != nil:
		return own
	case view == "status":
		return []string{"spec"}
	case status:
		return []string{"status"}
	}
	return nil
}

// transient returns the tracker of objects that are not stored: Scales, reviews, what is posted to actions. It is kept in
// known by its subresource.
func (t *trackers) transient(known *sync.Map, subresource string, gvk schema.GroupVersionKind, empty func() runtime.Object) *managedfields.Tracker {
	if tracker, ok := known.Load(subresource); ok {
		return tracker.(*managedfields.Tracker)
	}
	kind := managedfields.Kind{Versions: []managedfields.Version{{
		GroupVersionKind: gvk, New: func() managedfields.Object { return empty().(managedfields.Object) },
	}}}
	tracker, _ := known.LoadOrStore(subresource, managedfields.New(&t.schema, kind, managedfields.Endpoint{
		Version: gvk.GroupVersion(), Subresource: subresource,
	}))
	return tracker.(*managedfields.Tracker)
}

// scale returns the tracker of Scales.
func (t *trackers) scale() *managedfields.Tracker {
	return t.transient(&t.scales, "scale", scaleGVK(), func() runtime.Object { return &autoscalingv1.Scale{} })
}

func scaleGVK() schema.GroupVersionKind {
	return autoscalingv1.SchemeGroupVersion.WithKind("Scale")
}
