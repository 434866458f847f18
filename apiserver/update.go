package apiserver

import (
	"context"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/request"
)

// readUpdate is readCreate for a PUT.
func (c *call) readUpdate() ([]byte, *metav1.UpdateOptions, error) {
	if _, err := c.accept(); err != nil {
		return nil, nil, err
	}
	data, err := readBody(c.r, c.backend.decoder.maxBody)
	if err != nil {
		return nil, nil, err
	}
	query := c.r.URL.Query()
	o := &metav1.UpdateOptions{}
	if err := metav1.Convert_url_Values_To_v1_UpdateOptions(&query, o, nil); err != nil {
		return nil, nil, apierrors.NewBadRequest(err.Error())
	}
	return data, o, request.Options("UpdateOptions", metavalidation.ValidateUpdateOptions(o))
}

func (c *call) update(ctx context.Context) {
	data, o, err := c.readUpdate()
	if err != nil {
		c.fail(err)
		return
	}
	wanted, err := c.decode(ctx, data, o.FieldValidation)
	if err == nil {
		err = request.At(wanted, c.namespace(), c.request.Name)
	}
	if err != nil {
		c.fail(err)
		return
	}
	c.dedupOwners(wanted, "")
	c.runUpdate(ctx, updateCall{change: c.trackChanges(o.FieldManager, func(context.Context, registry.Object) (registry.Object, error) {
		return wanted.DeepCopyObject().(registry.Object), nil
	}), options: o})
}

// updateCall is an update by PUT or PATCH: change returns the wanted state.
type updateCall struct {
	change  registry.Change
	options *metav1.UpdateOptions
	create  bool // the object, if there is none
}

// admissionOptions are the options that admission plugins see.
func (u *updateCall) admissionOptions(created bool) runtime.Object {
	if created {
		return &metav1.CreateOptions{DryRun: u.options.DryRun, FieldManager: u.options.FieldManager, FieldValidation: u.options.FieldValidation}
	}
	return u.options
}

// runUpdate runs an update and answers the request.
func (c *call) runUpdate(ctx context.Context, u updateCall) {
	item, created, err := c.storeUpdate(ctx, u)
	if err != nil {
		c.fail(err)
		return
	}
	code := http.StatusOK
	if created {
		code = http.StatusCreated
	}
	c.writeWritten(code, item)
}

func (c *call) storeUpdate(ctx context.Context, u updateCall) (*registry.Item, bool, error) {
	dry := isDryRun(u.options.DryRun)
	ctx = registry.WithWarnings(ctx, c.warn)
	request := func(obj, old registry.Object) *admission.Request {
		if old == nil {
			return c.admissionRequest(admission.Create, obj, nil, u.admissionOptions(true), dry)
		}
		return c.admissionRequest(admission.Update, obj, old, u.admissionOptions(false), dry)
	}
	o := registry.UpdateOptions{DryRun: dry, Patch: c.request.Verb == "patch", Create: u.create, Waits: c.waits(ctx)}
	if _, ok := c.resource.Sub.Views[c.request.Subresource]; ok {
		o.View = c.request.Subresource
	}
	o.Admit = func(ctx context.Context, obj, old registry.Object) error {
		if old != nil {
			c.tracker().KeepTimes(old, obj)
		}
		return c.backend.admission.Validate(ctx, request(obj, old))
	}
	return c.resource.Update(ctx, c.namespace(), c.request.Name, func(ctx context.Context, current registry.Object) (registry.Object, error) {
		obj, err := u.change(ctx, current)
		if err != nil {
			return nil, err
		}
		if current == nil {
			// The chain authorized an update. To create is another verb.
			if err := c.authorizeAs(ctx, "create"); err != nil {
				return nil, err
			}
		}
		return c.mutate(ctx, request(obj, current))
	}, o)
}
