package apiserver

import (
	"encoding/binary"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/internal/boundedyaml"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/codec"
)

// piece is how much of a list is gathered before it is written to the client.
const piece = 64 << 10

// textList is a list as JSON: what stands before its items, what they are when there are none,
// and how to append one.
type textList struct {
	head   []byte
	none   string
	append func(to []byte, i *registry.Item) ([]byte, error)
}

// writeList answers with a list, in the form that the client wants. What is written is never
// whole in memory, but for YAML and for people.
func (c *call) writeList(l *registry.List) {
	f, err := c.accept()
	if err == nil && f.as.Kind == kindMetadata {
		err = noObject(c.GroupVersion.WithKind(c.Names.Kind + "List"))
	}
	if err != nil {
		c.fail(err)
		return
	}
	if f.media == mediaProtobuf {
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

func (c *call) textList(f form, l *registry.List) (*textList, error) {
	if f.as.Kind == kindTable {
		t, err := c.table(f)
		if err != nil {
			return nil, err
		}
		return t.list(listMeta(l)), nil
	}
	t := &textList{none: "[]", append: func(to []byte, i *registry.Item) ([]byte, error) {
		body, err := c.body(i)
		return append(to, body...), err
	}}
	gvk := c.listGVK()
	if f.as.Kind == kindMetadataList {
		gvk, t.none = f.as, "null" // as upstream's
		prefix := typePrefix(f.as.GroupVersion().WithKind(kindMetadata))
		t.append = func(to []byte, i *registry.Item) ([]byte, error) {
			body, err := c.metadata(mediaJSON, i)
			if err != nil {
				return to, err
			}
			return appendTyped(to, prefix, body), nil
		}
	}
	t.head = append(t.head, typePrefix(gvk)+`,"metadata":`...)
	t.head = append(t.head, marshalListMeta(listMeta(l))...)
	t.head = append(t.head, `,"items":`...)
	return t, nil
}

func (c *call) writeTextList(f form, t *textList, items []*registry.Item) {
	w := pieces{call: c, media: f.media, buffer: t.head}
	whole := f.media == mediaYAML || f.pretty
	if len(items) == 0 {
		w.buffer = append(w.buffer, t.none...)
	} else {
		w.buffer = append(w.buffer, '[')
	}
	for n, i := range items {
		if n > 0 {
			w.buffer = append(w.buffer, ',')
		}
		err := c.over()
		if err == nil {
			w.buffer, err = t.append(w.buffer, i)
		}
		if err != nil {
			w.fail(err)
			return
		}
		if !whole && !w.flush(piece) {
			return
		}
	}
	if len(items) > 0 {
		w.buffer = append(w.buffer, ']')
	}
	w.buffer = append(w.buffer, "}\n"...)
	if f.media == mediaYAML {
		var err error
		if w.buffer, err = boundedyaml.FromJSON(w.buffer); err != nil {
			w.fail(err)
			return
		}
	}
	w.buffer = f.layOut(w.buffer)
	w.flush(0)
}

// writeProtobufList writes the message that every upstream list is: its metadata as field 1,
// its items as field 2, or in the old list of metadata the other way round.
func (c *call) writeProtobufList(f form, l *registry.List) {
	gvk, raw, head, item := c.listGVK(), c.raw, 1, 2
	if f.as.Kind == kindMetadataList {
		gvk = f.as
		raw = func(i *registry.Item) ([]byte, error) { return c.metadata(mediaProtobuf, i) }
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
			err = c.over()
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
	w := pieces{call: c, media: f.media, buffer: before}
	for _, f := range fields {
		w.buffer = f.append(w.buffer)
		if !w.flush(piece) {
			return
		}
	}
	w.buffer = append(w.buffer, after...)
	w.flush(0)
}

// protoField is a length-delimited field of a protobuf message.
type protoField struct {
	number int
	value  []byte
}

func (f protoField) size() int {
	return 1 + len(binary.AppendUvarint(nil, uint64(len(f.value)))) + len(f.value)
}

func (f protoField) append(to []byte) []byte { return appendField(to, f.number, f.value) }

// appendField appends a length-delimited protobuf field.
func appendField(to []byte, number int, value []byte) []byte {
	to = append(to, byte(number<<3|2))
	to = binary.AppendUvarint(to, uint64(len(value)))
	return append(to, value...)
}

// pieces writes an answer bit by bit.
type pieces struct {
	call   *call
	media  media
	buffer []byte
	begun  bool
}

// flush writes what is gathered if it is at least so much; false when the client is gone.
func (p *pieces) flush(atLeast int) bool {
	if len(p.buffer) < atLeast {
		return true
	}
	w := p.call.w
	if !p.begun {
		p.begun = true
		w.Header().Set("Content-Type", string(p.media))
		w.Header().Set("Cache-Control", "no-cache, private")
		w.WriteHeader(http.StatusOK)
	}
	_, err := w.Write(p.buffer)
	p.buffer = p.buffer[:0]
	return err == nil
}

// fail answers with an error, or breaks the connection if the answer has begun.
func (p *pieces) fail(err error) {
	if p.begun {
		panic(http.ErrAbortHandler)
	}
	p.call.fail(err)
}
