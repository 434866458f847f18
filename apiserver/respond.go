package apiserver

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/registry"
)

// writeItem answers with an item of the registry, in the form that the client wants.
func (c *call) writeItem(code int, i *registry.Item) {
	f, err := c.accept()
	if err == nil {
		err = c.canceled()
	}
	if err != nil {
		c.fail(err)
		return
	}
	data, err := c.encodeItem(f, i)
	if err != nil {
		c.fail(err)
		return
	}
	writeBytes(c.exchange, code, f, data)
}

// writeWritten is writeItem for what the request has written. The answer is only kept if it takes more than encoding a tree
// of maps: most custom objects are written once and read by few.
func (c *call) writeWritten(code int, i *registry.Item) {
	if c.resource.Decode != nil && c.resource.Batched() == nil {
		i = i.Once()
	}
	c.writeItem(code, i)
}

// respond answers with an object of any type: the one it names, or else gvk.
func (c *call) respond(code int, obj runtime.Object, gvk schema.GroupVersionKind) {
	if status, ok := obj.(*metav1.Status); ok {
		gvk = statusGVK()
		if status.Code == 0 && code == http.StatusCreated {
			status = status.DeepCopy()
			status.Code = int32(code)
			obj = status
		}
	} else if own := obj.GetObjectKind().GroupVersionKind(); own.Kind != "" {
		gvk = own
	}
	c.writeObject(code, gvk, obj)
}

// writeObject answers with an object that is not an item, in the form that the client wants. A Status is never converted.
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
	writeBytes(c.exchange, code, f, data)
}

// encodeItem encodes an item in a form.
func (c *call) encodeItem(f format, i *registry.Item) ([]byte, error) {
	switch f.as.Kind {
	case kindTable:
		t, err := c.table(f)
		if err != nil {
			return nil, err
		}
		return t.single(i, true)
	case kindMetadata:
		return c.endpoint.encodeMetadata(f, i)
	case kindMetadataList:
		return nil, noList(c.resource.Storage().GroupVersion.WithKind(c.resource.Names.Kind))
	}
	return c.endpoint.encodeItem(f.mediaType, i)
}

func (c *call) encodeObject(f format, gvk schema.GroupVersionKind, obj runtime.Object) ([]byte, error) {
	if _, ok := obj.(*metav1.Status); ok || f.as.Kind == "" {
		return encode(f.mediaType, gvk, obj)
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
		t.endpoint = &endpoint{resource: &registry.Resource{}, gv: gvk.GroupVersion()} // which converts nothing
		t.columns, t.prefix = scaleColumns(), typePrefix(gvk)
		return t.single(&registry.Item{Object: of}, true)
	}
	return encode(f.mediaType, f.as, meta.AsPartialObjectMetadata(of))
}

func noList(gvk schema.GroupVersionKind) error {
	return failure(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable,
		"you requested %s, but the requested object is not a list (%s)", kindMetadataList, internalType(gvk))
}

func noObject(gvk schema.GroupVersionKind) error {
	return failure(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable,
		"you requested %s, but the requested object is a list (%s)", kindMetadata, internalType(gvk))
}

// internalType is the name of upstream's Go type, which its messages show.
func internalType(gvk schema.GroupVersionKind) string {
	pkg, _, _ := strings.Cut(cmp.Or(gvk.Group, "core"), ".")
	return "*" + pkg + "." + gvk.Kind
}
