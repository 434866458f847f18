package apiserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/mergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/yaml"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/codec"
)

// maxPatchOperations bounds the operations of one JSON patch.
const maxPatchOperations = 10000

var patchTypes = []string{string(types.JSONPatchType), string(types.MergePatchType), string(types.StrategicMergePatchType)}

func (c *call) patch(ctx context.Context) {
	name, _, err := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	patchType := types.PatchType(name)
	allowed := patchTypes
	if c.custom() {
		allowed = patchTypes[:2]
	}
	if err != nil || !contains(allowed, name) {
		c.fail(unsupportedMedia(allowed))
		return
	}
	query := c.r.URL.Query()
	o := &metav1.PatchOptions{}
	if err := metav1.Convert_url_Values_To_v1_PatchOptions(&query, o, nil); err != nil {
		c.fail(apierrors.NewBadRequest(err.Error()))
		return
	}
	if err := invalidOptions("PatchOptions", metavalidation.ValidatePatchOptions(o, patchType)); err != nil {
		c.fail(err)
		return
	}
	data, err := readBody(c.r, c.server.maxBody)
	if err != nil {
		c.fail(err)
		return
	}
	if data, err = patchDocument(data); err != nil {
		c.fail(err)
		return
	}
	if c.q.Subresource == "scale" {
		c.patchScale(ctx, patchType, data, o)
		return
	}
	c.change(ctx, func(_ context.Context, current registry.Object) (registry.Object, error) {
		if current == nil {
			return nil, registry.Errorf(registry.ErrNotFound, registry.ObjectKey{Resource: c.GroupResource(), Name: c.q.Name}, "")
		}
		return c.patched(current, patchType, data, o.FieldValidation)
	}, o, isDryRun(o.DryRun))
}

// custom tells whether the kind is one of the user's, for which there is no strategic merge.
func (e *endpoint) custom() bool { return e.New == nil || !codec.HasProtobuf(e.New()) }

// patchDocument checks that a patch is JSON, or turns YAML into it.
func patchDocument(data []byte) ([]byte, error) {
	if json.Valid(data) {
		return data, nil
	}
	converted, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
	}
	return converted, nil
}

// patched applies a patch to the JSON of an object and decodes what comes out.
func (c *call) patched(current registry.Object, patchType types.PatchType, patch []byte, validation string) (registry.Object, error) {
	before, err := codec.JSON(c.gvk(), c.served(current))
	if err != nil {
		return nil, err
	}
	after, err := ApplyPatch(before, patchType, patch, c.new())
	if err != nil {
		return nil, err
	}
	obj, err := c.decode(after, string(mediaJSON), validation)
	if err != nil {
		return nil, err
	}
	return obj, checkName(obj, c.q.Name, c.namespace())
}

// ApplyPatch applies a JSON, merge or strategic merge patch to a JSON document. schema is an
// object of the document's Go type, whose tags a strategic merge follows.
func ApplyPatch(document []byte, patchType types.PatchType, patch []byte, schema runtime.Object) ([]byte, error) {
	switch patchType {
	case types.JSONPatchType:
		return applyJSONPatch(document, patch)
	case types.MergePatchType:
		after, err := jsonpatch.MergePatch(document, patch)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		return after, nil
	case types.StrategicMergePatchType:
		after, err := strategicpatch.StrategicMergePatch(document, patch, schema)
		switch {
		case err == nil:
			return after, nil
		case errors.Is(err, mergepatch.ErrBadJSONDoc), errors.Is(err, mergepatch.ErrBadPatchFormatForPrimitiveList), errors.Is(err, mergepatch.ErrBadPatchFormatForRetainKeys), errors.Is(err, mergepatch.ErrBadPatchFormatForSetElementOrderList), errors.Is(err, mergepatch.ErrUnsupportedStrategicMergePatchFormat):
			return nil, apierrors.NewBadRequest(err.Error())
		default:
			return nil, unprocessable(err)
		}
	}
	return nil, unsupportedMedia(patchTypes)
}

func applyJSONPatch(document, patch []byte) ([]byte, error) {
	operations, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
	}
	if len(operations) > maxPatchOperations {
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf(
			"The allowed maximum operations in a JSON patch is %d, got %d", maxPatchOperations, len(operations)))
	}
	after, err := operations.Apply(document)
	if err != nil {
		return nil, unprocessable(err)
	}
	return after, nil
}

// unprocessable is a patch that is well formed but does not fit the object.
func unprocessable(err error) error {
	s := apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", apierrorsNoResource, "", err.Error(), 0, false)
	return s
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}
