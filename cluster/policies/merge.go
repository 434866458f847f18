package policies

import (
	"fmt"
	"reflect"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/apiserver/managedfields"
	"github.com/keelson-dev/keelson/cluster/internal/served"
	"github.com/keelson-dev/keelson/registry"
)

// schemas knows how the objects of the kinds merge.
type schemas struct {
	kinds  served.Kinds
	schema managedfields.Schema

	mu    sync.Mutex
	known map[schema.GroupVersionKind]version
}

// version is what was made of a resource. A kind that was replaced has another resource.
type version struct {
	of *registry.Resource
	*managedfields.Version
}

// merge is policy.Options.Merge.
func (s *schemas) merge(kind schema.GroupVersionKind, obj runtime.Object, config map[string]any) (runtime.Object, error) {
	live, ok := obj.(managedfields.Object)
	if !ok {
		return nil, fmt.Errorf("failed to convert patch object to typed object: no corresponding type for %v", kind)
	}
	v, err := s.version(kind, live)
	if err != nil {
		return nil, err
	}
	return s.schema.Merge(v, live, config)
}

// version returns what is known of a kind: that of a resource, or of a subresource, whose Go type tells.
func (s *schemas) version(kind schema.GroupVersionKind, obj managedfields.Object) (*managedfields.Version, error) {
	res, ok := s.kinds.Find(kind)
	if !ok {
		if _, untyped := obj.(runtime.Unstructured); untyped {
			return nil, apierrors.NewServiceUnavailable(fmt.Sprintf(
				"Resource kind %s not found. There can be a delay between when CustomResourceDefinitions are created and when they are available.", kind))
		}
		return &managedfields.Version{GroupVersionKind: kind, New: func() managedfields.Object { return empty(obj) }}, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if v := s.known[kind]; v.of == res {
		return v.Version, nil
	}
	v := version{res, &managedfields.Version{GroupVersionKind: kind, New: func() managedfields.Object { return res.New() }}}
	if res.Schema != nil {
		v.Schema = managedfields.NewOpenAPI(res.Schema)
	}
	if s.known == nil {
		s.known = map[schema.GroupVersionKind]version{}
	}
	s.known[kind] = v
	return v.Version, nil
}

// empty returns an empty object of the same Go type.
func empty(obj managedfields.Object) managedfields.Object {
	return reflect.New(reflect.TypeOf(obj).Elem()).Interface().(managedfields.Object)
}
