package apiserver

import (
	"context"
	"fmt"
	"net/http"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/apiserver/managedfields"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/request"
)

func (c *call) getScale(ctx context.Context) {
	item, err := c.resource.Get(ctx, c.namespace(), c.request.Name, c.r.URL.Query().Get("resourceVersion"))
	if err != nil {
		c.fail(err)
		return
	}
	scale, err := request.ReadScale(*c.resource.Sub.Scale, item.Object)
	if err != nil {
		c.fail(err)
		return
	}
	c.respond(http.StatusOK, scale, scaleGVK())
}

func (c *call) updateScale(ctx context.Context) {
	data, o, err := c.readUpdate()
	if err != nil {
		c.fail(err)
		return
	}
	scale := &autoscalingv1.Scale{}
	if err := c.decodeInto(data, o.FieldValidation, scale, scaleGVK(), nil); err != nil {
		c.fail(c.malformedScale(err))
		return
	}
	err = request.InNamespace(scale, c.namespace())
	if err == nil {
		err = request.At(scale, c.namespace(), c.request.Name)
	}
	if err != nil {
		c.fail(err)
		return
	}
	c.setScale(ctx, func(_ context.Context, live *autoscalingv1.Scale) (*autoscalingv1.Scale, error) {
		wanted := scale.DeepCopy()
		c.backend.trackers.scale().Update(live, wanted, c.fieldManager(o.FieldManager))
		return wanted, nil
	}, o)
}

// malformedScale is the error for a Scale that cannot be decoded: of a custom resource, upstream does not tell why.
func (c *call) malformedScale(err error) error {
	if c.resource.Decode == nil || !apierrors.IsBadRequest(err) {
		return err
	}
	return apierrors.NewBadRequest(fmt.Sprintf("no kind is registered for the type v1.Scale in scheme %q", upstreamScheme))
}

func (c *call) patchScale(ctx context.Context, p *patch, o *metav1.PatchOptions) {
	wanted := func(ctx context.Context, live *autoscalingv1.Scale) (*autoscalingv1.Scale, error) {
		scale := &autoscalingv1.Scale{}
		if err := p.apply(ctx, live.DeepCopy(), scaleGVK(), scale); err != nil {
			return nil, err
		}
		c.backend.trackers.scale().Update(live, scale, c.fieldManager(o.FieldManager))
		return scale, p.checkIdentity(scale)
	}
	if p.patchType == types.ApplyYAMLPatchType {
		wanted = p.applyToScale
	}
	c.setScale(ctx, wanted, updateOptions(o))
}

// setScale changes the replica count, by an update of the object itself.
func (c *call) setScale(ctx context.Context, wanted func(context.Context, *autoscalingv1.Scale) (*autoscalingv1.Scale, error), o *metav1.UpdateOptions) {
	dry := isDryRun(o.DryRun)
	ctx = registry.WithWarnings(ctx, c.warn)
	item, _, err := c.resource.Update(ctx, c.namespace(), c.request.Name, func(ctx context.Context, current registry.Object) (registry.Object, error) {
		was := registry.NewScale(*c.resource.Sub.Scale, current)
		was.TypeMeta = metav1.TypeMeta{}
		var err error
		if was.ManagedFields, err = c.scaleMapping().ToScale(current.GetManagedFields()); err != nil {
			return nil, err
		}
		scale, err := wanted(ctx, was)
		if err != nil {
			return nil, err
		}
		if err := request.Scale(*c.resource.Sub.Scale, scale, c.request.Name); err != nil {
			return nil, err
		}
		q := c.admissionRequest(admission.Update, nil, nil, o, dry)
		q.Kind, q.RequestedKind, q.Object, q.OldObject = scaleGVK(), scaleGVK(), scale, was
		if err := c.backend.admit(ctx, q); err != nil {
			return nil, err
		}
		return c.rescaled(current, scale)
	}, registry.UpdateOptions{DryRun: dry, Admit: func(_ context.Context, obj, old registry.Object) error {
		c.backend.trackers.tracker(c.endpoint, "").KeepTimes(old, obj)
		return nil
	}})
	if err != nil {
		c.fail(err)
		return
	}
	c.respond(http.StatusOK, registry.NewScale(*c.resource.Sub.Scale, item.Object), scaleGVK())
}

// rescaled returns the object with the replica count of its Scale, and with its managed fields.
func (c *call) rescaled(current registry.Object, scale *autoscalingv1.Scale) (registry.Object, error) {
	obj := current.DeepCopyObject().(registry.Object)
	request.SetScale(*c.resource.Sub.Scale, obj, scale)
	owners, err := c.scaleMapping().FromScale(current.GetManagedFields(), scale.ManagedFields)
	obj.SetManagedFields(owners)
	return obj, err
}

// scaleMapping maps the ownership of an object's replica count to that of its Scale.
func (c *call) scaleMapping() managedfields.Scaled {
	s := managedfields.Scaled{Version: c.endpoint.gv.String(), Replicas: map[string][]string{}}
	for _, v := range c.resource.Versions() {
		s.Replicas[v.GroupVersion.String()] = []string{"spec", "replicas"}
	}
	return s
}
