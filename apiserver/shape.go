package apiserver

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/internal/boundedyaml"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/codec"
)

// What a client can have made of an object or list, by the kinds of meta.k8s.io.
const (
	kindTable        = "Table"
	kindMetadata     = "PartialObjectMetadata"
	kindMetadataList = "PartialObjectMetadataList"

	v1beta1 = "v1beta1"
)

// typePrefix begins the JSON of an object of a type.
func typePrefix(gvk schema.GroupVersionKind) string {
	apiVersion, kind := gvk.ToAPIVersionAndKind()
	return `{"kind":"` + kind + `","apiVersion":"` + apiVersion + `"`
}

// appendTyped appends a JSON object without type behind a prefix with one.
func appendTyped(to []byte, prefix string, body []byte) []byte {
	to = append(to, prefix...)
	if len(body) > 2 { // more than {}
		to = append(to, ',')
	}
	return append(to, body[1:]...)
}

// metadata returns an item's metadata alone, as JSON without type or as a protobuf message.
func (e *endpoint) metadata(m media, i *registry.Item) ([]byte, error) {
	of := registry.Form{GroupVersion: e.gv.String(), Media: "json;as=" + kindMetadata}
	if m == mediaProtobuf {
		of.Media = "protobuf;as=" + kindMetadata
	}
	return i.Encoded(of, func(o registry.Object) ([]byte, error) {
		partial := meta.AsPartialObjectMetadata(e.served(o))
		if m == mediaProtobuf {
			return codec.Raw(partial)
		}
		return json.Marshal(partial)
	})
}

// metadataWhole is metadata with its type.
func (e *endpoint) metadataWhole(f form, i *registry.Item) ([]byte, error) {
	body, err := e.metadata(f.media, i)
	if err != nil {
		return nil, err
	}
	switch f.media {
	case mediaProtobuf:
		return codec.Envelope(f.as, body)
	case mediaYAML:
		return boundedyaml.FromJSON(codec.WithType(f.as, body))
	}
	return append(codec.WithType(f.as, body), '\n'), nil
}

// encodeItem writes one item as the client wants it.
func (c *call) encodeItem(f form, i *registry.Item) ([]byte, error) {
	switch f.as.Kind {
	case kindTable:
		t, err := c.table(f)
		if err != nil {
			return nil, err
		}
		return t.single(i, true)
	case kindMetadata:
		return c.metadataWhole(f, i)
	case kindMetadataList:
		return nil, noList(c.GroupVersion.WithKind(c.Names.Kind))
	}
	return c.whole(f.media, i)
}

// writeObject answers with an object that is not kept, in the form that the client wants. A
// Status always stays what it is.
func (c *call) writeObject(code int, gvk schema.GroupVersionKind, obj runtime.Object) {
	f, err := c.accept()
	if err != nil {
		c.fail(err)
		return
	}
	data, err := c.encodeObject(f, gvk, obj)
	if err != nil {
		c.fail(err)
		return
	}
	writeBytes(c.w, code, f, data)
}

func (c *call) encodeObject(f form, gvk schema.GroupVersionKind, obj runtime.Object) ([]byte, error) {
	if _, ok := obj.(*metav1.Status); ok || f.as.Kind == "" {
		return encode(f.media, gvk, obj)
	}
	if f.as.Kind == kindMetadataList {
		return nil, noList(gvk)
	}
	of, ok := obj.(registry.Object)
	if !ok {
		return nil, fmt.Errorf("%T has no metadata", obj)
	}
	if f.as.Kind == kindTable {
		t, err := c.table(f)
		if err != nil {
			return nil, err
		}
		of.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
		t.endpoint = &endpoint{gv: gvk.GroupVersion()} // which converts nothing
		t.columns, t.prefix = scaleColumns(), typePrefix(gvk)
		return t.single(&registry.Item{Object: of}, true)
	}
	return encode(f.media, f.as, meta.AsPartialObjectMetadata(of))
}

func noList(gvk schema.GroupVersionKind) error {
	return failure(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable,
		"you requested %s, but the requested object is not a list (%s)", kindMetadataList, internalType(gvk))
}

func noObject(gvk schema.GroupVersionKind) error {
	return failure(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable,
		"you requested %s, but the requested object is a list (%s)", kindMetadata, internalType(gvk))
}

// internalType is the name of a Go type of upstream's, which its messages show.
func internalType(gvk schema.GroupVersionKind) string {
	pkg, _, _ := strings.Cut(cmp.Or(gvk.Group, "core"), ".")
	return "*" + pkg + "." + gvk.Kind
}
