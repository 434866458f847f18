package apiserver

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/codec"
)

// endpoint is one resource in one group-version.
type endpoint struct {
	resource *registry.Resource
	names    registry.Names
	gv       schema.GroupVersion
	trackers sync.Map // *managedfields.Tracker by subresource
	schemas  sync.Map // *managedfields.OpenAPI by schema.GroupVersion
}

func (e *endpoint) gvr() schema.GroupVersionResource { return e.gv.WithResource(e.names.Plural) }

func (e *endpoint) gvk() schema.GroupVersionKind { return e.gv.WithKind(e.names.Kind) }

func (e *endpoint) listGVK() schema.GroupVersionKind { return e.gv.WithKind(e.names.ListKind()) }

// hasProtobuf tells whether objects can be written as protobuf.
func (e *endpoint) hasProtobuf() bool {
	return e.resource.New != nil && codec.HasProtobuf(e.resource.New()) || e.resource.NewRequest != nil && codec.HasProtobuf(e.resource.NewRequest())
}

// served converts a stored object, which may be shared, to this version.
func (e *endpoint) served(obj registry.Object) (registry.Object, error) {
	return e.resource.FromStored(context.Background(), obj)
}

// view returns what clients see of an item in this version, for an encoding that later requests share. It is shared and must
// not be changed.
func (e *endpoint) view(i *registry.Item) (registry.Object, error) {
	if e.resource.Batched() == nil {
		return e.resource.Shown(context.Background(), i)
	}
	return i.Converted(e.gv.String(), func(registry.Object) (registry.Object, error) { return e.served(e.resource.Decorated(i)) })
}

// convert converts items together whose conversion is made for that: a webhook is asked once for a list instead of once for
// each of its objects.
func (e *endpoint) convert(ctx context.Context, items []*registry.Item) error {
	all := e.resource.Batched()
	if all == nil {
		return nil
	}
	var missing []*registry.Item
	var objs []registry.Object
	for _, i := range items {
		if !i.HasConverted(e.gv.String()) {
			missing, objs = append(missing, i), append(objs, e.resource.Decorated(i))
		}
	}
	if len(missing) == 0 {
		return nil
	}
	converted, err := all(ctx, objs)
	if err != nil {
		return err
	}
	for n, i := range missing {
		_, _ = i.Converted(e.gv.String(), func(registry.Object) (registry.Object, error) { return converted[n], nil })
	}
	return nil
}

// itemJSON returns an item in this version as JSON, without its type.
func (e *endpoint) itemJSON(i *registry.Item) ([]byte, error) {
	return i.Encoded(registry.Form{GroupVersion: e.gv.String(), Media: "json"}, func(registry.Object) ([]byte, error) {
		served, err := e.view(i)
		if err != nil {
			return nil, err
		}
		return codec.Body(served)
	})
}

// itemProtobuf returns an item in this version as a protobuf message, without envelope.
func (e *endpoint) itemProtobuf(i *registry.Item) ([]byte, error) {
	return i.Encoded(registry.Form{GroupVersion: e.gv.String(), Media: "protobuf"}, func(registry.Object) ([]byte, error) {
		served, err := e.view(i)
		if err != nil {
			return nil, err
		}
		return codec.Raw(served)
	})
}

// encodeItem returns an item with its type, in a media type.
func (e *endpoint) encodeItem(m mediaType, i *registry.Item) ([]byte, error) {
	if m == mediaProtobuf {
		raw, err := e.itemProtobuf(i)
		if err != nil {
			return nil, err
		}
		return codec.Envelope(e.gvk(), raw)
	}
	body, err := e.itemJSON(i)
	if err != nil {
		return nil, err
	}
	return m.from(append(codec.WithType(e.gvk(), body), '\n'))
}

// verbs are those that discovery lists for the resource.
func (e *endpoint) verbs() metav1.Verbs {
	if e.resource.Answer != nil {
		return metav1.Verbs{"create"}
	}
	if e.resource.Read != nil {
		return metav1.Verbs{"get", "list"}
	}
	if e.resource.Rules.Deletion.Ending != nil && e.resource.Rules.Deletion.Ending() {
		return strings.Fields("delete deletecollection get list watch")
	}
	if e.resource.Rules.Deletion.Singly {
		return strings.Fields("create delete get list patch update watch")
	}
	return strings.Fields("create delete deletecollection get list patch update watch")
}

// itemMetadata returns an item's metadata alone, as JSON without type or as a protobuf message.
func (e *endpoint) itemMetadata(m mediaType, i *registry.Item) ([]byte, error) {
	of := registry.Form{GroupVersion: e.gv.String(), Media: "json;as=" + kindMetadata}
	if m == mediaProtobuf {
		of.Media = "protobuf;as=" + kindMetadata
	}
	return i.Encoded(of, func(registry.Object) ([]byte, error) {
		served, err := e.view(i)
		if err != nil {
			return nil, err
		}
		partial := meta.AsPartialObjectMetadata(served)
		if m == mediaProtobuf {
			return codec.Raw(partial)
		}
		return json.Marshal(partial)
	})
}

// encodeMetadata returns an item's metadata with its type.
func (e *endpoint) encodeMetadata(f format, i *registry.Item) ([]byte, error) {
	body, err := e.itemMetadata(f.mediaType, i)
	if err != nil {
		return nil, err
	}
	if f.mediaType == mediaProtobuf {
		return codec.Envelope(f.as, body)
	}
	return f.mediaType.from(append(codec.WithType(f.as, body), '\n'))
}

// serves tells whether the endpoint's objects are also served as this type.
func (e *endpoint) serves(gvk schema.GroupVersionKind) bool {
	return slices.ContainsFunc(e.resource.Versions(), func(v *registry.Resource) bool { return gvk == v.GroupVersion.WithKind(v.Names.Kind) })
}
