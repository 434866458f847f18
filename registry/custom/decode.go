package custom

import (
	"encoding/json"
	"errors"

	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"
)

type object = *unstructured.Unstructured

// Decode reads an object from JSON, prunes it and sets its defaults. strict are the errors that a lenient reading
// ignores, as clients may ask to be told: duplicate fields, then unknown ones. Objects of another type are neither
// pruned nor given defaults, those of another version are by its schema; Validate refuses both.
func (v *Version) Decode(data []byte) (obj *unstructured.Unstructured, strict []error, err error) {
	u, strict, err := decode(data)
	if err != nil {
		return nil, nil, err
	}
	unknown, err := v.complete(u)
	return u, append(strict, unknown...), err
}

// decodeNamed is Decode for an object that must name a kind: if it does not, runtime.IsMissingKind knows the error.
func (v *Version) decodeNamed(data []byte) (object, []error, error) {
	u, strict, err := decode(data)
	if errors.Is(err, errNoObject) || err == nil && u.GetKind() == "" {
		return nil, nil, runtime.NewMissingKindErr(string(data))
	}
	if err != nil {
		return nil, nil, err
	}
	unknown, err := v.complete(u)
	return u, append(strict, unknown...), err
}

// complete prunes an object, which any client may have sent, sets its defaults and returns its unknown fields.
func (v *Version) complete(u object) (strict []error, err error) {
	unknown, err := v.resource.coerce(u, coercion{paths: true})
	if err != nil {
		return nil, err
	}
	for _, path := range unknown {
		strict = append(strict, errors.New(`unknown field "`+path+`"`))
	}
	of := v.resource.of(u)
	if of == nil || !of.fill(u) {
		return strict, nil
	}
	if s := of.shape(); s != nil && s.embeds { // a default may have malformed metadata
		_, err = v.resource.coerce(u, coercion{})
	}
	return strict, err
}

// DecodeStored reads a stored object of any version of the kind, prunes it and sets the defaults of its own version.
// It drops metadata that it cannot read: objects may have been stored before metadata was checked.
func (r *Resource) DecodeStored(data []byte) (*unstructured.Unstructured, error) {
	u, _, err := decode(data)
	if err != nil {
		return nil, err
	}
	if _, err := r.coerce(u, coercion{stored: true}); err != nil {
		return nil, err
	}
	if v := r.of(u); v != nil {
		v.Default(u)
	}
	return u, nil
}

func decode(data []byte) (*unstructured.Unstructured, []error, error) {
	content := map[string]any{}
	strict, err := kjson.UnmarshalStrict(data, &content)
	switch {
	case err != nil:
		return nil, nil, err
	case content == nil:
		return nil, nil, errNoObject
	}
	return &unstructured.Unstructured{Object: content}, strict, nil
}

// Encode returns an object as JSON, its fields sorted by name.
func Encode(obj *unstructured.Unstructured) ([]byte, error) { return json.Marshal(obj.Object) }

// Prune drops from an object of this version what the schema does not specify, nulls where they mean nothing, and
// unknown metadata, also of embedded resources. It returns the paths of the fields that are specified nowhere. It
// fails if metadata is malformed.
func (v *Version) Prune(obj *unstructured.Unstructured) (unknown []string, err error) {
	return v.resource.coerce(obj, coercion{paths: true})
}

// Default sets the schema's defaults in an object of this version.
func (v *Version) Default(obj *unstructured.Unstructured) { v.fill(obj) }

// fill sets the schema's defaults, and reports whether any may have been missing.
func (v *Version) fill(obj object) bool {
	if obj.GroupVersionKind() != v.GroupVersionKind() || v.shape().complete(obj.Object) {
		return false
	}
	defaulting.Default(obj.Object, v.schema())
	return true
}

// coercion says how to bring an object into the form that its schema requires.
type coercion struct {
	paths  bool // return unknown fields
	stored bool // drop malformed metadata instead of failing, and repair old objects
}

// coerce brings an object into the form that the schema of its version requires, if it is one of this kind.
func (r *Resource) coerce(u *unstructured.Unstructured, how coercion) ([]string, error) {
	kind, _, err := unstructured.NestedString(u.Object, "kind")
	if err != nil {
		return nil, err
	}
	apiVersion, _, err := unstructured.NestedString(u.Object, "apiVersion")
	if err != nil {
		return nil, err
	}
	var meta *metav1.ObjectMeta // of which there is something to write
	var unknown []string
	if !canonical(u.Object["metadata"]) || how.stored && u.GetGeneration() == 0 {
		meta, _, unknown, err = objectmeta.GetObjectMetaWithOptions(u.Object, objectmeta.ObjectMetaOptions{
			DropMalformedFields: how.stored, ReturnUnknownFieldPaths: how.paths,
		})
		if err != nil {
			return nil, err
		}
	}
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return nil, err
	}
	if gv.Group == r.group && kind == r.names.Kind {
		more, err := r.shape(u, gv.Version, how)
		if err != nil {
			return nil, err
		}
		unknown = append(unknown, more...)
		if how.stored && meta != nil && meta.Generation == 0 {
			meta.Generation = 1
		}
	}
	if meta != nil {
		err = objectmeta.SetObjectMeta(u.Object, meta)
	}
	return unknown, err
}

// shape prunes an object by the schema of a version, which need not exist, and checks embedded metadata.
func (r *Resource) shape(u *unstructured.Unstructured, version string, how coercion) ([]string, error) {
	var s *structural.Structural
	var known *shape
	if v := r.find(func(v *Version) bool { return v.name == version }); v != nil {
		var err error
		if s, err = v.interpreted(); err != nil {
			return nil, err
		}
		known = v.shape()
	}
	var unknown []string
	if !r.preserve && !known.pruned(u.Object) {
		unknown = pruning.PruneWithOptions(u.Object, s, true, structural.UnknownFieldPathOptions{TrackUnknownFieldPaths: how.paths})
		defaulting.PruneNonNullableNullsWithoutDefaults(u.Object, s)
	}
	if known != nil && !known.embeds {
		return unknown, nil
	}
	refused, more := objectmeta.CoerceWithOptions(nil, u.Object, s, false, objectmeta.CoerceOptions{
		DropInvalidFields: how.stored, ReturnUnknownFieldPaths: how.paths,
	})
	if refused != nil {
		return nil, refused
	}
	return append(unknown, more...), nil
}
