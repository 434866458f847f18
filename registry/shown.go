package registry

import "context"

// Shown returns what clients see of an item: its object with what Rules.Decorate adds, in this version. It may be shared
// and must not be changed.
func (r *Resource) Shown(ctx context.Context, i *Item) (Object, error) {
	return r.FromStored(ctx, r.Decorated(i))
}

// decorated is the name under which items keep their decorated objects.
const decorated = "decorated"

// Decorated returns what clients see of an item in the stored version. It may be shared and must not be changed.
func (r *Resource) Decorated(i *Item) Object {
	if r.stored == nil || r.stored.Rules.Decorate == nil && !i.pending { // a Resource of no registry is that of objects of no kind
		return i.Object
	}
	decorate := func(obj Object) {
		if d := r.stored.Rules.Decorate; d != nil {
			d(obj)
		}
		if i.pending {
			r.registry.options.Initialization.Show(obj)
		}
	}
	obj, _ := i.Converted(decorated, func(obj Object) (Object, error) { // which cannot fail
		shown := obj.DeepCopyObject().(Object)
		decorate(shown)
		return shown, nil
	})
	return obj
}
