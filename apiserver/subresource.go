package apiserver

import (
	"context"
	"encoding/json"
	"net/http"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/codec"
)

var (
	apierrorsNoResource schema.GroupResource
	scaleGVK            = autoscalingv1.SchemeGroupVersion.WithKind("Scale")
)

// subresource serves what stands behind the name in the path. served is false when there is no
// such subresource.
func (c *call) subresource(ctx context.Context) (served bool) {
	if len(c.q.Rest) > 0 {
		return false
	}
	if _, ok := c.Sub.Views[c.q.Subresource]; ok {
		switch c.q.Verb {
		case "get":
			c.get(ctx)
		case "update":
			c.update(ctx)
		case "patch":
			c.patch(ctx)
		default:
			c.notAllowed()
		}
		return true
	}
	if c.Sub.Scale != nil && c.q.Subresource == "scale" {
		switch c.q.Verb {
		case "get":
			c.getScale(ctx)
		case "update":
			c.updateScale(ctx)
		case "patch":
			c.patch(ctx)
		default:
			c.notAllowed()
		}
		return true
	}
	if action, ok := c.Sub.Actions[c.q.Subresource]; ok {
		if c.q.Verb != "create" {
			c.notAllowed()
			return true
		}
		c.act(ctx, action)
		return true
	}
	return false
}

// act serves a POST to an action such as binding or eviction.
func (c *call) act(ctx context.Context, action registry.Action) {
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
	body := action.New()
	if err := c.decodeInto(data, c.r.Header.Get("Content-Type"), o.FieldValidation, body, action.GroupVersionKind); err != nil {
		c.fail(err)
		return
	}
	if meta, ok := body.(metav1.Object); ok {
		if err := sameNamespace(meta, c.q.Namespace); err != nil {
			c.fail(err)
			return
		}
		if err := checkName(meta, c.q.Name, ""); err != nil {
			c.fail(err)
			return
		}
	}
	dry := isDryRun(o.DryRun)
	q := c.admission(admission.Create, nil, nil, o, dry)
	q.Kind, q.Object = action.GroupVersionKind, body
	if err := c.server.admit(ctx, q); err != nil {
		c.fail(err)
		return
	}
	key := registry.ObjectKey{Resource: c.GroupResource(), Namespace: c.namespace(), Name: c.q.Name}
	result, err := action.Run(ctx, c.server.registry.Access(), key, body, dry)
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
	c.respond(http.StatusOK, registry.NewScale(*c.Sub.Scale, item.Object), scaleGVK)
}

func (c *call) updateScale(ctx context.Context) {
	query := c.r.URL.Query()
	o := &metav1.UpdateOptions{}
	if err := metav1.Convert_url_Values_To_v1_UpdateOptions(&query, o, nil); err != nil {
		c.fail(apierrors.NewBadRequest(err.Error()))
		return
	}
	data, err := readBody(c.r, c.server.maxBody)
	if err != nil {
		c.fail(err)
		return
	}
	scale := &autoscalingv1.Scale{}
	if err := c.decodeInto(data, c.r.Header.Get("Content-Type"), o.FieldValidation, scale, scaleGVK); err != nil {
		c.fail(err)
		return
	}
	if err := checkName(scale, c.q.Name, c.namespace()); err != nil {
		c.fail(err)
		return
	}
	c.setScale(ctx, func(*autoscalingv1.Scale) (*autoscalingv1.Scale, error) { return scale, nil }, o.DryRun)
}

func (c *call) patchScale(ctx context.Context, patchType types.PatchType, patch []byte, o *metav1.PatchOptions) {
	c.setScale(ctx, func(current *autoscalingv1.Scale) (*autoscalingv1.Scale, error) {
		current.TypeMeta = metav1.TypeMeta{}
		before, err := codec.JSON(scaleGVK, current)
		if err != nil {
			return nil, err
		}
		after, err := ApplyPatch(before, patchType, patch, &autoscalingv1.Scale{})
		if err != nil {
			return nil, err
		}
		scale := &autoscalingv1.Scale{}
		if err := json.Unmarshal(after, scale); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		return scale, nil
	}, o.DryRun)
}

// setScale changes the replica count as an update of the object itself.
func (c *call) setScale(ctx context.Context, wanted func(*autoscalingv1.Scale) (*autoscalingv1.Scale, error), dryRun []string) {
	dry := isDryRun(dryRun)
	item, _, err := c.Update(ctx, c.namespace(), c.q.Name, func(ctx context.Context, current registry.Object) (registry.Object, error) {
		was := registry.NewScale(*c.Sub.Scale, current)
		scale, err := wanted(was.DeepCopy())
		if err != nil {
			return nil, err
		}
		if scale.Spec.Replicas < 0 {
			return nil, apierrors.NewInvalid(scaleGVK.GroupKind(), c.q.Name, field.ErrorList{field.Invalid(
				field.NewPath("spec", "replicas"), scale.Spec.Replicas, "must be greater than or equal to 0").WithOrigin("minimum")})
		}
		q := c.admission(admission.Update, nil, nil, &metav1.UpdateOptions{DryRun: dryRun}, dry)
		q.Kind, q.Object, q.OldObject = scaleGVK, scale, was
		if err := c.server.admit(ctx, q); err != nil {
			return nil, err
		}
		obj := current.DeepCopyObject().(registry.Object)
		obj.SetResourceVersion(scale.ResourceVersion)
		if scale.UID != "" {
			obj.SetUID(scale.UID)
		}
		c.Sub.Scale.Set(obj, scale.Spec.Replicas)
		return obj, nil
	}, registry.UpdateOptions{DryRun: dry})
	if err != nil {
		c.fail(err)
		return
	}
	c.respond(http.StatusOK, registry.NewScale(*c.Sub.Scale, item.Object), scaleGVK)
}

func (c *call) notAllowed() {
	c.fail(apierrors.NewMethodNotSupported(c.GroupResource(), c.q.Verb))
}
