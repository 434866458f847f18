// Package codec encodes and decodes API objects: as JSON, and in the protobuf envelope that upstream uses on
// the wire and in etcd (the prefix "k8s\0", then runtime.Unknown). It encodes and decodes the versioned Go
// types directly, without conversion.
//
// All functions are safe for concurrent use. Decoding never panics: malformed input is an error.
package codec

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"
)

// ErrNotProtobuf means that the type has no protobuf form (it is a custom kind).
var ErrNotProtobuf = errors.New("type has no protobuf encoding")

const magic = "k8s\x00"

// message is implemented by generated API types with a protobuf form.
type message interface {
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

// HasProtobuf reports whether the object's type has a protobuf form.
func HasProtobuf(obj runtime.Object) bool {
	_, ok := obj.(message)
	return ok
}

// Raw returns the protobuf message of obj without the envelope and the type.
func Raw(obj runtime.Object) ([]byte, error) {
	m, ok := obj.(message)
	if !ok {
		return nil, fmt.Errorf("%T: %w", obj, ErrNotProtobuf)
	}
	return m.Marshal()
}

// Envelope wraps a protobuf message with its type.
func Envelope(gvk schema.GroupVersionKind, raw []byte) ([]byte, error) {
	apiVersion, kind := gvk.ToAPIVersionAndKind()
	u := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: apiVersion, Kind: kind}, Raw: raw}
	size := u.Size()
	out := make([]byte, len(magic)+size)
	copy(out, magic)
	if _, err := u.MarshalToSizedBuffer(out[len(magic):]); err != nil {
		return nil, err
	}
	return out, nil
}

// Around returns the parts of an envelope before and after a message of the given size, for messages that are
// written in pieces.
func Around(gvk schema.GroupVersionKind, size int) (before, after []byte, err error) {
	apiVersion, kind := gvk.ToAPIVersionAndKind()
	t := runtime.TypeMeta{APIVersion: apiVersion, Kind: kind}
	name, err := t.Marshal()
	if err != nil {
		return nil, nil, err
	}
	before = binary.AppendUvarint(append([]byte(magic), 1<<3|2), uint64(len(name)))
	before = append(before, name...)
	before = binary.AppendUvarint(append(before, 2<<3|2), uint64(size))
	return before, []byte{3<<3 | 2, 0, 4<<3 | 2, 0}, nil // neither content encoding nor type
}

// Protobuf returns obj in its envelope.
func Protobuf(gvk schema.GroupVersionKind, obj runtime.Object) ([]byte, error) {
	raw, err := Raw(obj)
	if err != nil {
		return nil, err
	}
	return Envelope(gvk, raw)
}

// JSON returns obj in JSON, beginning with its type. The object's own TypeMeta must be empty, except that of an object
// without a Go type, which may be another.
func JSON(gvk schema.GroupVersionKind, obj runtime.Object) ([]byte, error) {
	body, err := Body(obj)
	if err != nil {
		return nil, err
	}
	if u, ok := obj.(runtime.Unstructured); ok && !u.GetObjectKind().GroupVersionKind().Empty() {
		return body, nil
	}
	return WithType(gvk, body), nil
}

// WithType inserts kind and apiVersion before the fields of a JSON object that has neither.
func WithType(gvk schema.GroupVersionKind, body []byte) []byte {
	apiVersion, kind := gvk.ToAPIVersionAndKind()
	out := make([]byte, 0, len(body)+len(apiVersion)+len(kind)+30)
	out = append(out, `{"kind":"`...)
	out = append(out, kind...)
	if apiVersion != "" {
		out = append(out, `","apiVersion":"`...)
		out = append(out, apiVersion...)
	}
	out = append(out, '"')
	if !bytes.HasPrefix(bytes.TrimSpace(body[1:]), []byte("}")) {
		out = append(out, ',')
	}
	return append(out, body[1:]...)
}

// Stored encodes obj for a store: in protobuf if the type has it, otherwise in JSON.
func Stored(gvk schema.GroupVersionKind, obj runtime.Object) ([]byte, error) {
	if HasProtobuf(obj) {
		return Protobuf(gvk, obj)
	}
	return JSON(gvk, obj)
}

// IsProtobuf reports whether data begins like the envelope.
func IsProtobuf(data []byte) bool { return bytes.HasPrefix(data, []byte(magic)) }

// Open returns the type in an envelope and its message.
func Open(data []byte) (schema.GroupVersionKind, []byte, error) {
	if !IsProtobuf(data) {
		return schema.GroupVersionKind{}, nil, fmt.Errorf("provided data does not appear to be a protobuf message, expected prefix %v", []byte(magic))
	}
	var u runtime.Unknown
	if err := u.Unmarshal(data[len(magic):]); err != nil {
		return schema.GroupVersionKind{}, nil, err
	}
	return schema.FromAPIVersionAndKind(u.APIVersion, u.Kind), u.Raw, nil
}

// Type returns the type in an envelope or a JSON object.
func Type(data []byte) (schema.GroupVersionKind, error) {
	if IsProtobuf(data) {
		gvk, _, err := Open(data)
		return gvk, err
	}
	var t runtime.TypeMeta
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &t); err != nil {
		return schema.GroupVersionKind{}, err
	}
	return schema.FromAPIVersionAndKind(t.APIVersion, t.Kind), nil
}

// Decode decodes an envelope or JSON into into and returns the type that data names. It leaves the object's
// TypeMeta empty and drops unknown JSON fields.
func Decode(data []byte, into runtime.Object) (schema.GroupVersionKind, error) {
	if IsProtobuf(data) {
		gvk, raw, err := Open(data)
		if err != nil {
			return gvk, err
		}
		return gvk, DecodeRaw(raw, into)
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, into); err != nil {
		return schema.GroupVersionKind{}, err
	}
	return takeType(into), nil
}

// DecodeStrict is Decode for JSON that also returns errors that a lenient decoding ignores: unknown and
// duplicate fields.
func DecodeStrict(data []byte, into runtime.Object) (gvk schema.GroupVersionKind, strict []error, err error) {
	strict, err = kjson.UnmarshalStrict(data, into)
	if err != nil {
		return gvk, nil, err
	}
	return takeType(into), strict, nil
}

// DecodeRaw decodes a protobuf message without an envelope into into.
func DecodeRaw(raw []byte, into runtime.Object) error {
	m, ok := into.(message)
	if !ok {
		return fmt.Errorf("%T: %w", into, ErrNotProtobuf)
	}
	return m.Unmarshal(raw)
}

func takeType(obj runtime.Object) schema.GroupVersionKind {
	gvk := obj.GetObjectKind().GroupVersionKind()
	if u, ok := obj.(runtime.Unstructured); ok {
		delete(u.UnstructuredContent(), "apiVersion") // where it would stay as an empty text
		delete(u.UnstructuredContent(), "kind")
		return gvk
	}
	obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	return gvk
}
