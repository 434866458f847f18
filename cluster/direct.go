package cluster

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/registry"
)

// direct is the API server's own way to its registry, past authorization and admission: it has to
// work before anybody can be authorized. Upstream's loopback client does the same as a member of
// system:masters; here nobody but an administrator is one.
type direct struct{ registry *registry.Registry }

func (d direct) resource(t client.Target) (*registry.Resource, error) {
	res, ok := d.registry.Resource(t.Resource.GroupResource())
	if !ok {
		return nil, apierrors.NewNotFound(t.Resource.GroupResource(), t.Name)
	}
	return res, nil
}

// Get implements client.Getter.
func (d direct) Get(ctx context.Context, t client.Target) (runtime.Object, error) {
	res, err := d.resource(t)
	if err != nil {
		return nil, err
	}
	item, err := res.Get(ctx, t.Namespace, t.Name, "")
	if err != nil {
		return nil, answer(t, err)
	}
	return item.Object.DeepCopyObject(), nil
}

// Create implements client.Creator for objects, not for subresources.
func (d direct) Create(ctx context.Context, t client.Target, obj runtime.Object, o metav1.CreateOptions) (runtime.Object, error) {
	res, wanted, err := d.prepare(t, obj)
	if err != nil {
		return nil, err
	}
	item, err := res.Create(asServer(ctx), wanted, registry.CreateOptions{DryRun: len(o.DryRun) > 0})
	if err != nil {
		return nil, answer(t, err)
	}
	return item.Object.DeepCopyObject(), nil
}

// Update implements client.Updater for objects, not for subresources.
func (d direct) Update(ctx context.Context, t client.Target, obj runtime.Object, o metav1.UpdateOptions) (runtime.Object, error) {
	res, wanted, err := d.prepare(t, obj)
	if err != nil {
		return nil, err
	}
	item, _, err := res.Update(asServer(ctx), t.Namespace, t.Name, func(context.Context, registry.Object) (registry.Object, error) {
		return wanted.DeepCopyObject().(registry.Object), nil
	}, registry.UpdateOptions{DryRun: len(o.DryRun) > 0})
	if err != nil {
		return nil, answer(t, err)
	}
	return item.Object.DeepCopyObject(), nil
}

// Delete implements client.Deleter for one object.
func (d direct) Delete(ctx context.Context, t client.Target, o metav1.DeleteOptions) error {
	res, err := d.resource(t)
	if err != nil {
		return err
	}
	_, _, err = res.Delete(asServer(ctx), t.Namespace, t.Name, registry.DeleteOptions{DeleteOptions: o})
	return answer(t, err)
}

// prepare makes what a request's decoding would have made of obj.
func (d direct) prepare(t client.Target, obj runtime.Object) (*registry.Resource, registry.Object, error) {
	res, err := d.resource(t)
	if err != nil {
		return nil, nil, err
	}
	wanted, ok := obj.DeepCopyObject().(registry.Object)
	if !ok || t.Subresource != "" {
		return nil, nil, apierrors.NewBadRequest("only whole objects are written directly")
	}
	if res.Rules.Default != nil {
		res.Rules.Default(wanted)
	}
	return res, wanted, nil
}

func asServer(ctx context.Context) context.Context { return authn.NewContext(ctx, systemIdentity()) }

// answer gives the registry's errors the form that clients return and their callers test for.
func answer(t client.Target, err error) error {
	gr := t.Resource.GroupResource()
	switch {
	case errors.Is(err, registry.ErrNotFound):
		return apierrors.NewNotFound(gr, t.Name)
	case errors.Is(err, registry.ErrExists):
		return apierrors.NewAlreadyExists(gr, t.Name)
	case errors.Is(err, registry.ErrConflict):
		return apierrors.NewConflict(gr, t.Name, err)
	}
	return err
}
