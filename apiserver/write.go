package apiserver

import (
	"context"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/registry"
)

// invalidOptions is the answer to options that upstream's validation refuses.
func invalidOptions(kind string, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: kind}, "", errs)
}

func (c *call) createOptions() (*metav1.CreateOptions, error) {
	query := c.r.URL.Query()
	o := &metav1.CreateOptions{}
	if err := metav1.Convert_url_Values_To_v1_CreateOptions(&query, o, nil); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return o, invalidOptions("CreateOptions", metavalidation.ValidateCreateOptions(o))
}

func (c *call) create(ctx context.Context) {
	o, err := c.createOptions()
	if err != nil {
		c.fail(err)
		return
	}
	data, err := readBody(c.r, c.server.maxBody)
	if err != nil {
		c.fail(err)
		return
	}
	if c.Answer != nil {
		c.answer(ctx, data, o)
		return
	}
	obj, err := c.decode(data, c.r.Header.Get("Content-Type"), o.FieldValidation)
	if err != nil {
		c.fail(err)
		return
	}
	obj.SetManagedFields(nil)
	dry := isDryRun(o.DryRun)
	if err := c.server.admission.Admit(ctx, c.admission(admission.Create, obj, nil, o, dry)); err != nil {
		c.fail(err)
		return
	}
	item, err := c.Create(ctx, obj, registry.CreateOptions{DryRun: dry, Via: c.version, Admit: func(ctx context.Context, obj registry.Object) error {
		return c.server.admission.Validate(ctx, c.admission(admission.Create, obj, nil, o, dry))
	}})
	if err != nil {
		c.fail(err)
		return
	}
	c.write(c.w, c.r, http.StatusCreated, item)
}

// answer serves a create of a kind that is not stored.
func (c *call) answer(ctx context.Context, data []byte, o *metav1.CreateOptions) {
	obj := c.NewRequest()
	if err := c.decodeInto(data, c.r.Header.Get("Content-Type"), o.FieldValidation, obj, c.gvk()); err != nil {
		c.fail(err)
		return
	}
	if meta, ok := obj.(metav1.Object); ok && c.Namespaced {
		if err := sameNamespace(meta, c.q.Namespace); err != nil {
			c.fail(err)
			return
		}
	}
	result, err := c.Answer(ctx, c.server.registry.Access(), c.namespace(), obj)
	if err != nil {
		c.fail(err)
		return
	}
	c.respond(http.StatusCreated, result, c.gvk())
}

func sameNamespace(obj metav1.Object, namespace string) error {
	switch obj.GetNamespace() {
	case namespace, "":
		obj.SetNamespace(namespace)
		return nil
	}
	return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
}

// respond answers with an object of any type: its own if it says so, else gvk.
func (c *call) respond(code int, obj runtime.Object, gvk schema.GroupVersionKind) {
	if _, ok := obj.(*metav1.Status); ok {
		gvk = schema.GroupVersionKind{Version: "v1", Kind: "Status"}
	} else if own := obj.GetObjectKind().GroupVersionKind(); own.Kind != "" {
		gvk = own
	}
	writeObject(c.w, c.r, code, gvk, obj)
}

func (c *call) update(ctx context.Context) {
	query := c.r.URL.Query()
	o := &metav1.UpdateOptions{}
	if err := metav1.Convert_url_Values_To_v1_UpdateOptions(&query, o, nil); err != nil {
		c.fail(apierrors.NewBadRequest(err.Error()))
		return
	}
	if err := invalidOptions("UpdateOptions", metavalidation.ValidateUpdateOptions(o)); err != nil {
		c.fail(err)
		return
	}
	data, err := readBody(c.r, c.server.maxBody)
	if err != nil {
		c.fail(err)
		return
	}
	wanted, err := c.decode(data, c.r.Header.Get("Content-Type"), o.FieldValidation)
	if err == nil {
		err = checkName(wanted, c.q.Name, c.namespace())
	}
	if err != nil {
		c.fail(err)
		return
	}
	c.change(ctx, func(context.Context, registry.Object) (registry.Object, error) {
		return wanted.DeepCopyObject().(registry.Object), nil
	}, o, isDryRun(o.DryRun))
}

// change runs an update, whichever way the wanted state comes about, and answers it.
func (c *call) change(ctx context.Context, wanted registry.Change, options runtime.Object, dry bool) {
	item, created, err := c.apply(ctx, wanted, options, dry)
	if err != nil {
		c.fail(err)
		return
	}
	code := http.StatusOK
	if created {
		code = http.StatusCreated
	}
	c.write(c.w, c.r, code, item)
}

func (c *call) apply(ctx context.Context, wanted registry.Change, options runtime.Object, dry bool) (*registry.Item, bool, error) {
	request := func(obj, old registry.Object) *admission.Request {
		if old == nil {
			return c.admission(admission.Create, obj, nil, options, dry)
		}
		return c.admission(admission.Update, obj, old, options, dry)
	}
	view := ""
	if _, ok := c.Sub.Views[c.q.Subresource]; ok {
		view = c.q.Subresource
	}
	return c.Update(ctx, c.namespace(), c.q.Name, func(ctx context.Context, current registry.Object) (registry.Object, error) {
		obj, err := wanted(ctx, current)
		if err != nil {
			return nil, err
		}
		if current == nil {
			// Authorization judged an update; creating is another verb.
			if err := c.server.mayCreate(ctx, c.q); err != nil {
				return nil, err
			}
		} else {
			obj.SetManagedFields(current.GetManagedFields())
		}
		return obj, c.server.admission.Admit(ctx, request(obj, current))
	}, registry.UpdateOptions{View: view, DryRun: dry, Via: c.version, Admit: func(ctx context.Context, obj, old registry.Object) error {
		return c.server.admission.Validate(ctx, request(obj, old))
	}})
}

// deleteOptions reads the options of a delete: from the body, or else from the query.
func (c *call) deleteOptions() (*metav1.DeleteOptions, error) {
	o := &metav1.DeleteOptions{}
	data, err := readBody(c.r, c.server.maxBody)
	if err != nil {
		return nil, err
	}
	if len(data) > 0 {
		got, err := decodeBody(c.r.Header.Get("Content-Type"), data, o)
		if err != nil {
			if _, ok := err.(apierrors.APIStatus); ok {
				return nil, err
			}
			return nil, apierrors.NewBadRequest(err.Error())
		}
		if got.gvk.Kind != "" && got.gvk.Kind != "DeleteOptions" {
			return nil, apierrors.NewBadRequest("decoded object cannot be converted to DeleteOptions")
		}
	} else {
		query := c.r.URL.Query()
		if err := metav1.Convert_url_Values_To_v1_DeleteOptions(&query, o, nil); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	return o, invalidOptions("DeleteOptions", metavalidation.ValidateDeleteOptions(o))
}

func (c *call) delete(ctx context.Context) {
	o, err := c.deleteOptions()
	if err != nil {
		c.fail(err)
		return
	}
	item, gone, err := c.remove(ctx, c.q.Name, o)
	if err != nil {
		c.fail(err)
		return
	}
	if !gone || c.Rules.Deletion.ReturnsObject {
		c.write(c.w, c.r, http.StatusOK, item)
		return
	}
	c.respond(http.StatusOK, &metav1.Status{
		Status: metav1.StatusSuccess,
		Details: &metav1.StatusDetails{
			Name: item.Object.GetName(), Group: c.gv.Group, Kind: c.names.Plural, UID: item.Object.GetUID(),
		},
	}, schema.GroupVersionKind{})
}

func (c *call) remove(ctx context.Context, name string, o *metav1.DeleteOptions) (*registry.Item, bool, error) {
	dry := isDryRun(o.DryRun)
	return c.Delete(ctx, c.namespace(), name, registry.DeleteOptions{
		DeleteOptions: *o, DryRun: dry,
		Admit: func(ctx context.Context, obj registry.Object) error {
			q := c.admission(admission.Delete, nil, obj, o, dry)
			q.Name = name
			if err := c.server.admission.Admit(ctx, q); err != nil {
				return err
			}
			return c.server.admission.Validate(ctx, q)
		},
	})
}

// deleteCollection deletes what a list selects, one after the other, and answers with that list.
func (c *call) deleteCollection(ctx context.Context) {
	o, err := c.deleteOptions()
	if err != nil {
		c.fail(err)
		return
	}
	lo, selection, err := c.listOptions(c.r.URL.Query(), false)
	if err != nil {
		c.fail(err)
		return
	}
	l, err := c.List(ctx, registry.ListOptions{
		Selection: selection, Limit: lo.Limit, Continue: lo.Continue,
		ResourceVersion: lo.ResourceVersion, Match: lo.ResourceVersionMatch,
	})
	if err != nil {
		c.fail(err)
		return
	}
	for _, item := range l.Items {
		one := *c
		one.q.Namespace = item.Object.GetNamespace()
		if c.Plural == "namespaces" && c.gv.Group == "" {
			one.q.Namespace = item.Object.GetName()
		}
		if _, _, err := one.remove(ctx, item.Object.GetName(), o); err != nil && !apierrors.IsNotFound(statusError{*statusOf(err)}) {
			c.fail(err)
			return
		}
	}
	m, err := accept(c.r, c.protobuf())
	if err != nil {
		c.fail(err)
		return
	}
	data, err := c.encodeList(m, l)
	if err != nil {
		c.fail(err)
		return
	}
	writeBytes(c.w, http.StatusOK, m, data)
}
