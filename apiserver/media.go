package apiserver

import (
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// accept picks the first media type of the Accept header that can be given. Parameters that ask
// for another shape of the object (as=Table) cannot be met; clients list a plain type behind.
func accept(r *http.Request, protobuf bool) (media, error) {
	header := r.Header.Get("Accept")
	if header == "" {
		return mediaJSON, nil
	}
	for _, clause := range strings.Split(header, ",") {
		name, params, err := mime.ParseMediaType(strings.TrimSpace(clause))
		if err != nil || params["as"] != "" {
			continue
		}
		switch m := media(name); {
		case m == mediaJSON, m == mediaYAML, m == mediaProtobuf && protobuf:
			return m, nil
		case name == "*/*", name == "application/*":
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

// decoded is what a request body was taken for.
type decoded struct {
	gvk    schema.GroupVersionKind
	strict []error // what a lenient decoding passes over
}

// decodeBody fills into from a body of the request's content type. An empty content type means
// JSON, as upstream has it.
func decodeBody(contentType string, data []byte, into runtime.Object) (decoded, error) {
	name := string(mediaJSON)
	if contentType != "" {
		parsed, _, err := mime.ParseMediaType(contentType)
		if err != nil {
			return decoded{}, unsupportedMedia(offered)
		}
		name = parsed
	}
	switch media(name) {
	case mediaProtobuf:
		if !codec.IsProtobuf(data) {
			_, _, err := codec.Open(data)
			return decoded{}, err
		}
		gvk, err := codec.Decode(data, into)
		return decoded{gvk: gvk}, err
	case mediaYAML:
		converted, err := yaml.YAMLToJSON(data)
		if err != nil {
			return decoded{}, err
		}
		data = converted
	case mediaJSON:
	default:
		return decoded{}, unsupportedMedia(offered)
	}
	gvk, strict, err := codec.DecodeStrict(data, into)
	return decoded{gvk: gvk, strict: strict}, err
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
	data, encodeErr := encode(m, metav1.SchemeGroupVersion.WithKind("Status").GroupKind().WithVersion("v1"), status)
	if encodeErr != nil {
		http.Error(w, errors.Join(err, encodeErr).Error(), http.StatusInternalServerError)
		return
	}
	if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", itoa(int64(status.Details.RetryAfterSeconds)))
	}
	if status.Code == http.StatusForbidden {
		w.Header().Set("X-Content-Type-Options", "nosniff")
	}
	writeBytes(w, int(status.Code), m, data)
}
