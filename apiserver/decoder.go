package apiserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/internal/boundedquantity"
	"github.com/keelson-dev/keelson/internal/boundedyaml"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/codec"
	"github.com/keelson-dev/keelson/registry/request"
)

// defaultMaxBody is upstream's limit of request bodies.
const defaultMaxBody = 3 << 20

// upstreamScheme is the name of upstream's scheme, which its errors contain.
const upstreamScheme = "pkg/runtime/scheme.go:111"

// errConversion says that the body is of a kind that is served, but not at this endpoint.
var errConversion = errors.New("unknown conversion")

// decoder reads objects of all kinds that are served.
type decoder struct {
	maxBody    int64
	scheme     func() *runtime.Scheme // the types of all kinds that are served
	footprints codec.Footprints
}

// customDecode is registry.Kind's Decode: how a kind decodes its objects, if not by their Go type.
type customDecode func(data []byte, into registry.Object) (strict []error, err error)

// decode decodes a body into an object of type want, by its Go type or by custom if that is not nil. got is the type that the
// body names, completed from want unless custom decodes it, or nil if it could not be read; strict are the errors that a
// lenient decoding ignores. The object's TypeMeta is left empty. custom decodes objects of any type, and tells them apart.
func (d *decoder) decode(m mediaType, data []byte, into runtime.Object, want schema.GroupVersionKind, custom customDecode) (got *schema.GroupVersionKind, strict []error, err error) {
	if m == mediaProtobuf {
		return d.decodeProtobuf(data, into, want)
	}
	document, duplicates := data, error(nil)
	if m == mediaYAML {
		if document, duplicates, err = boundedyaml.Convert(data, int(d.maxBody)); err != nil {
			return nil, nil, yamlError(err)
		}
	}
	if custom != nil {
		got, err = request.Named(document)
	} else {
		got, err = request.TypeOf(document, want)
	}
	if err != nil {
		return nil, nil, err
	}
	if *got != want && custom == nil {
		return got, nil, d.wrongType(document, *got, want, into)
	}
	if err := d.checkMemory(document, into); err != nil {
		return got, nil, err
	}
	if custom != nil {
		strict, err = custom(document, into.(registry.Object))
	} else {
		_, strict, err = codec.DecodeStrict(document, into)
	}
	if duplicates != nil && err == nil {
		// The conversion to JSON has dropped duplicate keys silently.
		strict = append([]error{duplicates}, strict...)
	}
	return got, strict, err
}

// yamlError is the answer to YAML that could not be read.
func yamlError(err error) error {
	if errors.Is(err, boundedyaml.ErrTooLarge) || errors.Is(err, boundedyaml.ErrTooDeep) {
		return apierrors.NewRequestEntityTooLargeError(err.Error())
	}
	return err
}

func (d *decoder) decodeProtobuf(data []byte, into runtime.Object, want schema.GroupVersionKind) (*schema.GroupVersionKind, []error, error) {
	if len(data) == 0 {
		return nil, nil, errors.New("empty data")
	}
	named, raw, err := codec.Open(data)
	if err != nil {
		return nil, nil, err
	}
	got := request.Complete(named, want)
	if got != want {
		return &got, nil, d.wrongType(data, got, want, into)
	}
	if err := d.checkMemory(data, into); err != nil {
		return &got, nil, err
	}
	return &got, nil, codec.DecodeRaw(raw, into)
}

// memoryFactor bounds the memory that an object may take, in sizes of the largest body. What people write takes two to five
// times its size; {} in a list of containers takes 250 times.
const memoryFactor = 16

// checkMemory refuses, before it is decoded, an object that would take too much memory, or whose quantities would take long.
func (d *decoder) checkMemory(data []byte, into runtime.Object) error {
	limit := memoryFactor * int(d.maxBody)
	if len(data) < limit>>12 && !boundedquantity.Suspicious(data) {
		return nil // too small to grow over the limit, whatever is in it
	}
	if d.footprints.Of(data, into, limit) > limit {
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("the object takes more than %d bytes of memory, since its lists have too many elements, or its quantities too large exponents", limit))
	}
	return nil
}

func versionMismatch(got, want schema.GroupVersionKind) error {
	return apierrors.NewBadRequest(fmt.Sprintf("the API version in the data (%s) does not match the expected API version (%s)", got.GroupVersion(), want.GroupVersion()))
}

// wrongType is the error about a body of another type than wanted. It is upstream's, which decodes such a body, too, before
// it finds no conversion.
func (d *decoder) wrongType(data []byte, got, want schema.GroupVersionKind, into runtime.Object) error {
	other, err := d.scheme().New(got)
	if err != nil {
		return runtime.NewNotRegisteredErrForKind(upstreamScheme, got)
	}
	if err := d.checkMemory(data, other); err != nil {
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

// jsonFromProtobuf returns a protobuf body as JSON, or nil if it cannot be read.
func (d *decoder) jsonFromProtobuf(body []byte) []byte {
	gvk, raw, err := codec.Open(body)
	if err != nil {
		return nil
	}
	var obj runtime.Object
	switch {
	case gvk == statusGVK():
		obj = &metav1.Status{}
	case gvk.Group == metav1.GroupName && gvk.Kind == "PartialObjectMetadata":
		obj = &metav1.PartialObjectMetadata{}
	case gvk.Group == metav1.GroupName && gvk.Kind == "PartialObjectMetadataList":
		obj = &metav1.PartialObjectMetadataList{}
	default:
		if obj, err = d.scheme().New(gvk); err != nil {
			return nil
		}
	}
	if codec.DecodeRaw(raw, obj) != nil {
		return nil
	}
	if list, ok := obj.(*metav1.PartialObjectMetadataList); ok {
		for i := range list.Items { // protobuf leaves out their types
			list.Items[i].SetGroupVersionKind(gvk.GroupVersion().WithKind("PartialObjectMetadata"))
		}
	}
	data, err := codec.JSON(gvk, obj)
	if err != nil {
		return nil
	}
	return data
}

// readBody reads the body of a request, which must not be longer than limit bytes. It can be read again.
func readBody(r *http.Request, limit int64) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	if r.ContentLength > limit {
		return nil, bodyTooLarge(limit) // before it arrives
	}
	data, err := io.ReadAll(io.LimitReader(r.Body, limit+1))
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		return nil, err
	}
	if err != nil {
		return nil, apierrors.NewBadRequest("the request body could not be read: " + err.Error())
	}
	if int64(len(data)) > limit {
		return nil, bodyTooLarge(limit)
	}
	r.Body = io.NopCloser(bytes.NewReader(data))
	return data, nil
}

func bodyTooLarge(limit int64) error {
	return apierrors.NewRequestEntityTooLargeError("limit is " + json.Number(itoa(limit)).String())
}
