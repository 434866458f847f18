package apiserver

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/boundedyaml"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/request"
)

func (c *call) patch(ctx context.Context) {
	ctx = registry.WithVerb(ctx, c.request.Verb)
	p, o, err := c.readPatch()
	if err != nil {
		c.fail(err)
		return
	}
	if c.request.Subresource == "scale" {
		c.patchScale(ctx, p, o)
		return
	}
	if p.patchType == types.ApplyYAMLPatchType {
		c.runUpdate(ctx, updateCall{change: p.applyToObject, options: updateOptions(o), create: true})
		return
	}
	c.runUpdate(ctx, updateCall{change: c.trackChanges(o.FieldManager, p.patchObject), options: updateOptions(o)})
}

// patchObject returns what the patch makes of the current object.
func (p *patch) patchObject(ctx context.Context, current registry.Object) (registry.Object, error) {
	if current == nil {
		return nil, registry.Errorf(registry.ErrNotFound, registry.ObjectKey{Resource: p.call.resource.GroupResource(), Name: p.call.request.Name}, "")
	}
	obj := p.call.resource.New()
	before, err := p.call.resource.FromStored(ctx, current)
	if err != nil {
		return nil, err
	}
	if p.patchType != types.JSONPatchType {
		// A merge that has managed fields replaces them as a whole. If it has none, those of the current object stay.
		before = request.WithoutOwners(before)
	}
	if err := p.apply(ctx, before, p.call.endpoint.gvk(), obj); err != nil {
		return nil, err
	}
	stored, err := p.call.storedWithDefaults(ctx, obj)
	if err != nil {
		return nil, err
	}
	return stored, request.At(stored, p.call.namespace(), p.call.request.Name)
}

// readPatch reads the patch and its options.
func (c *call) readPatch() (*patch, *metav1.PatchOptions, error) {
	name, _, _ := strings.Cut(c.r.Header.Get("Content-Type"), ";")
	p := &patch{call: c, patchType: types.PatchType(name)}
	if !slices.Contains(c.endpoint.patchTypes(), p.patchType) {
		return nil, nil, request.UnsupportedPatch()
	}
	if _, err := c.accept(); err != nil {
		return nil, nil, err
	}
	var err error
	if p.data, err = readBody(c.r, c.backend.decoder.maxBody); err != nil {
		return nil, nil, err
	}
	query := c.r.URL.Query()
	o := &metav1.PatchOptions{}
	if err := metav1.Convert_url_Values_To_v1_PatchOptions(&query, o, nil); err != nil {
		return nil, nil, apierrors.NewBadRequest(err.Error())
	}
	if err := request.Options("PatchOptions", metavalidation.ValidatePatchOptions(o, p.patchType)); err != nil {
		return nil, nil, err
	}
	p.validation, p.manager, p.force = o.FieldValidation, o.FieldManager, o.Force != nil && *o.Force
	if p.patchType == types.ApplyYAMLPatchType {
		err = p.convertYAML()
	} else if !json.Valid(p.data) {
		err = apierrors.NewBadRequest("invalid JSON patch")
	}
	if err != nil {
		return nil, nil, err
	}
	c.auditPatch(p.data)
	return p, o, nil
}

// convertYAML converts an applied configuration to JSON.
func (p *patch) convertYAML() error {
	document, duplicates, err := boundedyaml.Convert(p.data, int(p.call.backend.decoder.maxBody))
	switch err := yamlError(err); {
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

// patchTypes are those that the kind takes: custom resources have no strategic merge.
func (e *endpoint) patchTypes() []types.PatchType {
	return append(request.Forms(&e.resource.Kind), types.ApplyYAMLPatchType)
}

// patch is the patch of a PATCH request.
type patch struct {
	call      *call
	patchType types.PatchType
	data      []byte
	// validation is what becomes of unknown and duplicate fields.
	validation string
	// manager, force and duplicates, the keys that are twice in its text, belong to an apply.
	manager    string
	force      bool
	duplicates error
}

// apply decodes what the patch makes of current into an empty object of type gvk.
func (p *patch) apply(ctx context.Context, current runtime.Object, gvk schema.GroupVersionKind, into runtime.Object) error {
	r := request.Patch{Type: p.patchType, Data: p.data, Validation: p.validation, Decoder: patchDecoder{&p.call.backend.decoder, p.custom(gvk)}}
	unknown, err := r.Apply(ctx, current, gvk, into)
	p.call.warnStrict(unknown)
	return err
}

// custom is how objects of type gvk are decoded if not by their Go type.
func (p *patch) custom(gvk schema.GroupVersionKind) customDecode {
	if gvk == p.call.endpoint.gvk() {
		return p.call.resource.Decode
	}
	return nil // a Scale
}

// patchDecoder reads patched objects within the limits of bodies.
type patchDecoder struct {
	decoder *decoder
	custom  customDecode
}

// Decode implements request.Decoder.
func (d patchDecoder) Decode(document []byte, into runtime.Object, want schema.GroupVersionKind) ([]error, error) {
	got, strict, err := d.decoder.decode(mediaJSON, document, into, want, d.custom)
	if err == nil && got.Version == "" {
		err = runtime.NewMissingVersionErr(string(document)) // upstream fails later
	}
	return strict, err
}

// Room implements request.Decoder.
func (d patchDecoder) Room(document []byte, into runtime.Object) error {
	return d.decoder.checkMemory(document, into)
}
