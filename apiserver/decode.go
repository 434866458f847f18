package apiserver

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"reflect"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/internal/boundedyaml"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/codec"
)

// upstreamScheme is the name of upstream's table of types, which stands in its errors.
const upstreamScheme = "pkg/runtime/scheme.go:111"

// errConversion: the body is of a kind that is served, but not at this place.
var errConversion = errors.New("unknown conversion")

// decode reads the body as an object of this endpoint and fills defaults. Type and namespace
// must be those of the URL.
func (c *call) decode(data []byte, validation string) (registry.Object, error) {
	obj := c.new()
	if err := c.decodeInto(data, validation, obj, c.gvk()); err != nil {
		return nil, err
	}
	own := obj.GetNamespace()
	stored, err := c.settle(obj)
	if err == nil {
		c.noteStored(stored, own)
	}
	return stored, err
}

// settle gives a decoded object its namespace and its defaults, in its stored version.
func (c *call) settle(obj registry.Object) (registry.Object, error) {
	if err := c.over(); err != nil {
		return nil, err
	}
	if err := sameNamespace(obj, c.namespace()); err != nil {
		return nil, err
	}
	stored := c.stored(obj)
	if c.Rules.Default != nil {
		c.Rules.Default(stored)
	}
	return stored, nil
}

// over is an error when nobody waits for the answer any more: the request's time is over, or the client is
// gone. What takes long asks between its steps, and between the elements of a list.
func (c *call) over() error { return c.r.Context().Err() }

// sameNamespace puts an object into the namespace of the URL, unless it names another.
func sameNamespace(obj metav1.Object, namespace string) error {
	if own := obj.GetNamespace(); own == namespace || own == "" || namespace == "" {
		obj.SetNamespace(namespace)
		return nil
	}
	return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
}

// decodeInto decodes a body that must be of type want, and looks after field validation.
func (c *call) decodeInto(data []byte, validation string, into runtime.Object, want schema.GroupVersionKind) error {
	m, err := contentType(c.r.Header.Get("Content-Type"))
	if err == nil {
		err = c.over() // the body may have been long in coming
	}
	if err != nil {
		return err
	}
	got, strict, err := c.server.decode(m, data, into, want)
	switch {
	case err == nil:
	case apierrors.IsRequestEntityTooLargeError(err):
		return err
	case got == nil:
		return apierrors.NewBadRequest(fmt.Sprintf("the object provided is unrecognized (must be of type %s): %v (%s)", want.Kind, err, summary(data)))
	case errors.Is(err, errConversion) && c.serves(*got) && c.serves(want):
		return apierrors.NewBadRequest(fmt.Sprintf("the API version in the data (%s) does not match the expected API version (%s)", got.GroupVersion(), want.GroupVersion()))
	default:
		return undecodable(*got, want, err)
	}
	c.note(want, into)
	if len(strict) == 0 {
		return nil
	}
	switch validation {
	case metav1.FieldValidationStrict:
		return undecodable(*got, want, runtime.NewStrictDecodingError(strict))
	case "", metav1.FieldValidationWarn:
		c.warnStrict(strict)
	}
	return nil
}

func undecodable(got, want schema.GroupVersionKind, err error) error {
	return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", got.Kind, got.Version, want.Kind, err))
}

// serves tells whether the endpoint's objects are also served as this type.
func (e *endpoint) serves(gvk schema.GroupVersionKind) bool {
	if gvk == e.GroupVersion.WithKind(e.Names.Kind) {
		return true
	}
	for _, v := range e.Also {
		if gvk == v.GroupVersion.WithKind(v.Names.Kind) {
			return true
		}
	}
	return false
}

// contentType reads a Content-Type header. An empty one means JSON, as upstream has it.
func contentType(header string) (media, error) {
	if header == "" {
		return mediaJSON, nil
	}
	name, _, err := mime.ParseMediaType(header)
	switch m := media(name); {
	case err == nil && (m == mediaJSON || m == mediaYAML || m == mediaProtobuf):
		return m, nil
	}
	return "", unsupportedMedia(offered())
}

// decode fills into, of type want, from a body. got is the type that the body names, completed
// from want, or nil where none could be made out; strict is what a lenient decoding passes over.
// The object's TypeMeta is left empty.
func (s *Server) decode(m media, data []byte, into runtime.Object, want schema.GroupVersionKind) (got *schema.GroupVersionKind, strict []error, err error) {
	if m == mediaProtobuf {
		return s.decodeProtobuf(data, into, want)
	}
	document, duplicates := data, error(nil)
	if m == mediaYAML {
		if document, duplicates, err = boundedyaml.Convert(data, int(s.maxBody)); err != nil {
			return nil, nil, expanded(err)
		}
	}
	if got, err = typeOf(document, want); err != nil {
		return nil, nil, err
	}
	if *got != want {
		return got, nil, s.misplaced(document, *got, want, into)
	}
	if err := s.room(document, into); err != nil {
		return got, nil, err
	}
	_, strict, err = codec.DecodeStrict(document, into)
	if duplicates != nil && err == nil {
		// The conversion to JSON has dropped duplicate keys silently.
		strict = append([]error{duplicates}, strict...)
	}
	return got, strict, err
}

// expanded is the error of YAML that could not be read.
func expanded(err error) error {
	if errors.Is(err, boundedyaml.ErrTooLarge) || errors.Is(err, boundedyaml.ErrTooDeep) {
		return apierrors.NewRequestEntityTooLargeError(err.Error())
	}
	return err
}

func (s *Server) decodeProtobuf(data []byte, into runtime.Object, want schema.GroupVersionKind) (*schema.GroupVersionKind, []error, error) {
	if len(data) == 0 {
		return nil, nil, errors.New("empty data")
	}
	named, raw, err := codec.Open(data)
	if err != nil {
		return nil, nil, err
	}
	got := complete(named, want)
	if got != want {
		return &got, nil, s.misplaced(data, got, want, into)
	}
	if err := s.room(data, into); err != nil {
		return &got, nil, err
	}
	return &got, nil, codec.DecodeRaw(raw, into)
}

// swelling is how many times the largest body an object may take in memory. What people write takes two to
// five times its size; {} in a list of containers takes 250 times.
const swelling = 16

// room refuses what would take too much memory before it is decoded.
func (s *Server) room(data []byte, into runtime.Object) error {
	limit := swelling * int(s.maxBody)
	if len(data) < limit>>12 {
		return nil // no element of a list takes so much more than it is
	}
	if s.footprints.Of(data, into, limit) > limit {
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("the object takes more than %d bytes of memory, since its lists have too many elements", limit))
	}
	return nil
}

// typeOf reads the type that a JSON document names.
func typeOf(document []byte, want schema.GroupVersionKind) (*schema.GroupVersionKind, error) {
	var named struct {
		APIVersion string `json:"apiVersion,omitempty"`
		Kind       string `json:"kind,omitempty"`
	}
	if err := json.Unmarshal(document, &named); err != nil {
		return nil, fmt.Errorf("couldn't get version/kind; json parse error: %w", err)
	}
	gv, err := schema.ParseGroupVersion(named.APIVersion)
	if err != nil {
		return nil, err
	}
	got := complete(gv.WithKind(named.Kind), want)
	return &got, nil
}

// complete fills what a body does not say of its type from what is wanted.
func complete(named, want schema.GroupVersionKind) schema.GroupVersionKind {
	if named.Kind == "" {
		named.Kind = want.Kind
	}
	if named.Version == "" && named.Group == "" {
		named.Group, named.Version = want.Group, want.Version
	}
	return named
}

// misplaced is the error about a body of another type than wanted, in upstream's words: it
// decodes such a body, too, before it finds no conversion.
func (s *Server) misplaced(data []byte, got, want schema.GroupVersionKind, into runtime.Object) error {
	other, err := s.scheme.New(got)
	if err != nil {
		return runtime.NewNotRegisteredErrForKind(upstreamScheme, got)
	}
	if err := s.room(data, other); err != nil {
		return err
	}
	if _, err := codec.Decode(data, other); err != nil {
		return err
	}
	group, _, _ := strings.Cut(want.Group, ".")
	if group == "" {
		group = "core"
	}
	return fmt.Errorf("converting (%s) to (%s.%s): %w", reflect.TypeOf(other).Elem(), group, reflect.TypeOf(into).Elem().Name(), errConversion)
}

// summary shows the beginning of a body in an error.
func summary(data []byte) string {
	const limit = 30
	head, more := data, ""
	if len(head) > limit {
		head, more = head[:limit], " ..."
	}
	switch {
	case len(data) == 0:
		return "<empty>"
	case data[0] == '{':
		return string(head) + more
	}
	return hex.EncodeToString(head) + more
}
