package apiserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/munnerz/goautoneg"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/internal/boundedyaml"
	"github.com/keelson-dev/keelson/registry/codec"
)

// media is one way to write objects.
type media string

const (
	mediaJSON     media = "application/json"
	mediaYAML     media = "application/yaml"
	mediaProtobuf media = "application/vnd.kubernetes.protobuf"
)

func offered() []string { return []string{string(mediaJSON), string(mediaYAML), string(mediaProtobuf)} }

// streamed are further types that collections offer, for watches.
func streamed() []string {
	return []string{string(mediaJSON) + ";stream=watch", string(mediaProtobuf) + ";stream=watch"}
}

// form is how a client is answered.
type form struct {
	media media
	// as is what is made of the object: a table of meta.k8s.io or the metadata alone. The zero
	// value is the object as it is.
	as schema.GroupVersionKind
	// pretty lays JSON out for people.
	pretty bool
}

// offer is what can be made of an answer.
type offer struct {
	protobuf bool // the object itself
	metadata bool // its metadata alone, as every media type
	table    bool // a table of it, as text
}

// negotiate picks the form that an Accept header wants most among those that can be given. It
// is false when there is none: errors about that are JSON for people.
func negotiate(r *http.Request, o offer) (form, bool) {
	header := r.Header.Get("Accept")
	if header == "" {
		return form{media: mediaJSON, pretty: forPeople(r)}, true
	}
	for _, clause := range goautoneg.ParseAccept(header) {
		for _, m := range offered() {
			class, sub, _ := strings.Cut(m, "/")
			matches := clause.Type == class && (clause.SubType == sub || clause.SubType == "*")
			if !matches && (clause.Type != "*" || clause.SubType != "*") {
				continue
			}
			if f, ok := o.take(media(m), clause.Params); ok {
				f.pretty = f.media == mediaJSON && (f.pretty || forPeople(r))
				return f, true
			}
		}
	}
	return form{media: mediaJSON, pretty: true}, false
}

// forPeople tells whether a request is made by somebody who reads the answer, as upstream sees it: by
// the parameter "pretty" or else by the program.
func forPeople(r *http.Request) bool {
	if strings.Contains(r.URL.RawQuery, "pretty") {
		if value := r.URL.Query().Get("pretty"); value != "" {
			pretty, _ := strconv.ParseBool(value) // what is no answer is no
			return pretty
		}
	}
	agent := r.UserAgent()
	return strings.HasPrefix(agent, "curl") || strings.HasPrefix(agent, "Wget") || strings.HasPrefix(agent, "Mozilla/5.0")
}

// take tells whether a media type can be given with the parameters of a clause, and as what.
func (o offer) take(m media, params map[string]string) (form, bool) {
	f := form{media: m}
	converted := false
	for key, value := range params {
		switch key {
		case "as":
			f.as.Kind, converted = value, true
		case "g":
			f.as.Group, converted = value, true
		case "v":
			f.as.Version, converted = value, true
		case "pretty":
			f.pretty = value == "1"
		case "stream":
			if value != "" && (value != "watch" || m == mediaYAML) {
				return form{}, false
			}
		case "sv":
			if value != "" && (value != "v1" || !o.metadata) {
				return form{}, false
			}
		}
	}
	if !converted {
		return f, m != mediaProtobuf || o.protobuf
	}
	if f.as.Group != metav1.GroupName || f.as.Version != "v1" && f.as.Version != v1beta1 {
		return form{}, false
	}
	switch f.as.Kind {
	case kindTable:
		return f, o.table && m != mediaProtobuf
	case kindMetadata, kindMetadataList:
		return f, o.metadata
	}
	return form{}, false
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

// accept picks the form in which this request is answered.
func (c *call) accept() (form, error) {
	sub := c.q.Subresource
	f, ok := negotiate(c.r, offer{
		protobuf: c.protobuf() || sub == "scale",
		metadata: true,
		table:    c.Answer == nil && (sub == "" || sub == "status" || sub == "scale"),
	})
	if !ok {
		return form{}, notAcceptable(offered())
	}
	return f, nil
}

// readBody reads at most limit bytes.
func readBody(r *http.Request, limit int64) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	data, err := io.ReadAll(io.LimitReader(r.Body, limit+1))
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		return nil, err
	}
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
		return boundedyaml.FromJSON(data)
	}
	data, err := codec.JSON(gvk, obj)
	return append(data, '\n'), err
}

func writeBytes(w http.ResponseWriter, code int, f form, data []byte) {
	data = f.layOut(data)
	w.Header().Set("Content-Type", string(f.media))
	w.Header().Set("Cache-Control", "no-cache, private")
	w.WriteHeader(code)
	_, _ = w.Write(data) // a client that is gone is no error of ours
}

// layOut makes an encoding readable, if it is for people.
func (f form) layOut(data []byte) []byte {
	var b bytes.Buffer
	if !f.pretty || json.Indent(&b, bytes.TrimSuffix(data, []byte("\n")), "", "  ") != nil {
		return data
	}
	return b.Bytes()
}

// writeObject answers with an object that is not kept.
func writeObject(w http.ResponseWriter, r *http.Request, code int, gvk schema.GroupVersionKind, obj runtime.Object) {
	f, ok := negotiate(r, offer{protobuf: codec.HasProtobuf(obj)})
	if !ok {
		writeError(w, r, notAcceptable(offered()))
		return
	}
	data, err := encode(f.media, gvk, obj)
	if err != nil {
		writeError(w, r, err)
		return
	}
	writeBytes(w, code, f, data)
}

// writeError answers with a Status, in a form that the client accepts or else in JSON.
func writeError(w http.ResponseWriter, r *http.Request, err error) {
	status := statusOf(err)
	f, _ := negotiate(r, offer{protobuf: true})
	data, encodeErr := encode(f.media, statusGVK(), status)
	if encodeErr != nil {
		http.Error(w, errors.Join(err, encodeErr).Error(), http.StatusInternalServerError)
		return
	}
	if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", itoa(int64(status.Details.RetryAfterSeconds)))
	}
	writeBytes(w, int(status.Code), f, data)
}
