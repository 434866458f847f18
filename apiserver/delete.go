package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/request"
)

// deleteOptions reads the options of a delete, from the body or else from the query.
func (c *call) deleteOptions() (*metav1.DeleteOptions, error) {
	if _, err := c.accept(); err != nil {
		return nil, err
	}
	o := &metav1.DeleteOptions{}
	data, err := readBody(c.r, c.backend.decoder.maxBody)
	if err != nil {
		return nil, err
	}
	if len(data) > 0 {
		m, err := contentType(c.r)
		if err != nil {
			return nil, err
		}
		want := c.endpoint.gv.WithKind("DeleteOptions")
		if m != mediaProtobuf {
			if got, err := request.TypeOf(data, want); err == nil && got.Kind == want.Kind {
				want = *got // of any group, for old clients
			}
		}
		got, _, err := c.backend.decoder.decode(m, data, o, want, nil)
		if errors.Is(err, errConversion) {
			err = runtime.NewNotRegisteredErrForKind(upstreamScheme, *got)
		}
		switch {
		case apierrors.IsRequestEntityTooLargeError(err):
			return nil, err
		case err != nil:
			return nil, apierrors.NewBadRequest(err.Error())
		}
		c.auditBody(want, o)
	} else {
		query := c.r.URL.Query()
		if err := metav1.Convert_url_Values_To_v1_DeleteOptions(&query, o, nil); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	return o, request.Options("DeleteOptions", metavalidation.ValidateDeleteOptions(o))
}

func (c *call) delete(ctx context.Context) {
	o, err := c.deleteOptions()
	if err != nil {
		c.fail(err)
		return
	}
	if ignoresReadErrors(o) {
		if err := c.authorizeIgnoringReadErrors(ctx); err != nil {
			c.fail(err)
			return
		}
	}
	item, gone, err := c.deleteObject(ctx, c.request.Namespace, c.request.Name, o)
	switch {
	case err != nil:
		c.fail(err)
		return
	case item == nil: // it could not be read
		c.respond(http.StatusOK, &metav1.Status{
			Status: metav1.StatusSuccess, Details: &metav1.StatusDetails{Name: c.request.Name, Kind: c.endpoint.gvk().Kind},
		}, schema.GroupVersionKind{})
		return
	}
	if !gone || c.resource.Rules.Deletion.ReturnsObject {
		code := http.StatusOK
		if !gone && o.OrphanDependents != nil && !*o.OrphanDependents {
			code = http.StatusAccepted
		}
		c.writeItem(code, item)
		return
	}
	c.respond(http.StatusOK, &metav1.Status{
		Status: metav1.StatusSuccess,
		Details: &metav1.StatusDetails{
			Name: item.Object.GetName(), Group: c.endpoint.gv.Group, Kind: c.endpoint.names.Plural, UID: item.Object.GetUID(),
		},
	}, schema.GroupVersionKind{})
}

// ignoresReadErrors tells whether a delete is to remove an object even if it cannot be read from storage.
func ignoresReadErrors(o *metav1.DeleteOptions) bool {
	ignore := o.IgnoreStoreReadErrorWithClusterBreakingPotential
	return ignore != nil && *ignore
}

// authorizeIgnoringReadErrors authorizes such a delete, by a verb of its own.
func (c *call) authorizeIgnoringReadErrors(ctx context.Context) error {
	const verb = "unsafe-delete-ignore-read-errors"
	a := c.attributesAs(ctx, verb)
	decision, err := c.backend.authorizer.Authorize(ctx, a)
	switch {
	case decision.Verdict == authz.Allow:
		return nil
	case err != nil:
		err = fmt.Errorf("error while checking permission for %q, %w", verb, err)
	default:
		err = fmt.Errorf("not permitted to do %q, reason: %s", verb, decision.Why(a))
	}
	return apierrors.NewForbidden(c.resource.GroupResource(), c.request.Name, err)
}

// deleteObject deletes one object. namespace is that of the request, or that of an item of a collection.
func (c *call) deleteObject(ctx context.Context, namespace, name string, o *metav1.DeleteOptions) (*registry.Item, bool, error) {
	dry := isDryRun(o.DryRun)
	return c.resource.Delete(registry.WithWarnings(ctx, c.warn), c.storedNamespace(namespace), name, registry.DeleteOptions{
		DeleteOptions: *o, DryRun: dry,
		Admit: func(ctx context.Context, obj registry.Object) error {
			q := c.admissionRequest(admission.Delete, nil, obj, o, dry)
			q.Namespace, q.Name = namespace, name
			return c.backend.admit(ctx, q)
		},
	})
}

// deleteCollection deletes what a list selects, item by item, and answers with that list.
func (c *call) deleteCollection(ctx context.Context) {
	o, err := c.deleteOptions()
	if err != nil {
		c.fail(err)
		return
	}
	if ignoresReadErrors(o) {
		path := field.NewPath("ignoreStoreReadErrorWithClusterBreakingPotential")
		c.fail(request.Options("DeleteOptions", field.ErrorList{
			field.Invalid(path, true, "is not allowed with DELETECOLLECTION, try again after removing the option"),
		}))
		return
	}
	l, err := c.listItems(ctx)
	if err != nil {
		c.fail(err)
		return
	}
	for _, item := range l.Items {
		if err := c.canceled(); err != nil {
			c.fail(err)
			return
		}
		_, _, err := c.deleteObject(ctx, item.Object.GetNamespace(), item.Object.GetName(), o)
		if err != nil && !apierrors.IsNotFound(statusError{*statusOf(err)}) {
			c.fail(err)
			return
		}
	}
	if unread := c.resource.Unreadable(c.request.Namespace); len(unread) > 0 {
		c.fail(unread[0]) // they are still there
		return
	}
	c.writeList(l)
}
