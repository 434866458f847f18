package apiserver

import (
	"context"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/request"
)

// readCreate reads the body and the options of a POST, after checking that the request can be decoded and answered.
func (c *call) readCreate() ([]byte, *metav1.CreateOptions, error) {
	if _, err := c.accept(); err != nil {
		return nil, nil, err
	}
	if _, err := contentType(c.r); err != nil {
		return nil, nil, err
	}
	data, err := readBody(c.r, c.backend.decoder.maxBody)
	if err != nil {
		return nil, nil, err
	}
	query := c.r.URL.Query()
	o := &metav1.CreateOptions{}
	if err := metav1.Convert_url_Values_To_v1_CreateOptions(&query, o, nil); err != nil {
		return nil, nil, apierrors.NewBadRequest(err.Error())
	}
	return data, o, request.Options("CreateOptions", metavalidation.ValidateCreateOptions(o))
}

func (c *call) create(ctx context.Context) {
	data, o, err := c.readCreate()
	if err != nil {
		c.fail(err)
		return
	}
	if c.resource.Answer != nil {
		c.createUnstored(ctx, data, o)
		return
	}
	obj, err := c.decode(ctx, data, o.FieldValidation)
	if err != nil {
		c.fail(err)
		return
	}
	request.Wipe(obj)
	c.dedupOwners(obj, "")
	if err := c.canceled(); err != nil { // defaulting and tracking may both take long
		c.fail(err)
		return
	}
	c.track(c.resource.Storage().New(), obj, o.FieldManager)
	dry := isDryRun(o.DryRun)
	ctx = registry.WithWarnings(ctx, c.warn)
	if obj, err = c.mutate(ctx, c.admissionRequest(admission.Create, obj, nil, o, dry)); err != nil {
		c.fail(err)
		return
	}
	item, err := c.resource.Create(ctx, obj, registry.CreateOptions{DryRun: dry, Waits: c.waits(ctx), Admit: func(ctx context.Context, obj registry.Object) error {
		return c.backend.admission.Validate(ctx, c.admissionRequest(admission.Create, obj, nil, o, dry))
	}})
	if err != nil {
		c.fail(err)
		return
	}
	code := http.StatusCreated
	if !dry && c.resource.IsPending(item) {
		code = http.StatusAccepted
	}
	c.writeWritten(code, item)
}

// createUnstored serves a create of a kind that is not stored but answered, such as a review.
func (c *call) createUnstored(ctx context.Context, data []byte, o *metav1.CreateOptions) {
	obj := c.resource.NewRequest()
	if err := c.decodeInto(data, o.FieldValidation, obj, c.endpoint.gvk(), nil); err != nil {
		c.fail(err)
		return
	}
	if meta, ok := obj.(metav1.Object); ok {
		request.Wipe(meta)
		if err := request.InNamespace(meta, c.namespace()); err != nil {
			c.fail(err)
			return
		}
	}
	c.trackTransient(obj, c.endpoint.gvk(), c.resource.NewRequest, o.FieldManager)
	result, err := c.resource.Answer(ctx, c.backend.registry.Access(), c.namespace(), obj)
	if err != nil {
		c.fail(err)
		return
	}
	c.respond(http.StatusCreated, result, c.endpoint.gvk())
}
