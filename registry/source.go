package registry

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/informer"
)

// departed returns the last state in which an object matched a selection that it no longer matches, under the
// revision of the change.
func (r *Resource) departed(c change) *Item {
	last := c.prev.Object.DeepCopyObject().(Object)
	last.SetResourceVersion(strconv.FormatInt(c.item.Revision, 10))
	return r.item(c.item.key, last, c.item.Revision, c.prev.size)
}

// Source feeds informers in this process with the registry's own decoded objects. It bypasses authorization:
// whoever has it may read everything it selects.
func Source[T Object](r *Registry, gr schema.GroupResource, s Selection) (informer.Source[T], error) {
	if _, err := resourceOf[T](r, gr); err != nil {
		return nil, err
	}
	return source[T]{r, gr, s}, nil
}

// resourceOf returns a resource whose objects are stored and of type T.
func resourceOf[T Object](r *Registry, gr schema.GroupResource) (*Resource, error) {
	res, ok := r.Resource(gr)
	if !ok || res.table == nil {
		return nil, fmt.Errorf("resource %s is not served", gr)
	}
	if _, ok := res.New().(T); !ok {
		return nil, fmt.Errorf("resource %s has objects of type %T", gr, res.New())
	}
	return res, nil
}

// source finds the resource at each list and watch, since its kind may have been replaced.
type source[T Object] struct {
	registry  *Registry
	resource  schema.GroupResource
	selection Selection
}

func (s source[T]) List(ctx context.Context) ([]T, string, error) {
	res, err := resourceOf[T](s.registry, s.resource)
	if err != nil {
		return nil, "", err
	}
	l, err := res.List(ctx, ListOptions{Selection: s.selection})
	if err != nil {
		return nil, "", err
	}
	items := make([]T, len(l.Items))
	for i, item := range l.Items {
		items[i] = res.Decorated(item).(T)
	}
	return items, strconv.FormatInt(l.Revision, 10), nil
}

func (s source[T]) Watch(ctx context.Context, version string) (informer.Stream[T], error) {
	res, err := resourceOf[T](s.registry, s.resource)
	if err != nil {
		return nil, err
	}
	revision, err := res.ParseVersion(version)
	if err != nil {
		return nil, err
	}
	w, err := res.Watch(ctx, s.selection, revision)
	if err != nil {
		return nil, expiredSource(err)
	}
	return stream[T]{w}, nil
}

type stream[T Object] struct{ watch *Watch }

func (s stream[T]) Next(ctx context.Context) ([]informer.Event[T], error) {
	seen, err := s.watch.Next(ctx)
	if err != nil {
		return nil, expiredSource(err)
	}
	events := make([]informer.Event[T], len(seen))
	for i, e := range seen {
		events[i] = informer.Event[T]{Type: e.Type, Object: s.watch.resource.Decorated(e.Item).(T), Version: strconv.FormatInt(e.Revision, 10)}
	}
	return events, nil
}

func (s stream[T]) Close() {}

func expiredSource(err error) error {
	if errors.Is(err, ErrExpired) {
		return fmt.Errorf("%w: %w", informer.ErrExpired, err)
	}
	return err
}

// Access returns the access to stored objects that actions and reviews use.
func (r *Registry) Access() Access { return access{r} }

type access struct{ registry *Registry }

func (a access) resource(gr schema.GroupResource) (*Resource, error) {
	res, ok := a.registry.Resource(gr)
	if !ok || res.table == nil {
		return nil, &Error{Err: ErrNotFound, Resource: gr}
	}
	return res, nil
}

func (a access) Create(ctx context.Context, gr schema.GroupResource, obj Object) (Object, error) {
	res, err := a.resource(gr)
	if err != nil {
		return nil, err
	}
	if res.Rules.Default != nil {
		res.Rules.Default(obj)
	}
	item, err := res.Create(ctx, obj, CreateOptions{Waits: Waits{Pending: true}})
	if err != nil {
		return nil, err
	}
	return item.Object, nil
}

func (a access) Get(ctx context.Context, key ObjectKey) (Object, error) {
	res, err := a.resource(key.Resource)
	if err != nil {
		return nil, err
	}
	item, err := res.GetPending(ctx, key.Namespace, key.Name, "")
	if err != nil {
		return nil, err
	}
	return item.Object, nil
}

func (a access) List(ctx context.Context, gr schema.GroupResource, namespace string) ([]Object, error) {
	res, err := a.resource(gr)
	if err != nil {
		return nil, err
	}
	l, err := res.List(ctx, ListOptions{Selection: Selection{Namespace: namespace, Pending: true}})
	if err != nil {
		return nil, err
	}
	objects := make([]Object, len(l.Items))
	for i, item := range l.Items {
		objects[i] = item.Object
	}
	return objects, nil
}

func (a access) Modify(ctx context.Context, key ObjectKey, change func(Object) error, dryRun bool) (Object, error) {
	res, err := a.resource(key.Resource)
	if err != nil {
		return nil, err
	}
	item, _, err := res.Update(ctx, key.Namespace, key.Name, func(_ context.Context, current Object) (Object, error) {
		if current == nil {
			return nil, res.errorf(ErrNotFound, key.Name, "")
		}
		obj := current.DeepCopyObject().(Object)
		return obj, change(obj)
	}, UpdateOptions{Raw: true, DryRun: dryRun})
	if err != nil {
		return nil, err
	}
	return item.Object, nil
}

func (a access) Delete(ctx context.Context, key ObjectKey, o metav1.DeleteOptions) error {
	res, err := a.resource(key.Resource)
	if err != nil {
		return err
	}
	_, _, err = res.Delete(ctx, key.Namespace, key.Name, DeleteOptions{DeleteOptions: o, DryRun: len(o.DryRun) > 0})
	return err
}
