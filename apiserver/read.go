package apiserver

import (
	"context"
	"encoding/binary"
	"net/http"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	ivalidation "k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/codec"
)

func (c *call) get(ctx context.Context) {
	item, err := c.Get(ctx, c.namespace(), c.q.Name, c.r.URL.Query().Get("resourceVersion"))
	if err != nil {
		c.fail(err)
		return
	}
	c.write(c.w, c.r, 200, item)
}

func (c *call) list(ctx context.Context) {
	l, err := c.find(ctx)
	if err != nil {
		c.fail(err)
		return
	}
	c.writeList(l)
}

// find lists what the request selects.
func (c *call) find(ctx context.Context) (*registry.List, error) {
	o, selection, err := c.listOptions(c.r.URL.Query(), false)
	if err != nil {
		return nil, err
	}
	return c.List(ctx, registry.ListOptions{
		Selection: selection, Limit: o.Limit, Continue: o.Continue,
		ResourceVersion: o.ResourceVersion, Match: o.ResourceVersionMatch,
	})
}

func (c *call) writeList(l *registry.List) {
	m, err := accept(c.r, c.protobuf())
	if err != nil {
		c.fail(err)
		return
	}
	data, err := c.encodeList(m, l)
	if err != nil {
		c.fail(err)
		return
	}
	writeBytes(c.w, http.StatusOK, m, data)
}

// encodeList concatenates the items' kept encodings.
func (e *endpoint) encodeList(m media, l *registry.List) ([]byte, error) {
	meta := metav1.ListMeta{ResourceVersion: itoa(l.Revision), Continue: l.Continue, RemainingItemCount: l.Remaining}
	if m == mediaProtobuf {
		return e.encodeListProtobuf(meta, l.Items)
	}
	apiVersion, kind := e.listGVK().ToAPIVersionAndKind()
	size := 0
	bodies := make([][]byte, len(l.Items))
	for i, item := range l.Items {
		body, err := e.body(item)
		if err != nil {
			return nil, err
		}
		bodies[i] = body
		size += len(body) + 1
	}
	data := make([]byte, 0, size+256)
	data = append(data, `{"kind":"`+kind+`","apiVersion":"`+apiVersion+`","metadata":`...)
	data = append(data, marshalListMeta(meta)...)
	data = append(data, `,"items":[`...)
	for i, body := range bodies {
		if i > 0 {
			data = append(data, ',')
		}
		data = append(data, body...)
	}
	data = append(data, "]}\n"...)
	if m == mediaYAML {
		return yaml.JSONToYAML(data)
	}
	return data, nil
}

// encodeListProtobuf writes the message that every upstream list is: its metadata as field 1,
// its items as field 2.
func (e *endpoint) encodeListProtobuf(meta metav1.ListMeta, items []*registry.Item) ([]byte, error) {
	head, err := meta.Marshal()
	if err != nil {
		return nil, err
	}
	raw := appendField(nil, 1, head)
	for _, item := range items {
		body, err := e.raw(item)
		if err != nil {
			return nil, err
		}
		raw = appendField(raw, 2, body)
	}
	return codec.Envelope(e.listGVK(), raw)
}

// appendField appends a length-delimited protobuf field.
func appendField(to []byte, number int, value []byte) []byte {
	to = append(to, byte(number<<3|2))
	to = binary.AppendUvarint(to, uint64(len(value)))
	return append(to, value...)
}

// listOptions reads and checks the parameters of a list, a watch or a deletion of a collection.
func (c *call) listOptions(query url.Values, watch bool) (metav1.ListOptions, registry.Selection, error) {
	var o metav1.ListOptions
	selection := registry.Selection{Namespace: c.namespace()}
	if err := metav1.Convert_url_Values_To_v1_ListOptions(&query, &o, nil); err != nil {
		return o, selection, apierrors.NewBadRequest(err.Error())
	}
	o.Watch = watch
	var err error
	if selection.Labels, err = labels.Parse(o.LabelSelector); err != nil {
		return o, selection, apierrors.NewBadRequest(err.Error())
	}
	if selection.Fields, err = fields.ParseAndTransformSelector(o.FieldSelector, func(label, value string) (string, string, error) {
		label, err := c.fieldLabel(label)
		return label, value, err
	}); err != nil {
		return o, selection, apierrors.NewBadRequest(err.Error())
	}
	internal := internalversion.ListOptions{
		LabelSelector: selection.Labels, FieldSelector: selection.Fields, Watch: watch,
		AllowWatchBookmarks: o.AllowWatchBookmarks, ResourceVersion: o.ResourceVersion,
		ResourceVersionMatch: o.ResourceVersionMatch, TimeoutSeconds: o.TimeoutSeconds,
		Limit: o.Limit, Continue: o.Continue, SendInitialEvents: o.SendInitialEvents,
	}
	if errs := ivalidation.ValidateListOptions(&internal, true); len(errs) > 0 {
		return o, selection, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "ListOptions"}, "", errs)
	}
	if o.Limit < 0 {
		o.Limit = 0
	}
	if name := c.q.Name; watch && name != "" {
		// Watching one object by path is watching by its name.
		if by, ok := selection.Fields.RequiresExactMatch("metadata.name"); ok && by != name {
			return o, selection, apierrors.NewBadRequest("fieldSelector metadata.name doesn't match requested name")
		}
		selection.Fields = fields.AndSelectors(selection.Fields, fields.OneTermEqualSelector("metadata.name", name))
	}
	return o, selection, nil
}
