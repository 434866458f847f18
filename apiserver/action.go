package apiserver

import (
	"context"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/request"
)

// runAction serves a POST to an action, such as binding or eviction.
func (c *call) runAction(ctx context.Context, action registry.Action) {
	data, o, err := c.readCreate()
	if err != nil {
		c.fail(err)
		return
	}
	body := action.New()
	if err := c.decodeInto(data, o.FieldValidation, body, action.GroupVersionKind, nil); err != nil {
		c.fail(err)
		return
	}
	if meta, ok := body.(metav1.Object); ok {
		if err := request.InNamespace(meta, c.request.Namespace); err != nil {
			c.fail(err)
			return
		}
	}
	if action.Default != nil {
		action.Default(body)
	}
	c.trackTransient(body, action.GroupVersionKind, action.New, o.FieldManager)
	dry := isDryRun(o.DryRun)
	q := c.admissionRequest(admission.Create, nil, nil, o, dry)
	q.Kind, q.Object = action.GroupVersionKind, body
	ctx = registry.WithWarnings(ctx, c.warn)
	if err := c.backend.admit(ctx, q); err != nil {
		c.fail(err)
		return
	}
	if err := c.resource.Hidden(ctx, c.namespace(), c.request.Name); err != nil {
		c.fail(err)
		return
	}
	key := registry.ObjectKey{Resource: c.resource.GroupResource(), Namespace: c.namespace(), Name: c.request.Name}
	access := trackedAccess{c.backend.registry.Access(), key.Resource, c.backend}
	result, err := action.Run(ctx, access, key, body, dry)
	if err != nil {
		c.fail(err)
		return
	}
	c.respond(http.StatusCreated, result, action.GroupVersionKind)
}

// serverFieldManager is the field manager of what the server itself changes.
const serverFieldManager = "kube-apiserver"

// trackedAccess is what actions on a resource work through. Objects of other resources that they change count as changed
// by the server, in their status, as their controller changes them.
type trackedAccess struct {
	registry.Access
	resource schema.GroupResource
	backend  *backend
}

// Modify implements registry.Access.
func (a trackedAccess) Modify(ctx context.Context, key registry.ObjectKey, change func(registry.Object) error, dryRun bool) (registry.Object, error) {
	res, ok := a.backend.registry.Resource(key.Resource)
	if !ok || key.Resource == a.resource {
		return a.Access.Modify(ctx, key, change, dryRun)
	}
	e, ok := a.backend.catalog.served().endpoints[res.GroupVersion.WithResource(res.Plural)]
	if !ok {
		return a.Access.Modify(ctx, key, change, dryRun) // it was removed just now
	}
	return a.Access.Modify(ctx, key, func(obj registry.Object) error {
		before := obj.DeepCopyObject().(registry.Object)
		if err := change(obj); err != nil {
			return err
		}
		a.backend.trackers.tracker(e, "status").Update(before, obj, serverFieldManager)
		return nil
	}, dryRun)
}
