package registry

import "context"

// compute returns one object of a computed kind.
func (r *Resource) compute(ctx context.Context, namespace, name string) (*Item, error) {
	obj, err := r.Read.Get(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	if obj == nil {
		return nil, r.errorf(ErrNotFound, name, "")
	}
	return r.computed(obj), nil
}

// computeAll returns all selected objects. The list is never paged: a later page would belong to a different
// state.
func (r *Resource) computeAll(ctx context.Context, s Selection) (*List, error) {
	objects, err := r.Read.List(ctx, s.Namespace)
	if err != nil {
		return nil, err
	}
	items := make([]*Item, len(objects))
	for i, obj := range objects {
		items[i] = r.computed(obj)
	}
	return &List{Items: r.selected(items, s)}, nil
}

func (r *Resource) computed(obj Object) *Item {
	return &Item{Object: obj, key: indexKey(obj.GetNamespace(), obj.GetName())}
}
