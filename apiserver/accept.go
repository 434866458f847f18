package apiserver

import (
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/munnerz/goautoneg"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/internal/boundedcbor"
	"github.com/keelson-dev/keelson/internal/boundedyaml"
	"github.com/keelson-dev/keelson/registry/status"
)

// mediaType is an encoding of objects.
type mediaType string

const (
	mediaJSON     mediaType = "application/json"
	mediaYAML     mediaType = "application/yaml"
	mediaProtobuf mediaType = "application/vnd.kubernetes.protobuf"
	mediaCBOR     mediaType = "application/cbor"
	mediaCBORs    mediaType = "application/cbor-seq" // a stream of it
)

// converted reports whether the encoding is made from JSON.
func (m mediaType) converted() bool { return m == mediaYAML || m == mediaCBOR }

// from converts JSON to the encoding, if it is made from that.
func (m mediaType) from(document []byte) ([]byte, error) {
	switch m {
	case mediaYAML:
		return boundedyaml.FromJSON(document)
	case mediaCBOR:
		return boundedcbor.FromJSON(document)
	}
	return document, nil
}

// offered are the media types of objects.
func offered(r *http.Request) []string {
	types := []string{string(mediaJSON), string(mediaYAML), string(mediaProtobuf)}
	if servesCBOR(r) {
		types = append(types, string(mediaCBOR))
	}
	return types
}

// streamed are the media types that collections offer besides, for watches.
func streamed(r *http.Request) []string {
	types := []string{string(mediaJSON) + ";stream=watch", string(mediaProtobuf) + ";stream=watch"}
	if servesCBOR(r) {
		types = append(types, string(mediaCBORs))
	}
	return types
}

// format is the form of an answer.
type format struct {
	mediaType mediaType
	// as is what the object is converted to: a Table of meta.k8s.io, or its metadata alone. The zero value is the object
	// itself.
	as schema.GroupVersionKind
	// pretty indents JSON, for people.
	pretty bool
}

// formats are the forms that an answer can take.
type formats struct {
	protobuf bool // the object itself
	metadata bool // its metadata alone, in every media type
	table    bool // a table, as JSON or YAML
}

// negotiate picks the form that an Accept header prefers among those that an answer can take. It returns false if there is
// none; the error about that is indented JSON.
func negotiate(r *http.Request, o formats) (format, bool) {
	header := r.Header.Get("Accept")
	if header == "" {
		return format{mediaType: mediaJSON, pretty: wantsPretty(r)}, true
	}
	types := offered(r)
	for _, clause := range goautoneg.ParseAccept(header) {
		for _, m := range types {
			class, sub, _ := strings.Cut(m, "/")
			matches := clause.Type == class && (clause.SubType == sub || clause.SubType == "*")
			if !matches && (clause.Type != "*" || clause.SubType != "*") {
				continue
			}
			if f, ok := o.match(mediaType(m), clause.Params); ok {
				f.pretty = f.mediaType == mediaJSON && (f.pretty || wantsPretty(r))
				return f, true
			}
		}
	}
	return format{mediaType: mediaJSON, pretty: true}, false
}

// wantsPretty tells whether a person reads the answer. As upstream does, it judges by the parameter "pretty", or else by
// the program.
func wantsPretty(r *http.Request) bool {
	if strings.Contains(r.URL.RawQuery, "pretty") {
		if value := r.URL.Query().Get("pretty"); value != "" {
			pretty, _ := strconv.ParseBool(value) // what is not a boolean counts as false
			return pretty
		}
	}
	agent := r.UserAgent()
	return strings.HasPrefix(agent, "curl") || strings.HasPrefix(agent, "Wget") || strings.HasPrefix(agent, "Mozilla/5.0")
}

// match tells whether an answer can take a media type with the parameters of a clause, and returns that form.
func (o formats) match(m mediaType, params map[string]string) (format, bool) {
	f := format{mediaType: m}
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
				return format{}, false
			}
		case "sv":
			if value != "" && (value != "v1" || !o.metadata) {
				return format{}, false
			}
		}
	}
	if !converted {
		return f, m != mediaProtobuf || o.protobuf
	}
	if f.as.Group != metav1.GroupName || f.as.Version != "v1" && f.as.Version != v1beta1 {
		return format{}, false
	}
	switch f.as.Kind {
	case kindTable:
		return f, o.table && (m == mediaJSON || m == mediaYAML)
	case kindMetadata, kindMetadataList:
		return f, o.metadata
	}
	return format{}, false
}

// acceptable returns an error if the Accept header allows none of the offered types, whatever its parameters.
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
	return status.NoRoute(http.StatusNotAcceptable, "406: Not Acceptable\n\nAvailable representations: "+strings.Join(offered, ", "))
}

// contentType reads a Content-Type header. An empty one means JSON, as it does upstream.
func contentType(r *http.Request) (mediaType, error) {
	header := r.Header.Get("Content-Type")
	if header == "" {
		return mediaJSON, nil
	}
	name, _, err := mime.ParseMediaType(header)
	switch m := mediaType(name); {
	case err == nil && (m == mediaJSON || m == mediaYAML || m == mediaProtobuf):
		return m, nil
	}
	return "", unsupportedMedia(offered(r))
}

// The kinds of meta.k8s.io that a client can have an object or a list converted to.
const (
	kindTable        = "Table"
	kindMetadata     = "PartialObjectMetadata"
	kindMetadataList = "PartialObjectMetadataList"

	v1beta1 = "v1beta1"
)
