package apiserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/mergepatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/keelson-dev/keelson/internal/boundedyaml"
	"github.com/keelson-dev/keelson/internal/jsonpatch"
	"github.com/keelson-dev/keelson/internal/strategicpatch"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/codec"
)

func (c *call) patch(ctx context.Context) {
	p, o, err := c.readPatch()
	if err != nil {
		c.fail(err)
		return
	}
	if c.q.Subresource == "scale" {
		c.patchScale(ctx, p, o)
		return
	}
	if p.form == types.ApplyYAMLPatchType {
		c.change(ctx, change{wanted: p.applied, options: updateOptions(o), create: true})
		return
	}
	c.change(ctx, change{wanted: c.tracked(o.FieldManager, p.patched), options: updateOptions(o)})
}

// patched is the state that the patch makes of the current one.
func (p *patch) patched(ctx context.Context, current registry.Object) (registry.Object, error) {
	if current == nil {
		return nil, registry.Errorf(registry.ErrNotFound, registry.ObjectKey{Resource: p.GroupResource(), Name: p.q.Name}, "")
	}
	obj := p.new()
	before := p.served(current)
	if p.form != types.JSONPatchType {
		// A merge replaces managed fields as a whole, if it speaks of them. Without any, those of
		// the current object count.
		before = without(before)
	}
	if err := p.apply(ctx, before, p.gvk(), obj); err != nil {
		return nil, err
	}
	stored, err := p.settle(obj)
	if err != nil {
		return nil, err
	}
	return stored, checkName(stored, p.q.Name, p.namespace())
}

// without returns a copy of an object without its managed fields; it shares all else.
func without(obj registry.Object) registry.Object {
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

// readPatch reads the request's patch and its options.
func (c *call) readPatch() (*patch, *metav1.PatchOptions, error) {
	name, _, _ := strings.Cut(c.r.Header.Get("Content-Type"), ";")
	p := &patch{call: c, form: types.PatchType(name)}
	if !slices.Contains(c.patchTypes(), p.form) {
		return nil, nil, noRoute(http.StatusUnsupportedMediaType, "415: Unsupported Media Type")
	}
	if _, err := c.accept(); err != nil {
		return nil, nil, err
	}
	var err error
	if p.data, err = readBody(c.r, c.server.maxBody); err != nil {
		return nil, nil, err
	}
	query := c.r.URL.Query()
	o := &metav1.PatchOptions{}
	if err := metav1.Convert_url_Values_To_v1_PatchOptions(&query, o, nil); err != nil {
		return nil, nil, apierrors.NewBadRequest(err.Error())
	}
	if err := invalidOptions("PatchOptions", metavalidation.ValidatePatchOptions(o, p.form)); err != nil {
		return nil, nil, err
	}
	p.lenient, p.strict = o.FieldValidation == metav1.FieldValidationIgnore, o.FieldValidation == metav1.FieldValidationStrict
	p.manager, p.force = o.FieldManager, o.Force != nil && *o.Force
	if p.form == types.ApplyYAMLPatchType {
		err = p.convert()
	} else if !json.Valid(p.data) {
		err = apierrors.NewBadRequest("invalid JSON patch")
	}
	if err != nil {
		return nil, nil, err
	}
	c.notePatch(p.data)
	return p, o, nil
}

// convert makes JSON of an applied configuration, which is YAML.
func (p *patch) convert() error {
	document, duplicates, err := boundedyaml.Convert(p.data, int(p.server.maxBody))
	switch err := expanded(err); {
	case apierrors.IsRequestEntityTooLargeError(err):
		return err
	case err != nil && strings.HasPrefix(strings.TrimSpace(string(p.data)), "{"): // upstream takes it for JSON at first
		return apierrors.NewBadRequest("error decoding patch: error converting YAML to JSON: " + err.Error())
	case err != nil:
		return apierrors.NewBadRequest("error encoding patch: " + err.Error())
	}
	p.data, p.duplicates = document, duplicates
	return nil
}

// updateOptions are what admission plugins see of a patch, which is an update to them.
func updateOptions(o *metav1.PatchOptions) *metav1.UpdateOptions {
	return &metav1.UpdateOptions{DryRun: o.DryRun, FieldManager: o.FieldManager, FieldValidation: o.FieldValidation}
}

// patchTypes are the patches that the kind takes: there is no strategic merge of a user's kind.
func (e *endpoint) patchTypes() []types.PatchType {
	forms := []types.PatchType{types.JSONPatchType, types.MergePatchType}
	if e.New != nil && codec.HasProtobuf(e.New()) {
		forms = append(forms, types.StrategicMergePatchType)
	}
	return append(forms, types.ApplyYAMLPatchType)
}

// patch is what a PATCH request wants to be changed.
type patch struct {
	*call
	form types.PatchType
	data []byte
	// lenient passes over unknown and duplicate fields in silence, strict refuses them; else
	// they are warned of.
	lenient, strict bool
	// manager, force and duplicates, the keys that its text has twice, are of an apply.
	manager    string
	force      bool
	duplicates error
}

// apply decodes into an empty object, of type gvk, what the patch makes of current.
func (p *patch) apply(ctx context.Context, current runtime.Object, gvk schema.GroupVersionKind, into runtime.Object) error {
	if p.form == types.StrategicMergePatchType {
		return p.applyStrategic(ctx, current, gvk, into)
	}
	before, err := codec.JSON(gvk, current)
	if err != nil {
		return err
	}
	unknown, err := p.unknownFields()
	if err != nil {
		return err
	}
	after, err := ApplyPatch(ctx, before, p.form, p.data, into)
	if err != nil {
		return err
	}
	_, more, err := p.server.decode(mediaJSON, after, into, gvk)
	if apierrors.IsRequestEntityTooLargeError(err) {
		return err
	}
	if err != nil {
		return invalidPatch(string(after), err)
	}
	return p.judge(string(after), append(unknown, more...))
}

// applyStrategic merges maps, not documents, as upstream does: its errors speak of the maps.
func (p *patch) applyStrategic(ctx context.Context, current runtime.Object, gvk schema.GroupVersionKind, into runtime.Object) error {
	if err := p.server.room(p.data, into); err != nil {
		return err
	}
	before, err := runtime.DefaultUnstructuredConverter.ToUnstructured(current)
	if err != nil {
		return err
	}
	before["apiVersion"], before["kind"] = gvk.ToAPIVersionAndKind()
	changes := map[string]any{}
	unknown, err := kjson.UnmarshalStrict(p.data, &changes)
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	after, err := strategicpatch.Merge(ctx, before, changes, into)
	if err != nil {
		return strategicError(err)
	}
	err = runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(after, into, !p.lenient)
	into.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	if strict, ok := runtime.AsStrictDecodingError(err); ok {
		unknown = append(unknown, strict.Errors()...)
	} else if err != nil {
		return invalidPatch(fmt.Sprintf("%+v", changes), err)
	}
	return p.judge(fmt.Sprintf("%+v", changes), unknown)
}

// unknownFields are the members of the patch itself that mean nothing or stand there twice.
func (p *patch) unknownFields() ([]error, error) {
	if p.lenient {
		return nil, nil
	}
	var unknown []error
	var err error
	if p.form == types.JSONPatchType {
		var operations []jsonPatchOp
		unknown, err = kjson.UnmarshalStrict(p.data, &operations)
		for i, e := range unknown {
			unknown[i] = fmt.Errorf("json patch %w", e)
		}
	} else {
		unknown, err = kjson.UnmarshalStrict(p.data, &map[string]any{})
	}
	if err != nil {
		// The words name the type that upstream decodes operations into.
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

// judge warns of what a lenient decoding passes over, or refuses it.
func (p *patch) judge(value string, unknown []error) error {
	switch {
	case p.lenient || len(unknown) == 0:
		return nil
	case p.strict:
		return invalidPatch(value, runtime.NewStrictDecodingError(unknown))
	}
	p.warnStrict(unknown)
	return nil
}

// ApplyPatch applies a JSON, merge or strategic merge patch to a JSON document. schema is an
// object of the document's Go type, whose tags a strategic merge follows. Its errors carry a
// metav1.Status, except for strategic patches that contradict themselves and for the error of ctx,
// with which it ends. Time and memory grow with the sizes of document and patch; a JSON patch has at most
// 10,000 operations, which copy at most 3 MiB.
func ApplyPatch(ctx context.Context, document []byte, patchType types.PatchType, patch []byte, schema runtime.Object) ([]byte, error) {
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
	return nil, noRoute(http.StatusUnsupportedMediaType, "415: Unsupported Media Type")
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

// strategicError is what a client is told of a strategic merge that failed.
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
	if errors.Is(err, mergepatch.ErrNoListOfLists) || errors.Is(err, mergepatch.ErrPatchContentNotMatchRetainKeys) {
		return unprocessable(err)
	}
	return err
}

// unprocessable is a patch that is well formed but does not fit the object.
func unprocessable(err error) error {
	return apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)
}

// invalidPatch is a patch whose outcome is no object of the kind.
func invalidPatch(value string, err error) error {
	errs := field.ErrorList{field.Invalid(field.NewPath("patch"), value, err.Error())}
	return &apierrors.StatusError{ErrStatus: *invalid(schema.GroupKind{}, "", errs)}
}
