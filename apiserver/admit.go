package apiserver

import (
	"context"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/registry"
)

// admissionRequest describes the request to admission plugins.
func (c *call) admissionRequest(op admission.Operation, obj, old registry.Object, options runtime.Object, dryRun bool) *admission.Request {
	q := &admission.Request{
		Operation: op, Kind: c.endpoint.gvk(), Resource: c.endpoint.gv.WithResource(c.endpoint.names.Plural), Subresource: c.request.Subresource,
		Namespace: c.request.Namespace, Name: c.request.Name, Options: options, DryRun: dryRun,
		User: authn.FromContext(c.r.Context()),
	}
	if stored := c.resource.Storage(); stored != c.resource {
		// Plugins see objects in the stored version, whichever version they were sent in.
		q.RequestedKind, q.RequestedResource = q.Kind, q.Resource
		q.Kind, q.Resource = stored.GroupVersion.WithKind(stored.Names.Kind), stored.GroupVersion.WithResource(stored.Plural)
	}
	if obj != nil {
		q.Object = obj
		if q.Name == "" {
			q.Name = obj.GetName()
		}
		if q.Namespace == "" && c.resource.GroupResource() == (schema.GroupResource{Resource: "namespaces"}) {
			q.Namespace = q.Name // to plugins, a namespace is in itself
		}
	}
	if old != nil {
		q.OldObject = old
	}
	return q
}

// mutate runs the mutating plugins over an object and returns the object that they leave.
func (c *call) mutate(ctx context.Context, q *admission.Request) (registry.Object, error) {
	owners := q.Object.(registry.Object).GetManagedFields()
	if err := c.backend.admission.Admit(ctx, q); err != nil {
		return nil, err
	}
	obj, ok := q.Object.(registry.Object)
	if !ok || reflect.TypeOf(obj) != reflect.TypeOf(c.resource.Storage().New()) {
		return nil, apierrors.NewInternalError(fmt.Errorf("admission left a %T instead of a %s", q.Object, c.resource.Names.Kind))
	}
	c.restoreManagedFields(obj, owners)
	c.dedupOwners(obj, " after mutating admission happens")
	return obj, nil
}
