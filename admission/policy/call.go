package policy

import (
	"context"
	"maps"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/internal/matching"
)

// plugin is what both plugins have.
type plugin struct {
	namespaces Namespaces
	options    Options
}

func (p *plugin) namespace(_ context.Context, name string) (*corev1.Namespace, bool, error) {
	ns, ok := p.namespaces.Get("", name)
	return ns, ok, nil
}

// call is one request in one plugin.
type call struct {
	plugin    *plugin
	request   *admission.Request
	requested admission.Version
	served    []admission.Version
	inputs    map[schema.GroupVersionKind]*Input
	params    map[schema.GroupVersionKind]Params
}

func (p *plugin) call(r *admission.Request) *call {
	served := p.options.Versions(r.Resource, r.Subresource)
	return &call{plugin: p, request: r, requested: matching.Requested(r, served), served: served}
}

// input returns the request in a version, without its namespace.
func (c *call) input(v admission.Version) (*Input, error) {
	if in := c.inputs[v.Kind]; in != nil {
		if !in.stale {
			return in, nil
		}
		obj, err := c.in(v, c.request.Object)
		if err == nil {
			in.Object, in.stale = obj, false
		}
		return in, err
	}
	in := &Input{Request: c.request, Version: v, Options: named(c.request.Options, matching.OptionsKind(c.request.Options))}
	var err error
	if in.Object, err = c.in(v, c.request.Object); err != nil {
		return nil, err
	}
	if in.OldObject, err = c.in(v, c.request.OldObject); err != nil {
		return nil, err
	}
	if c.inputs == nil {
		c.inputs = make(map[schema.GroupVersionKind]*Input, 1)
	}
	c.inputs[v.Kind] = in
	return in, nil
}

func (c *call) in(v admission.Version, obj runtime.Object) (runtime.Object, error) {
	converted, err := v.Convert(c.request, obj)
	if err != nil {
		return nil, err
	}
	return named(converted, v.Kind), nil
}

// changed replaces the object of the request, which the inputs do not have yet.
func (c *call) changed(obj runtime.Object) {
	c.request.Object = obj
	for _, in := range c.inputs {
		in.stale = true
	}
}

// namespace returns the namespace of the request's object, or nil if it has none. To upstream, namespaces are in
// themselves, except here.
func (c *call) namespace(ctx context.Context) (*corev1.Namespace, error) {
	name := c.request.Namespace
	if c.requested.Kind == corev1.SchemeGroupVersion.WithKind("Namespace") || name == "" {
		return nil, nil //nolint:nilnil // cluster-scoped objects have none
	}
	ns, ok, err := c.plugin.namespace(ctx, name)
	if err == nil && !ok {
		err = admission.NotFound(schema.GroupResource{Resource: "namespaces"}, name)
	}
	return ns, err
}

// named returns an object with the name of its type. It shares the object's content.
func named(obj runtime.Object, kind schema.GroupVersionKind) runtime.Object {
	if obj == nil || obj.GetObjectKind().GroupVersionKind() == kind {
		return obj
	}
	if u, ok := obj.(runtime.Unstructured); ok {
		out := &unstructured.Unstructured{Object: maps.Clone(u.UnstructuredContent())}
		out.SetGroupVersionKind(kind)
		return out
	}
	was := reflect.ValueOf(obj)
	if was.Kind() != reflect.Pointer || was.Elem().Kind() != reflect.Struct {
		return obj
	}
	// A copy that differs in its type alone: everything below is only read.
	top := reflect.New(was.Type().Elem())
	top.Elem().Set(was.Elem())
	out := top.Interface().(runtime.Object)
	out.GetObjectKind().SetGroupVersionKind(kind)
	return out
}
