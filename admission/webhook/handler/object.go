package handler

import (
	"maps"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"

	"github.com/keelson-dev/keelson/admission"
)

// object returns an object of a review, decoded already or in JSON, as the plugin sees it: of its Go type, without naming its
// kind, if the scheme has one, or else unstructured. It returns nil if there is none.
func (h *Handler) object(field string, kind schema.GroupVersionKind, in runtime.RawExtension) (out runtime.Object, err error) {
	switch {
	case in.Object == nil && in.Raw == nil:
		return nil, nil
	case in.Object == nil && h.options.Scheme.Recognizes(kind):
		out, err = h.typed(kind, func(into runtime.Object) error { return kjson.UnmarshalCaseSensitivePreserveInts(in.Raw, into) })
	case in.Object == nil:
		u := &unstructured.Unstructured{}
		out, err = u, u.UnmarshalJSON(in.Raw)
	default:
		out, err = h.converted(kind, in.Object)
	}
	if err != nil {
		return nil, admission.BadRequest("request.%s cannot be decoded: %v", field, err)
	}
	return out, nil
}

// typed makes an object of a Go type, which fill fills in.
func (h *Handler) typed(kind schema.GroupVersionKind, fill func(runtime.Object) error) (runtime.Object, error) {
	obj, err := h.options.Scheme.New(kind)
	if err != nil {
		return nil, err
	}
	if err := fill(obj); err != nil {
		return nil, err
	}
	obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	return obj, nil
}

// converted returns a decoded object as the plugin sees it: the same one if that is its type.
func (h *Handler) converted(kind schema.GroupVersionKind, obj runtime.Object) (runtime.Object, error) {
	if want, ok := h.options.Scheme.AllKnownTypes()[kind]; ok && reflect.TypeOf(obj).Elem() == want {
		return obj, nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, err
	}
	if h.options.Scheme.Recognizes(kind) {
		return h.typed(kind, func(into runtime.Object) error {
			return runtime.DefaultUnstructuredConverter.FromUnstructured(content, into)
		})
	}
	u := &unstructured.Unstructured{Object: maps.Clone(content)} // an unstructured object is shared with the request
	u.SetGroupVersionKind(kind)
	return u, nil
}

// options returns the options of a request.
func options(in runtime.RawExtension) (runtime.Object, error) {
	if in.Object != nil || in.Raw == nil {
		return in.Object, nil
	}
	var is metav1.TypeMeta
	if err := kjson.UnmarshalCaseSensitivePreserveInts(in.Raw, &is); err != nil {
		return nil, admission.BadRequest("request.options cannot be decoded: %v", err)
	}
	var out runtime.Object
	switch is.Kind {
	case "CreateOptions":
		out = &metav1.CreateOptions{}
	case "UpdateOptions":
		out = &metav1.UpdateOptions{}
	case "PatchOptions":
		out = &metav1.PatchOptions{}
	case "DeleteOptions":
		out = &metav1.DeleteOptions{}
	default:
		return nil, nil // of a connection, which the plugin can do without
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(in.Raw, out); err != nil {
		return nil, admission.BadRequest("request.options cannot be decoded: %v", err)
	}
	out.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	return out, nil
}
