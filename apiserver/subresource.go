package apiserver

import (
	"context"
	"net/http"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/registry"
)

func scaleGVK() schema.GroupVersionKind {
	return autoscalingv1.SchemeGroupVersion.WithKind("Scale")
}

// subresource finds what stands behind the name in the path. found is false when there is no
// such subresource, handle is nil when it does not take the method.
func (c *call) subresource() (handle func(context.Context), found bool) {
	if connect, ok := c.connects(); ok {
		return c.connection(connect), true
	}
	if len(c.q.Rest) > 0 || c.Namespaced && c.q.Namespace == "" {
		return nil, false
	}
	if _, ok := c.Sub.Views[c.q.Subresource]; ok {
		return c.view(), true
	}
	if c.Sub.Scale != nil && c.q.Subresource == "scale" {
		switch c.q.Verb {
		case "get":
			return c.getScale, true
		case "update":
			return c.updateScale, true
		case "patch":
			return c.patch, true
		}
		return nil, true
	}
	action, ok := c.Sub.Actions[c.q.Subresource]
	if !ok || c.q.Verb != "create" {
		return nil, ok
	}
	return func(ctx context.Context) { c.act(ctx, action) }, true
}

// view serves a part of the object under the object's own type.
func (c *call) view() func(context.Context) {
	switch {
	case c.q.Verb == "update":
		return c.update
	case c.q.Subresource == "finalize":
		return nil // it can only be written whole
	case c.q.Verb == "get":
		return c.get
	case c.q.Verb == "patch":
		return c.patch
	}
	return nil
}

// act serves a POST to an action such as binding or eviction.
func (c *call) act(ctx context.Context, action registry.Action) {
	data, o, err := c.readCreate()
	if err != nil {
		c.fail(err)
		return
	}
	body := action.New()
	if err := c.decodeInto(data, o.FieldValidation, body, action.GroupVersionKind); err != nil {
		c.fail(err)
		return
	}
	if meta, ok := body.(metav1.Object); ok {
		if err := sameNamespace(meta, c.q.Namespace); err != nil {
			c.fail(err)
			return
		}
	}
	if action.Default != nil {
		action.Default(body)
	}
	c.trackPosted(body, action.GroupVersionKind, action.New, o.FieldManager)
	dry := isDryRun(o.DryRun)
	q := c.admission(admission.Create, nil, nil, o, dry)
	q.Kind, q.Object = action.GroupVersionKind, body
	ctx = registry.WithWarnings(ctx, c.warn)
	if err := c.server.admit(ctx, q); err != nil {
		c.fail(err)
		return
	}
	key := registry.ObjectKey{Resource: c.GroupResource(), Namespace: c.namespace(), Name: c.q.Name}
	access := accessOf{c.server.registry.Access(), key.Resource, c.server}
	result, err := action.Run(ctx, access, key, body, dry)
	if err != nil {
		c.fail(err)
		return
	}
	c.respond(http.StatusCreated, result, action.GroupVersionKind)
}

func (c *call) getScale(ctx context.Context) {
	item, err := c.Get(ctx, c.namespace(), c.q.Name, c.r.URL.Query().Get("resourceVersion"))
	if err != nil {
		c.fail(err)
		return
	}
	c.respond(http.StatusOK, registry.NewScale(*c.Sub.Scale, item.Object), scaleGVK())
}

func (c *call) updateScale(ctx context.Context) {
	data, o, err := c.readUpdate()
	if err != nil {
		c.fail(err)
		return
	}
	scale := &autoscalingv1.Scale{}
	if err := c.decodeInto(data, o.FieldValidation, scale, scaleGVK()); err != nil {
		c.fail(err)
		return
	}
	if err := checkName(scale, c.q.Name, c.namespace()); err != nil {
		c.fail(err)
		return
	}
	c.setScale(ctx, func(_ context.Context, live *autoscalingv1.Scale) (*autoscalingv1.Scale, error) {
		wanted := scale.DeepCopy()
		c.server.owners.scale().Update(live, wanted, c.manager(o.FieldManager))
		return wanted, nil
	}, o)
}

func (c *call) patchScale(ctx context.Context, p *patch, o *metav1.PatchOptions) {
	wanted := func(ctx context.Context, live *autoscalingv1.Scale) (*autoscalingv1.Scale, error) {
		scale := &autoscalingv1.Scale{}
		if err := p.apply(ctx, live.DeepCopy(), scaleGVK(), scale); err != nil {
			return nil, err
		}
		c.server.owners.scale().Update(live, scale, c.manager(o.FieldManager))
		return scale, p.belongs(scale)
	}
	if p.form == types.ApplyYAMLPatchType {
		wanted = p.appliedScale
	}
	c.setScale(ctx, wanted, updateOptions(o))
}

// setScale changes the replica count as an update of the object itself.
func (c *call) setScale(ctx context.Context, wanted func(context.Context, *autoscalingv1.Scale) (*autoscalingv1.Scale, error), o *metav1.UpdateOptions) {
	dry := isDryRun(o.DryRun)
	ctx = registry.WithWarnings(ctx, c.warn)
	item, _, err := c.Update(ctx, c.namespace(), c.q.Name, func(ctx context.Context, current registry.Object) (registry.Object, error) {
		was := registry.NewScale(*c.Sub.Scale, current)
		was.TypeMeta = metav1.TypeMeta{}
		var err error
		if was.ManagedFields, err = c.scaled().ToScale(current.GetManagedFields()); err != nil {
			return nil, err
		}
		scale, err := wanted(ctx, was)
		if err != nil {
			return nil, err
		}
		if scale.Spec.Replicas < 0 {
			return nil, apierrors.NewInvalid(scaleGVK().GroupKind(), c.q.Name, field.ErrorList{field.Invalid(
				field.NewPath("spec", "replicas"), scale.Spec.Replicas, "must be greater than or equal to 0").WithOrigin("minimum")})
		}
		q := c.admission(admission.Update, nil, nil, o, dry)
		q.Kind, q.Object, q.OldObject = scaleGVK(), scale, was
		if err := c.server.admit(ctx, q); err != nil {
			return nil, err
		}
		return c.rescaled(current, scale)
	}, registry.UpdateOptions{DryRun: dry, Admit: func(_ context.Context, obj, old registry.Object) error {
		c.server.owners.tracker(c.endpoint, "").KeepTimes(old, obj)
		return nil
	}})
	if err != nil {
		c.fail(err)
		return
	}
	c.respond(http.StatusOK, registry.NewScale(*c.Sub.Scale, item.Object), scaleGVK())
}

// rescaled returns the object with the replica count of its Scale, and the owners of that.
func (c *call) rescaled(current registry.Object, scale *autoscalingv1.Scale) (registry.Object, error) {
	obj := current.DeepCopyObject().(registry.Object)
	obj.SetResourceVersion(scale.ResourceVersion)
	if scale.UID != "" {
		obj.SetUID(scale.UID)
	}
	c.Sub.Scale.Set(obj, scale.Spec.Replicas)
	owners, err := c.scaled().FromScale(current.GetManagedFields(), scale.ManagedFields)
	obj.SetManagedFields(owners)
	return obj, err
}
