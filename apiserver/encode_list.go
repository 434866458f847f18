package apiserver

import (
	"bytes"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/codec"
)

// listChunk is how much of a list is buffered before it is written to the client.
const listChunk = 64 << 10

// textList is how a list is encoded as JSON: what comes before its items, what stands for no items, and how to append one.
type textList struct {
	head   []byte
	empty  string
	append func(to []byte, i *registry.Item) ([]byte, error)
}

// writeList answers with a list, in the form that the client wants. Only YAML and indented JSON are ever in memory as a
// whole.
func (c *call) writeList(l *registry.List) {
	f, err := c.accept()
	if err == nil && f.as.Kind == kindMetadata {
		err = noObject(c.resource.Storage().GroupVersion.WithKind(c.resource.ListKind()))
	}
	if err != nil {
		c.fail(err)
		return
	}
	if f.mediaType == mediaProtobuf {
		c.writeProtobufList(f, l)
		return
	}
	t, err := c.textList(f, l)
	if err != nil {
		c.fail(err)
		return
	}
	c.writeTextList(f, t, l.Items)
}

func listMeta(l *registry.List) metav1.ListMeta {
	return metav1.ListMeta{ResourceVersion: itoa(l.Revision), Continue: l.Continue, RemainingItemCount: l.Remaining}
}

func (c *call) textList(f format, l *registry.List) (*textList, error) {
	if f.as.Kind == kindTable {
		t, err := c.table(f)
		if err != nil {
			return nil, err
		}
		return t.list(listMeta(l), l.Items)
	}
	t := &textList{empty: "[]", append: func(to []byte, i *registry.Item) ([]byte, error) {
		body, err := c.endpoint.itemJSON(i)
		return append(to, body...), err
	}}
	gvk, meta := c.endpoint.listGVK(), marshalListMeta(listMeta(l))
	if c.resource.Decode != nil && f.as.Kind != kindMetadataList {
		meta = c.typeItems(t, meta)
	}
	if f.as.Kind == kindMetadataList {
		gvk, t.empty = f.as, "null" // as upstream's
		prefix := typePrefix(f.as.GroupVersion().WithKind(kindMetadata))
		t.append = func(to []byte, i *registry.Item) ([]byte, error) {
			body, err := c.endpoint.itemMetadata(mediaJSON, i)
			if err != nil {
				return to, err
			}
			return appendTyped(to, prefix, body), nil
		}
	}
	t.head = append(t.head, typePrefix(gvk)+`,"metadata":`...)
	t.head = append(t.head, meta...)
	t.head = append(t.head, `,"items":`...)
	return t, nil
}

// typeItems gives each item its type, as upstream's lists of objects without a Go type do: the kind of a list need not
// tell that of its items. It returns the list's metadata in upstream's form, in which they are never without continue.
func (c *call) typeItems(t *textList, meta []byte) []byte {
	prefix := typePrefix(c.endpoint.gv.WithKind(c.resource.Kind.Kind))
	t.append = func(to []byte, i *registry.Item) ([]byte, error) {
		body, err := c.endpoint.itemJSON(i)
		if err != nil {
			return to, err
		}
		return appendTyped(to, prefix, body), nil
	}
	if !bytes.Contains(meta, []byte(`"continue":`)) {
		meta = append(bytes.TrimSuffix(meta, []byte("}")), `,"continue":""}`...)
	}
	return meta
}

func (c *call) writeTextList(f format, t *textList, items []*registry.Item) {
	w := chunkWriter{call: c, mediaType: f.mediaType, buffer: t.head}
	whole := f.mediaType.converted() || f.pretty
	if len(items) == 0 {
		w.buffer = append(w.buffer, t.empty...)
	} else {
		w.buffer = append(w.buffer, '[')
	}
	for n, i := range items {
		if n > 0 {
			w.buffer = append(w.buffer, ',')
		}
		err := c.canceled()
		if err == nil {
			w.buffer, err = t.append(w.buffer, i)
		}
		if err != nil {
			w.fail(err)
			return
		}
		if !whole && !w.flush(listChunk) {
			return
		}
	}
	if len(items) > 0 {
		w.buffer = append(w.buffer, ']')
	}
	w.buffer = append(w.buffer, "}\n"...)
	var err error
	if w.buffer, err = f.mediaType.from(w.buffer); err != nil {
		w.fail(err)
		return
	}
	w.buffer = f.indent(w.buffer)
	w.flush(0)
}

// writeProtobufList writes the message that every upstream list is: its metadata as field 1,
// its items as field 2. In the v1beta1 list of metadata it is the other way round.
func (c *call) writeProtobufList(f format, l *registry.List) {
	gvk, raw, head, item := c.endpoint.listGVK(), c.endpoint.itemProtobuf, 1, 2
	if f.as.Kind == kindMetadataList {
		gvk = f.as
		raw = func(i *registry.Item) ([]byte, error) { return c.endpoint.itemMetadata(mediaProtobuf, i) }
		if f.as.Version == v1beta1 {
			head, item = 2, 1
		}
	}
	m := listMeta(l)
	fields := make([]protoField, len(l.Items)+1)
	encoded, err := m.Marshal()
	fields[0] = protoField{head, encoded}
	size := fields[0].size()
	for n, i := range l.Items {
		if err == nil {
			err = c.canceled()
		}
		if err == nil {
			encoded, err = raw(i)
		}
		fields[n+1] = protoField{item, encoded}
		size += fields[n+1].size()
	}
	before, after, envelopeErr := codec.Around(gvk, size)
	if err == nil {
		err = envelopeErr
	}
	if err != nil {
		c.fail(err)
		return
	}
	w := chunkWriter{call: c, mediaType: f.mediaType, buffer: before}
	for _, f := range fields {
		w.buffer = f.append(w.buffer)
		if !w.flush(listChunk) {
			return
		}
	}
	w.buffer = append(w.buffer, after...)
	w.flush(0)
}

// chunkWriter writes an answer in chunks.
type chunkWriter struct {
	call      *call
	mediaType mediaType
	buffer    []byte
	begun     bool
}

// flush writes what is buffered, if that is at least so much. It returns false if the client is gone.
func (p *chunkWriter) flush(atLeast int) bool {
	if len(p.buffer) < atLeast {
		return true
	}
	w := p.call.exchange
	if !p.begun {
		p.begun = true
		w.Header().Set("Content-Type", string(p.mediaType))
		w.Header().Set("Cache-Control", "no-cache, private")
		w.WriteHeader(http.StatusOK)
	}
	_, err := w.Write(p.buffer)
	p.buffer = p.buffer[:0]
	return err == nil
}

// fail answers with an error, or breaks the connection if the answer has begun.
func (p *chunkWriter) fail(err error) {
	if p.begun {
		panic(http.ErrAbortHandler)
	}
	p.call.fail(err)
}
