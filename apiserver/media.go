package apiserver

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/keelson-dev/keelson/registry/codec"
)

// media is one way to write objects.
type media string

const (
	mediaJSON     media = "application/json"
	mediaYAML     media = "application/yaml"
	mediaProtobuf media = "application/vnd.kubernetes.protobuf"
)

var offered = []string{string(mediaJSON), string(mediaYAML), string(mediaProtobuf)}

// streamed are further types that collections offer, for watches.
var streamed = []string{string(mediaJSON) + ";stream=watch", string(mediaProtobuf) + ";stream=watch"}

// clause is one of the choices of an Accept header.
type clause struct {
	name    string
	params  map[string]string
	quality float64
}

// clauses reads an Accept header, the most wanted first. What is malformed is left out.
func clauses(header string) []clause {
	var out []clause
	for _, part := range strings.Split(header, ",") {
		name, params, err := mime.ParseMediaType(strings.TrimSpace(part))
		if err != nil {
			continue
		}
		c := clause{name: name, params: params, quality: 1}
		if q, err := strconv.ParseFloat(params["q"], 64); err == nil {
			c.quality = q
		}
		out = append(out, c)
	}
	slices.SortStableFunc(out, func(a, b clause) int { return cmp.Compare(b.quality, a.quality) })
	return out
}

// acceptable tells whether the Accept header allows any of the offered types at all, whatever
// its parameters.
func acceptable(r *http.Request, offered []string) error {
	header := r.Header.Get("Accept")
	if header == "" {
		return nil
	}
	for _, part := range strings.Split(header, ",") {
		name, _, _ := strings.Cut(strings.TrimSpace(part), ";")
		if name == "*/*" || slices.Contains(offered, name) {
			return nil
		}
	}
	return noRoute(http.StatusNotAcceptable, "406: Not Acceptable\n\nAvailable representations: "+strings.Join(offered, ", "))
}

// accept picks the most wanted media type that can be given. Parameters that ask for another
// shape of the object (as=Table) cannot be met; clients list a plain type behind.
func accept(r *http.Request, protobuf bool) (media, error) {
	header := r.Header.Get("Accept")
	if header == "" {
		return mediaJSON, nil
	}
	for _, c := range clauses(header) {
		if c.params["as"] != "" {
			continue
		}
		switch m := media(c.name); {
		case m == mediaJSON, m == mediaYAML, m == mediaProtobuf && protobuf:
			return m, nil
		case c.name == "*/*", c.name == "application/*":
			return mediaJSON, nil
		}
	}
	if !protobuf {
		return "", notAcceptable(offered[:2])
	}
	return "", notAcceptable(offered)
}

// readBody reads at most limit bytes.
func readBody(r *http.Request, limit int64) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	data, err := io.ReadAll(io.LimitReader(r.Body, limit+1))
	if err != nil {
		return nil, apierrors.NewBadRequest("the request body could not be read: " + err.Error())
	}
	if int64(len(data)) > limit {
		return nil, apierrors.NewRequestEntityTooLargeError("limit is " + json.Number(itoa(limit)).String())
	}
	return data, nil
}

// encode writes any object with its type; it is for answers that are not kept.
func encode(m media, gvk schema.GroupVersionKind, obj runtime.Object) ([]byte, error) {
	obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	switch m {
	case mediaProtobuf:
		return codec.Protobuf(gvk, obj)
	case mediaYAML:
		data, err := codec.JSON(gvk, obj)
		if err != nil {
			return nil, err
		}
		return yaml.JSONToYAML(data)
	}
	data, err := codec.JSON(gvk, obj)
	return append(data, '\n'), err
}

func writeBytes(w http.ResponseWriter, code int, m media, data []byte) {
	w.Header().Set("Content-Type", string(m))
	w.Header().Set("Cache-Control", "no-cache, private")
	w.WriteHeader(code)
	_, _ = w.Write(data) // a client that is gone is no error of ours
}

// writeObject answers with an object that is not kept.
func writeObject(w http.ResponseWriter, r *http.Request, code int, gvk schema.GroupVersionKind, obj runtime.Object) {
	m, err := accept(r, codec.HasProtobuf(obj))
	if err != nil {
		writeError(w, r, err)
		return
	}
	data, err := encode(m, gvk, obj)
	if err != nil {
		writeError(w, r, err)
		return
	}
	writeBytes(w, code, m, data)
}

// writeError answers with a Status, in a form that the client accepts or else in JSON.
func writeError(w http.ResponseWriter, r *http.Request, err error) {
	status := statusOf(err)
	m, acceptErr := accept(r, true)
	if acceptErr != nil {
		m = mediaJSON
	}
	data, encodeErr := encode(m, statusGVK(), status)
	if encodeErr != nil {
		http.Error(w, errors.Join(err, encodeErr).Error(), http.StatusInternalServerError)
		return
	}
	if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", itoa(int64(status.Details.RetryAfterSeconds)))
	}
	writeBytes(w, int(status.Code), m, data)
}
