package apiserver

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/registry/codec"
)

// encode encodes any object with its type. The encodings of items of the registry are kept; those of others are not.
func encode(m mediaType, gvk schema.GroupVersionKind, obj runtime.Object) ([]byte, error) {
	obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	if m == mediaProtobuf {
		return codec.Protobuf(gvk, obj)
	}
	data, err := codec.JSON(gvk, obj)
	if err != nil {
		return nil, err
	}
	return m.from(append(data, '\n'))
}

func writeBytes(w http.ResponseWriter, code int, f format, data []byte) {
	data = f.indent(data)
	w.Header().Set("Content-Type", string(f.mediaType))
	w.Header().Set("Cache-Control", "no-cache, private")
	w.WriteHeader(code)
	_, _ = w.Write(data) // a client that is gone is no error of ours
}

// indent indents JSON, if people read it.
func (f format) indent(data []byte) []byte {
	var b bytes.Buffer
	if !f.pretty || json.Indent(&b, bytes.TrimSuffix(data, []byte("\n")), "", "  ") != nil {
		return data
	}
	return b.Bytes()
}

// writeObject answers with an object that is not an item of the registry.
func writeObject(w http.ResponseWriter, r *http.Request, code int, gvk schema.GroupVersionKind, obj runtime.Object) {
	f, ok := negotiate(r, formats{protobuf: codec.HasProtobuf(obj)})
	if !ok {
		writeError(w, r, notAcceptable(offered(r)))
		return
	}
	data, err := encode(f.mediaType, gvk, obj)
	if err != nil {
		writeError(w, r, err)
		return
	}
	writeBytes(w, code, f, data)
}

// writeError answers with a Status, in a form that the client accepts or else in JSON.
func writeError(w http.ResponseWriter, r *http.Request, err error) {
	status := statusOf(err)
	f, _ := negotiate(r, formats{protobuf: true})
	data, encodeErr := encode(f.mediaType, statusGVK(), status)
	if encodeErr != nil {
		http.Error(w, errors.Join(err, encodeErr).Error(), http.StatusInternalServerError)
		return
	}
	if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", itoa(int64(status.Details.RetryAfterSeconds)))
	}
	writeBytes(w, int(status.Code), f, data)
}

// internalError answers as upstream's filters do when they fail themselves.
func internalError(w http.ResponseWriter, r *http.Request, err error) {
	uri := cmp.Or(r.RequestURI, r.URL.RequestURI())
	http.Error(w, escape(fmt.Sprintf("Internal Server Error: %q: %v", uri, err)), http.StatusInternalServerError)
}

// typePrefix is how the JSON of an object of a type begins.
func typePrefix(gvk schema.GroupVersionKind) string {
	apiVersion, kind := gvk.ToAPIVersionAndKind()
	return `{"kind":"` + kind + `","apiVersion":"` + apiVersion + `"`
}

// appendTyped appends a JSON object that lacks its type to a typePrefix.
func appendTyped(to []byte, prefix string, body []byte) []byte {
	to = append(to, prefix...)
	if len(body) > 2 { // more than {}
		to = append(to, ',')
	}
	return append(to, body[1:]...)
}

func marshalListMeta(meta metav1.ListMeta) []byte {
	data, _ := json.Marshal(meta) //nolint:errchkjson // strings and a number marshal
	return data
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// eventFrame wraps an encoded object in a watch event: a line of JSON, a protobuf message after its length in four bytes, or,
// of an object in JSON, a CBOR item.
func eventFrame(m mediaType, t informer.EventType, object []byte) ([]byte, error) {
	if m == mediaProtobuf {
		message := appendField(nil, 1, []byte(t))
		message = appendField(message, 2, appendField(nil, 1, object))
		return append(binary.BigEndian.AppendUint32(nil, uint32(len(message))), message...), nil
	}
	for len(object) > 0 && object[len(object)-1] == '\n' {
		object = object[:len(object)-1]
	}
	out := make([]byte, 0, len(object)+len(t)+24)
	out = append(out, `{"type":"`...)
	out = append(out, t...)
	out = append(out, `","object":`...)
	out = append(out, object...)
	return m.from(append(out, "}\n"...))
}
