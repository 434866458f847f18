package policies

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/admission/policy"
	"github.com/keelson-dev/keelson/cluster/internal/served"
	"github.com/keelson-dev/keelson/registry"
)

// params is policy.Options.Params.
func params(kinds served.Kinds) func(schema.GroupVersionKind) (policy.Params, bool) {
	return func(kind schema.GroupVersionKind) (policy.Params, bool) {
		res, ok := kinds.Find(kind)
		if !ok || res.Answer != nil {
			return nil, false
		}
		return objects{res}, true
	}
}

// objects are the objects of a resource.
type objects struct{ resource *registry.Resource }

// Namespaced implements policy.Params.
func (o objects) Namespaced() bool { return o.resource.Namespaced }

// Get implements policy.Params. An object that another server has just stored may have to be waited for.
func (o objects) Get(ctx context.Context, namespace, name string) (runtime.Object, error) {
	item, err := o.resource.Get(ctx, namespace, name, "0")
	if errors.Is(err, registry.ErrNotFound) {
		item, err = o.resource.Get(ctx, namespace, name, "")
	}
	switch {
	case errors.Is(err, registry.ErrNotFound):
		return nil, nil //nolint:nilnil // there is none
	case err != nil:
		return nil, err
	}
	return o.resource.Shown(ctx, item)
}

// List implements policy.Params.
func (o objects) List(ctx context.Context, namespace string, selected labels.Selector) ([]runtime.Object, error) {
	l, err := o.resource.List(ctx, registry.ListOptions{Selection: registry.Selection{Namespace: namespace, Labels: selected}, ResourceVersion: "0"})
	if err != nil {
		return nil, err
	}
	all := make([]runtime.Object, len(l.Items))
	for i, item := range l.Items {
		if all[i], err = o.resource.Shown(ctx, item); err != nil {
			return nil, err
		}
	}
	return all, nil
}
