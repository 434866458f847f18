package admit

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/registry/codec"
)

// snapshot is the state of an object at one time. Objects with a protobuf form are kept as such a message, which is cheap to
// make and to compare; it is decoded when somebody asks for it.
type snapshot struct {
	message []byte
	of      reflect.Type   // of the message, or of what was sent; nil if that has no Go type
	object  runtime.Object // if it has no message
	sent    []byte         // what the client sent, as JSON
}

// message is an object that encodes itself: what the Go types with a protobuf form do.
type message interface {
	runtime.Object
	Size() int
	MarshalToSizedBuffer(to []byte) (int, error)
}

func take(obj runtime.Object) snapshot {
	if obj == nil {
		return snapshot{}
	}
	if m, ok := obj.(message); ok {
		data := make([]byte, m.Size())
		if _, err := m.MarshalToSizedBuffer(data); err == nil {
			return snapshot{message: data, of: reflect.TypeOf(obj)}
		}
	}
	return snapshot{object: obj.DeepCopyObject()}
}

// same reports whether an object is still as it was. It overwrites the scratch.
func (s *snapshot) same(obj runtime.Object, scratch *[]byte) bool {
	switch {
	case obj == nil:
		return s.none()
	case s.object != nil:
		return equality.Semantic.DeepEqual(s.object, obj)
	case s.of != reflect.TypeOf(obj):
		return false
	}
	m, ok := obj.(message)
	if !ok || m.Size() != len(s.message) {
		return false
	}
	*scratch = slices.Grow((*scratch)[:0], len(s.message))[:len(s.message)]
	_, err := m.MarshalToSizedBuffer(*scratch)
	return err == nil && bytes.Equal(*scratch, s.message)
}

func (s *snapshot) none() bool { return s.message == nil && s.object == nil && s.sent == nil }

// tree returns the object as decoded JSON, without what differs from run to run and belongs to the server.
func (s *snapshot) tree() map[string]any {
	switch {
	case s.sent != nil:
		return plain(s.sent)
	case s.object != nil:
		return treeOf(s.object)
	case s.message != nil:
		obj := s.empty()
		if err := codec.DecodeRaw(s.message, obj); err != nil {
			return nil
		}
		return treeOf(obj)
	}
	return nil
}

// decoded is the tree of what was sent, as its Go type reads and writes it.
func (s *snapshot) decoded() map[string]any {
	obj := s.empty()
	if _, err := codec.Decode(s.sent, obj); err != nil {
		return nil
	}
	return treeOf(obj)
}

// empty returns an empty object of the Go type.
func (s *snapshot) empty() runtime.Object {
	return reflect.New(s.of.Elem()).Interface().(runtime.Object)
}

func treeOf(obj runtime.Object) map[string]any {
	data, err := codec.Body(obj)
	if err != nil {
		return nil
	}
	return plain(data)
}

func plain(data []byte) map[string]any {
	var tree map[string]any
	if json.Unmarshal(data, &tree) != nil {
		return nil
	}
	delete(tree, "apiVersion")
	delete(tree, "kind")
	if meta, ok := tree["metadata"].(map[string]any); ok {
		for _, field := range []string{"uid", "creationTimestamp", "resourceVersion", "managedFields", "selfLink"} {
			delete(meta, field)
		}
	}
	return tree
}
