package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/registry"
)

// invalidOptions is the answer to options that upstream's validation refuses.
func invalidOptions(kind string, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: kind}, "", errs)
}

// readCreate reads body and options of a POST, once it is clear that it can be understood and
// answered.
func (c *call) readCreate() ([]byte, *metav1.CreateOptions, error) {
	if _, err := c.accept(); err != nil {
		return nil, nil, err
	}
	if _, err := contentType(c.r.Header.Get("Content-Type")); err != nil {
		return nil, nil, err
	}
	data, err := readBody(c.r, c.server.maxBody)
	if err != nil {
		return nil, nil, err
	}
	query := c.r.URL.Query()
	o := &metav1.CreateOptions{}
	if err := metav1.Convert_url_Values_To_v1_CreateOptions(&query, o, nil); err != nil {
		return nil, nil, apierrors.NewBadRequest(err.Error())
	}
	return data, o, invalidOptions("CreateOptions", metavalidation.ValidateCreateOptions(o))
}

// readUpdate is readCreate of a PUT.
func (c *call) readUpdate() ([]byte, *metav1.UpdateOptions, error) {
	if _, err := c.accept(); err != nil {
		return nil, nil, err
	}
	data, err := readBody(c.r, c.server.maxBody)
	if err != nil {
		return nil, nil, err
	}
	query := c.r.URL.Query()
	o := &metav1.UpdateOptions{}
	if err := metav1.Convert_url_Values_To_v1_UpdateOptions(&query, o, nil); err != nil {
		return nil, nil, apierrors.NewBadRequest(err.Error())
	}
	return data, o, invalidOptions("UpdateOptions", metavalidation.ValidateUpdateOptions(o))
}

func (c *call) create(ctx context.Context) {
	data, o, err := c.readCreate()
	if err != nil {
		c.fail(err)
		return
	}
	if c.Answer != nil {
		c.answer(ctx, data, o)
		return
	}
	obj, err := c.decode(data, o.FieldValidation)
	if err != nil {
		c.fail(err)
		return
	}
	wipe(obj)
	c.dedupOwners(obj, "")
	if err := c.over(); err != nil { // defaults may take long, and so may this
		c.fail(err)
		return
	}
	c.tracker().Update(c.New(), obj, c.manager(o.FieldManager))
	dry := isDryRun(o.DryRun)
	ctx = registry.WithWarnings(ctx, c.warn)
	if obj, err = c.admit(ctx, c.admission(admission.Create, obj, nil, o, dry)); err != nil {
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

// wipe drops what a client cannot set of an object that is to be created.
func wipe(obj metav1.Object) {
	obj.SetCreationTimestamp(metav1.Time{})
	obj.SetDeletionTimestamp(nil)
	obj.SetDeletionGracePeriodSeconds(nil)
	obj.SetUID("")
	obj.SetSelfLink("")
}

// admit runs the mutating plugins over an object and returns what they leave behind.
func (c *call) admit(ctx context.Context, q *admission.Request) (registry.Object, error) {
	owners := q.Object.(registry.Object).GetManagedFields()
	if err := c.server.admission.Admit(ctx, q); err != nil {
		return nil, err
	}
	obj, ok := q.Object.(registry.Object)
	if !ok || reflect.TypeOf(obj) != reflect.TypeOf(c.New()) {
		return nil, apierrors.NewInternalError(fmt.Errorf("admission left a %T instead of a %s", q.Object, c.Names.Kind))
	}
	c.keepOwners(obj, owners)
	c.dedupOwners(obj, " after mutating admission happens")
	return obj, nil
}

// answer serves a create of a kind that is not stored.
func (c *call) answer(ctx context.Context, data []byte, o *metav1.CreateOptions) {
	obj := c.NewRequest()
	if err := c.decodeInto(data, o.FieldValidation, obj, c.gvk()); err != nil {
		c.fail(err)
		return
	}
	if meta, ok := obj.(metav1.Object); ok {
		wipe(meta)
		if err := sameNamespace(meta, c.namespace()); err != nil {
			c.fail(err)
			return
		}
	}
	c.trackPosted(obj, c.gvk(), c.NewRequest, o.FieldManager)
	result, err := c.Answer(ctx, c.server.registry.Access(), c.namespace(), obj)
	if err != nil {
		c.fail(err)
		return
	}
	c.respond(http.StatusCreated, result, c.gvk())
}

// respond answers with an object of any type: its own if it says so, else gvk.
func (c *call) respond(code int, obj runtime.Object, gvk schema.GroupVersionKind) {
	if status, ok := obj.(*metav1.Status); ok {
		gvk = statusGVK()
		if status.Code == 0 && code == http.StatusCreated {
			status = status.DeepCopy()
			status.Code = int32(code)
			obj = status
		}
	} else if own := obj.GetObjectKind().GroupVersionKind(); own.Kind != "" {
		gvk = own
	}
	c.writeObject(code, gvk, obj)
}

func (c *call) update(ctx context.Context) {
	data, o, err := c.readUpdate()
	if err != nil {
		c.fail(err)
		return
	}
	wanted, err := c.decode(data, o.FieldValidation)
	if err == nil {
		err = checkName(wanted, c.q.Name, c.namespace())
	}
	if err != nil {
		c.fail(err)
		return
	}
	c.dedupOwners(wanted, "")
	c.change(ctx, change{wanted: c.tracked(o.FieldManager, func(context.Context, registry.Object) (registry.Object, error) {
		return wanted.DeepCopyObject().(registry.Object), nil
	}), options: o})
}

// change is an update, whichever way the wanted state comes about.
type change struct {
	wanted  registry.Change
	options *metav1.UpdateOptions
	create  bool // if there is no such object
}

// admitted is what plugins see of the options.
func (u *change) admitted(created bool) runtime.Object {
	if created {
		return &metav1.CreateOptions{DryRun: u.options.DryRun, FieldManager: u.options.FieldManager, FieldValidation: u.options.FieldValidation}
	}
	return u.options
}

// change runs an update and answers it.
func (c *call) change(ctx context.Context, u change) {
	item, created, err := c.store(ctx, u)
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

func (c *call) store(ctx context.Context, u change) (*registry.Item, bool, error) {
	dry := isDryRun(u.options.DryRun)
	ctx = registry.WithWarnings(ctx, c.warn)
	request := func(obj, old registry.Object) *admission.Request {
		if old == nil {
			return c.admission(admission.Create, obj, nil, u.admitted(true), dry)
		}
		return c.admission(admission.Update, obj, old, u.admitted(false), dry)
	}
	o := registry.UpdateOptions{DryRun: dry, Patch: c.q.Verb == "patch", Create: u.create, Via: c.version}
	if _, ok := c.Sub.Views[c.q.Subresource]; ok {
		o.View = c.q.Subresource
	}
	o.Admit = func(ctx context.Context, obj, old registry.Object) error {
		if old != nil {
			c.tracker().KeepTimes(old, obj)
		}
		return c.server.admission.Validate(ctx, request(obj, old))
	}
	return c.Update(ctx, c.namespace(), c.q.Name, func(ctx context.Context, current registry.Object) (registry.Object, error) {
		obj, err := u.wanted(ctx, current)
		if err != nil {
			return nil, err
		}
		if current == nil {
			// Authorization judged an update; creating is another verb.
			if err := c.server.mayCreate(ctx, c.q); err != nil {
				return nil, err
			}
		}
		return c.admit(ctx, request(obj, current))
	}, o)
}

// deleteOptions reads the options of a delete: from the body, or else from the query.
func (c *call) deleteOptions() (*metav1.DeleteOptions, error) {
	if _, err := c.accept(); err != nil {
		return nil, err
	}
	o := &metav1.DeleteOptions{}
	data, err := readBody(c.r, c.server.maxBody)
	if err != nil {
		return nil, err
	}
	if len(data) > 0 {
		m, err := contentType(c.r.Header.Get("Content-Type"))
		if err != nil {
			return nil, err
		}
		want := c.gv.WithKind("DeleteOptions")
		if m != mediaProtobuf {
			if got, err := typeOf(data, want); err == nil && got.Kind == want.Kind {
				want = *got // of any group, for old clients
			}
		}
		got, _, err := c.server.decode(m, data, o, want)
		if errors.Is(err, errConversion) {
			err = runtime.NewNotRegisteredErrForKind(upstreamScheme, *got)
		}
		switch {
		case apierrors.IsRequestEntityTooLargeError(err):
			return nil, err
		case err != nil:
			return nil, apierrors.NewBadRequest(err.Error())
		}
		c.note(want, o)
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
	if ignoresReadErrors(o) {
		if err := c.mayIgnoreReadErrors(ctx); err != nil {
			c.fail(err)
			return
		}
	}
	item, gone, err := c.remove(ctx, c.q.Name, o)
	switch {
	case err != nil:
		c.fail(err)
		return
	case item == nil: // nobody could read it
		c.respond(http.StatusOK, &metav1.Status{
			Status: metav1.StatusSuccess, Details: &metav1.StatusDetails{Name: c.q.Name, Kind: c.gvk().Kind},
		}, schema.GroupVersionKind{})
		return
	}
	if !gone || c.Rules.Deletion.ReturnsObject {
		code := http.StatusOK
		if !gone && o.OrphanDependents != nil && !*o.OrphanDependents {
			code = http.StatusAccepted
		}
		c.write(c.w, c.r, code, item)
		return
	}
	c.respond(http.StatusOK, &metav1.Status{
		Status: metav1.StatusSuccess,
		Details: &metav1.StatusDetails{
			Name: item.Object.GetName(), Group: c.gv.Group, Kind: c.names.Plural, UID: item.Object.GetUID(),
		},
	}, schema.GroupVersionKind{})
}

// ignoresReadErrors tells whether a delete is to remove an object that cannot be read from storage.
func ignoresReadErrors(o *metav1.DeleteOptions) bool {
	ignore := o.IgnoreStoreReadErrorWithClusterBreakingPotential
	return ignore != nil && *ignore
}

// mayIgnoreReadErrors authorizes such a delete, by a verb of its own.
func (c *call) mayIgnoreReadErrors(ctx context.Context) error {
	const verb = "unsafe-delete-ignore-read-errors"
	q := c.q
	q.Verb = verb
	decision, err := c.server.authz.Authorize(ctx, attributes(authn.FromContext(ctx), &q))
	switch {
	case decision.Verdict == authz.Allow:
		return nil
	case err != nil:
		err = fmt.Errorf("error while checking permission for %q, %w", verb, err)
	default:
		err = fmt.Errorf("not permitted to do %q, reason: %s", verb, decision.Reason)
	}
	return apierrors.NewForbidden(c.GroupResource(), c.q.Name, err)
}

func (c *call) remove(ctx context.Context, name string, o *metav1.DeleteOptions) (*registry.Item, bool, error) {
	dry := isDryRun(o.DryRun)
	return c.Delete(registry.WithWarnings(ctx, c.warn), c.namespace(), name, registry.DeleteOptions{
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
	if ignoresReadErrors(o) {
		path := field.NewPath("ignoreStoreReadErrorWithClusterBreakingPotential")
		c.fail(invalidOptions("DeleteOptions", field.ErrorList{
			field.Invalid(path, true, "is not allowed with DELETECOLLECTION, try again after removing the option"),
		}))
		return
	}
	l, err := c.find(ctx)
	if err != nil {
		c.fail(err)
		return
	}
	for _, item := range l.Items {
		if err := c.over(); err != nil {
			c.fail(err)
			return
		}
		one := *c
		one.q.Namespace = item.Object.GetNamespace()
		if _, _, err := one.remove(ctx, item.Object.GetName(), o); err != nil && !apierrors.IsNotFound(statusError{*statusOf(err)}) {
			c.fail(err)
			return
		}
	}
	if unread := c.Unreadable(c.q.Namespace); len(unread) > 0 {
		c.fail(unread[0]) // they are still there
		return
	}
	c.writeList(l)
}
