package request

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/mergepatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/keelson-dev/keelson/internal/jsonpatch"
	"github.com/keelson-dev/keelson/internal/strategicpatch"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/codec"
	"github.com/keelson-dev/keelson/registry/status"
)

// Patch is a JSON, merge or strategic merge patch of an object. Server-side apply is not among them: it belongs
// to the server, which tracks the owners of fields.
type Patch struct {
	Type types.PatchType
	Data []byte // the patch, in the format of its type
	// Validation is how to treat unknown and duplicate fields: metav1.FieldValidationIgnore,
	// FieldValidationStrict, or anything else to warn.
	Validation string
	// Decoder decodes the result of the patch; nil decodes JSON of any size.
	Decoder Decoder
}

// Decoder decodes patched objects.
type Decoder interface {
	// Decode decodes a JSON document, which must be of type want. strict are the errors that a lenient decoding
	// ignores.
	Decode(document []byte, into runtime.Object, want schema.GroupVersionKind) (strict []error, err error)
	// Room refuses a document that would take too much memory.
	Room(document []byte, into runtime.Object) error
}

// Forms returns the patch types of a kind, except apply: custom kinds have no strategic merge.
func Forms(k *registry.Kind) []types.PatchType {
	forms := []types.PatchType{types.JSONPatchType, types.MergePatchType}
	if k.New != nil && codec.HasProtobuf(k.New()) {
		forms = append(forms, types.StrategicMergePatchType)
	}
	return forms
}

// Apply decodes the patched state of current, which it does not change, into an empty object of type gvk. It
// returns the unknown and duplicate fields to warn of.
func (p *Patch) Apply(ctx context.Context, current runtime.Object, gvk schema.GroupVersionKind, into runtime.Object) ([]error, error) {
	if p.Type == types.StrategicMergePatchType {
		return p.applyStrategic(ctx, current, into)
	}
	before, err := codec.JSON(gvk, current)
	if err != nil {
		return nil, err
	}
	unknown, err := p.unknownFields()
	if err != nil {
		return nil, err
	}
	after, err := PatchDocument(ctx, before, p.Type, p.Data, into)
	if err != nil {
		return nil, err
	}
	more, err := p.decoder().Decode(after, into, gvk)
	if apierrors.IsRequestEntityTooLargeError(err) {
		return nil, err
	}
	if err != nil {
		return nil, invalidPatch(string(after), err)
	}
	return p.judge(string(after), append(unknown, more...))
}

// Lenient reports whether unknown and duplicate fields are ignored silently.
func (p *Patch) lenient() bool { return p.Validation == metav1.FieldValidationIgnore }

func (p *Patch) decoder() Decoder {
	if p.Decoder != nil {
		return p.Decoder
	}
	return anySize{}
}

// anySize decodes JSON of any size.
type anySize struct{}

// Decode implements Decoder.
func (anySize) Decode(document []byte, into runtime.Object, want schema.GroupVersionKind) ([]error, error) {
	got, err := TypeOf(document, want)
	if err != nil {
		return nil, err
	}
	if *got != want {
		return nil, fmt.Errorf("%s is no %s", got, want)
	}
	_, strict, err := codec.DecodeStrict(document, into)
	return strict, err
}

// Room implements Decoder.
func (anySize) Room([]byte, runtime.Object) error { return nil }

// applyStrategic merges maps, not documents, as upstream does: its errors mention the maps.
func (p *Patch) applyStrategic(ctx context.Context, current, into runtime.Object) ([]error, error) {
	if err := p.decoder().Room(p.Data, into); err != nil {
		return nil, err
	}
	before, err := runtime.DefaultUnstructuredConverter.ToUnstructured(current)
	if err != nil {
		return nil, err
	}
	changes := map[string]any{}
	unknown, err := kjson.UnmarshalStrict(p.Data, &changes)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	after, err := strategicpatch.Merge(ctx, before, changes, into)
	if err != nil {
		return nil, strategicError(err)
	}
	err = runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(after, into, !p.lenient())
	into.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	if strict, ok := runtime.AsStrictDecodingError(err); ok {
		unknown = append(unknown, strict.Errors()...)
	} else if err != nil {
		return nil, invalidPatch(fmt.Sprintf("%+v", changes), err)
	}
	return p.judge(fmt.Sprintf("%+v", changes), unknown)
}

// unknownFields returns the unknown and duplicate members of the patch itself.
func (p *Patch) unknownFields() ([]error, error) {
	if p.lenient() {
		return nil, nil
	}
	var unknown []error
	var err error
	if p.Type == types.JSONPatchType {
		var operations []jsonPatchOp
		unknown, err = kjson.UnmarshalStrict(p.Data, &operations)
		for i, e := range unknown {
			unknown[i] = fmt.Errorf("json patch %w", e)
		}
	} else {
		unknown, err = kjson.UnmarshalStrict(p.Data, &map[string]any{})
	}
	if err != nil {
		// The message names the type that upstream decodes operations into.
		text := strings.ReplaceAll(err.Error(), reflect.TypeFor[jsonPatchOp]().String(), "handlers.jsonPatchOp")
		return nil, apierrors.NewBadRequest("error decoding patch: " + text)
	}
	return unknown, nil
}

// jsonPatchOp is one operation of a JSON patch (RFC 6902).
type jsonPatchOp struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	From  string `json:"from"`
	Value any    `json:"value"`
}

// judge refuses what a lenient decoding ignores, or returns what to warn of.
func (p *Patch) judge(value string, unknown []error) ([]error, error) {
	switch {
	case p.lenient() || len(unknown) == 0:
		return nil, nil
	case p.Validation == metav1.FieldValidationStrict:
		return nil, invalidPatch(value, runtime.NewStrictDecodingError(unknown))
	}
	return unknown, nil
}

// PatchDocument applies a JSON, merge or strategic merge patch to a JSON document. schema is an object of the
// document's Go type, whose tags a strategic merge follows. Its errors carry a metav1.Status, except for
// contradictory strategic patches and for the error of ctx, which ends it. Time and memory grow with the sizes
// of document and patch; a JSON patch has at most 10,000 operations, which copy at most 3 MiB.
func PatchDocument(ctx context.Context, document []byte, patchType types.PatchType, patch []byte, schema runtime.Object) ([]byte, error) {
	switch patchType {
	case types.JSONPatchType:
		return applyJSONPatch(ctx, document, patch)
	case types.MergePatchType:
		after, err := jsonpatch.Merge(document, patch)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		return after, nil
	case types.StrategicMergePatchType:
		after, err := strategicpatch.MergeJSON(ctx, document, patch, schema)
		return after, strategicError(err)
	}
	return nil, UnsupportedPatch()
}

// UnsupportedPatch returns the error for a patch of a type that the kind does not support.
func UnsupportedPatch() error {
	return status.NoRoute(http.StatusUnsupportedMediaType, "415: Unsupported Media Type")
}

func applyJSONPatch(ctx context.Context, document, patch []byte) ([]byte, error) {
	operations, err := jsonpatch.Decode(patch)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if len(operations) > jsonpatch.MaxOperations {
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf(
			"The allowed maximum operations in a JSON patch is %d, got %d", jsonpatch.MaxOperations, len(operations)))
	}
	after, err := operations.Apply(ctx, document)
	switch {
	case err == nil:
		return after, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, jsonpatch.ErrMoved):
		return nil, apierrors.NewRequestEntityTooLargeError(err.Error())
	}
	return nil, unprocessable(err)
}

// strategicError returns the client's error for a strategic merge that failed.
func strategicError(err error) error {
	for _, malformed := range []error{
		mergepatch.ErrBadJSONDoc, mergepatch.ErrBadPatchFormatForPrimitiveList, mergepatch.ErrBadPatchFormatForRetainKeys,
		mergepatch.ErrBadPatchFormatForSetElementOrderList, mergepatch.ErrUnsupportedStrategicMergePatchFormat,
		strategicpatch.ErrUnmergeable,
	} {
		if errors.Is(err, malformed) {
			return apierrors.NewBadRequest(err.Error())
		}
	}
	if errors.Is(err, mergepatch.ErrNoListOfLists) {
		return unprocessable(err)
	}
	return err
}

// unprocessable returns the error for a well-formed patch that does not fit the object.
func unprocessable(err error) error {
	return status.NoRoute(http.StatusUnprocessableEntity, err.Error())
}

// invalidPatch returns the error for a patch whose result is not an object of the kind.
func invalidPatch(value string, err error) error {
	errs := field.ErrorList{field.Invalid(field.NewPath("patch"), value, err.Error())}
	return &apierrors.StatusError{ErrStatus: *status.Invalid(schema.GroupKind{}, "", errs)}
}

// WithoutOwners returns a copy of an object without its managed fields, which shares everything else: a patch
// replaces them as a whole, if it has any. Otherwise those of the current object stay.
func WithoutOwners(obj registry.Object) registry.Object {
	v := reflect.ValueOf(obj)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct || len(obj.GetManagedFields()) == 0 {
		return obj
	}
	c := reflect.New(v.Elem().Type())
	c.Elem().Set(v.Elem())
	bare, ok := c.Interface().(registry.Object)
	if _, shares := bare.(runtime.Unstructured); !ok || shares {
		return obj
	}
	bare.SetManagedFields(nil)
	return bare
}
