package remote

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/component"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/wire"
)

// feed reads a server's objects.
type feed struct {
	config *rest.Config
	scheme *runtime.Scheme
	stored []component.Resource
}

// discover finds the resources that the server stores: those that can be listed, watched and deleted, each in the
// version that the server prefers.
func (m *Manager) discover(ctx context.Context) (*feed, error) {
	d, err := discovery.NewDiscoveryClientForConfig(m.config)
	if err != nil {
		return nil, err
	}
	groups, lists, err := d.ServerGroupsAndResourcesWithContext(ctx)
	if err != nil {
		return nil, err
	}
	byVersion := map[string][]metav1.APIResource{}
	for _, list := range lists {
		byVersion[list.GroupVersion] = list.APIResources
	}
	f := &feed{config: m.config, scheme: m.scheme}
	for _, g := range groups {
		known := map[string]bool{}
		for _, v := range append([]metav1.GroupVersionForDiscovery{g.PreferredVersion}, g.Versions...) {
			all := byVersion[v.GroupVersion]
			for _, r := range all {
				if !stored(r) || known[r.Name] {
					continue
				}
				known[r.Name] = true
				f.stored = append(f.stored, component.Resource{
					GroupVersionResource: schema.GroupVersionResource{Group: g.Name, Version: v.Version, Resource: r.Name},
					Kind:                 r.Kind, Namespaced: r.Namespaced,
					Scalable: slices.ContainsFunc(all, func(s metav1.APIResource) bool { return s.Name == r.Name+"/scale" }),
				})
			}
		}
	}
	return f, nil
}

// stored reports whether a resource has objects that can be listed, watched and deleted.
func stored(r metav1.APIResource) bool {
	for _, verb := range []string{"list", "watch", "delete"} {
		if !slices.Contains(r.Verbs, verb) {
			return false
		}
	}
	return !strings.Contains(r.Name, "/")
}

func (f *feed) resources() ([]component.Resource, error) { return f.stored, nil }

// New implements component.Feed.
func (f *feed) New(resource schema.GroupVersionResource) (informer.Object, error) {
	for _, r := range f.stored {
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
