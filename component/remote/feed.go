package remote

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/component"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/wire"
)

// feed reads a server's objects.
type feed struct {
	config *rest.Config
	scheme *runtime.Scheme
	known  func() []component.Resource
}

// New implements component.Feed.
func (f *feed) New(resource schema.GroupVersionResource) (informer.Object, error) {
	for _, r := range f.known() {
		if r.GroupResource() != resource.GroupResource() {
			continue
		}
		obj, err := f.scheme.New(resource.GroupVersion().WithKind(r.Kind))
		if err != nil {
			return nil, err
		}
		typed, ok := obj.(informer.Object)
		if !ok {
			return nil, fmt.Errorf("%T is no object", obj)
		}
		return typed, nil
	}
	return nil, fmt.Errorf("%s: %w", resource.GroupResource(), ErrNotServed)
}

// Objects implements component.Feed.
func (f *feed) Objects(resource schema.GroupVersionResource) (informer.Source[informer.Object], error) {
	empty, err := f.New(resource)
	if err != nil {
		return nil, err
	}
	config := rest.CopyConfig(f.config)
	if _, ok := empty.(runtime.ProtobufMarshaller); ok && config.ContentType == "" && config.AcceptContentTypes == "" {
		config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	}
	return wire.New[informer.Object](config, f.scheme, resource, wire.Options{})
}

// Metadata implements component.Feed; the server sends only the metadata.
func (f *feed) Metadata(resource schema.GroupVersionResource) (informer.Source[informer.Object], error) {
	source, err := wire.NewMetadata(f.config, resource, wire.Options{})
	if err != nil {
		return nil, err
	}
	return informer.Convert(source, func(obj *metav1.PartialObjectMetadata) (informer.Object, error) { return obj, nil }, nil), nil
}
