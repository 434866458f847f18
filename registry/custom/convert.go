package custom

import (
	"context"
	"errors"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Convert returns an object of this kind in the given version, pruned by that version's schema. Without a webhook, only
// the object's apiVersion changes. The argument stays unchanged. The error wraps ErrNoConverter if a converter is
// required and there is none.
func (r *Resource) Convert(ctx context.Context, obj *unstructured.Unstructured, version string) (*unstructured.Unstructured, error) {
	out, err := r.convert(ctx, []object{obj}, version, false)
	if err != nil {
		return nil, err
	}
	return out[0], nil
}

// ConvertAll is Convert for several objects, with at most one call of the converter.
func (r *Resource) ConvertAll(ctx context.Context, objs []*unstructured.Unstructured, version string) ([]*unstructured.Unstructured, error) {
	return r.convert(ctx, objs, version, true)
}

// convert numbers the objects in errors about what the converter returned if they are listed.
func (r *Resource) convert(ctx context.Context, objs []object, version string, listed bool) ([]object, error) {
	to := schema.GroupVersion{Group: r.group, Version: version}
	if _, err := r.Version(version); err != nil {
		return nil, fmt.Errorf("request to convert CR to an invalid group/version: %s: %w", to, err)
	}
	out := make([]object, len(objs))
	var sent []int // which ones the webhook converts
	for i, obj := range objs {
		from := obj.GroupVersionKind().GroupVersion()
		if from.Group != r.group || r.find(func(v *Version) bool { return v.name == from.Version }) == nil {
			return nil, fmt.Errorf("request to convert CR from an invalid group/version: %s: %w", from, ErrVersion)
		}
		out[i] = obj.DeepCopy()
		switch {
		case from == to:
		case r.strategy == apiextensionsv1.NoneConverter, bookmark(obj):
			out[i].SetAPIVersion(to.String())
		default:
			sent = append(sent, i)
		}
	}
	if err := r.callConverter(ctx, out, sent, to, listed); err != nil {
		return nil, err
	}
	for _, obj := range out {
		if _, err := r.coerce(obj, coercion{}); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// bookmark reports whether this is no object but what a watch tells of its progress, which upstream makes in the version
// that the client asked for. A webhook may lose its annotations, for which the client waits.
func bookmark(obj object) bool {
	return obj.GetName() == "" && obj.GetResourceVersion() != ""
}

// callConverter replaces the objects at the given indexes by what the converter makes of them.
func (r *Resource) callConverter(ctx context.Context, objs []object, sent []int, to schema.GroupVersion, listed bool) error {
	if len(sent) == 0 {
		return nil
	}
	from := objs[sent[0]].GroupVersionKind()
	if r.converter == nil {
		return fmt.Errorf("conversion webhook for %v failed: %w", from, ErrNoConverter)
	}
	in := make([]object, len(sent))
	for n, i := range sent {
		in[n] = objs[i].DeepCopy()
	}
	converted, err := r.converter.Convert(ctx, in, to)
	if err != nil {
		return fmt.Errorf("conversion webhook for %v failed: %w", from, err)
	}
	if len(converted) != len(sent) {
		return fmt.Errorf("conversion webhook for %v returned %d objects, expected %d", from, len(converted), len(sent))
	}
	for n, i := range sent {
		numbered, plain, meta := fmt.Sprintf("object at index %d", n), "object", "metadata"
		if listed {
			numbered = "converted " + numbered
			plain, meta = numbered, fmt.Sprintf("metadata in object at index %d", n)
		}
		invalid := numbered
		err := checkType(objs[i], converted[n], to)
		if err == nil {
			invalid, err = plain, checkIdentity(objs[i], converted[n])
		}
		if err == nil {
			invalid, err = meta, restoreMeta(objs[i], converted[n])
		}
		if err != nil {
			return fmt.Errorf("conversion webhook for %v returned invalid %s: %w", from, invalid, err)
		}
		objs[i] = converted[n]
	}
	return nil
}

var errNoMetadata = errors.New("missing metadata in converted object")

// checkType refuses what is not of the same kind in the requested version.
func checkType(in, out object, to schema.GroupVersion) error {
	if out == nil {
		return errNoMetadata
	}
	gvk := out.GroupVersionKind()
	switch {
	case gvk.GroupVersion() != to:
		return fmt.Errorf("invalid groupVersion (expected %v, received %v)", to, gvk.GroupVersion())
	case gvk.Kind != in.GetKind():
		return fmt.Errorf("invalid kind (expected %v, received %v)", in.GetKind(), gvk.Kind)
	}
	return nil
}

// checkIdentity refuses another object.
func checkIdentity(in, out object) error {
	switch {
	case out.GetName() != in.GetName():
		return fmt.Errorf("must have the same name: %v != %v", in.GetName(), out.GetName())
	case out.GetNamespace() != in.GetNamespace():
		return fmt.Errorf("must have the same namespace: %v != %v", in.GetNamespace(), out.GetNamespace())
	case out.GetUID() != in.GetUID():
		return fmt.Errorf("must have the same UID: %v != %v", in.GetUID(), out.GetUID())
	}
	return nil
}

// restoreMeta undoes what a converter did to metadata, except to labels and annotations.
func restoreMeta(in, out object) error {
	value, ok := out.Object["metadata"]
	if !ok {
		return errNoMetadata
	}
	changed, ok := value.(map[string]any)
	if !ok {
		return fmt.Errorf("invalid metadata of type %T in converted object", value)
	}
	restored := map[string]any{}
	if value, ok := in.Object["metadata"]; ok {
		if restored, ok = runtime.DeepCopyJSONValue(value).(map[string]any); !ok {
			return fmt.Errorf("invalid metadata of type %T in input object", value)
		}
	}
	out.Object["metadata"] = restored
	if err := takeOver(restored, changed, "labels"); err != nil {
		return err
	}
	return takeOver(restored, changed, "annotations")
}

// takeOver moves the labels or annotations of converted metadata, which are validated if they differ.
func takeOver(to, from map[string]any, name string) error {
	if from[name] == nil {
		delete(to, name)
		return nil
	}
	next, ok := from[name].(map[string]any)
	if !ok {
		return fmt.Errorf("invalid metadata.%s of type %T in converted object", name, from[name])
	}
	old, ok := to[name].(map[string]any)
	if !ok && to[name] != nil {
		return fmt.Errorf("invalid metadata.%s of type %T in original object", name, to[name])
	}
	same, texts := len(old) == len(next), make(map[string]string, len(next))
	for key, value := range next {
		text, ok := value.(string)
		if !ok {
			return fmt.Errorf("metadata.%s[%s] must be a string, but is %T in converted object", name, key, value)
		}
		texts[key] = text
		same = same && old[key] == value
	}
	if !same {
		if err := validTexts(name, texts); err != nil {
			return err
		}
	}
	to[name] = next
	return nil
}

func validTexts(name string, texts map[string]string) error {
	at := field.NewPath("metadata")
	if name == "labels" {
		return metav1validation.ValidateLabels(texts, at.Child("labels")).ToAggregate()
	}
	return apivalidation.ValidateAnnotations(texts, at.Child("annotation")).ToAggregate()
}
