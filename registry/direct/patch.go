package direct

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/request"
)

// Patch implements client.Patcher for JSON, merge and strategic merge patches.
func (c *Client) Patch(ctx context.Context, t client.Target, patch client.Patch, o metav1.PatchOptions) (runtime.Object, error) {
	ctx, p, err := c.beginOne(registry.WithVerb(ctx, "patch"), t)
	if err != nil {
		return nil, err
	}
	part := p.part(t.Subresource)
	switch {
	case p.Read != nil || part != whole && part != scale && (part != view || t.Subresource == "finalize"):
		return nil, p.refuse(t.Subresource)
	case patch.Type == types.ApplyPatchType:
		return nil, apierrors.NewGenericServerResponse(http.StatusUnsupportedMediaType, "patch", t.Resource.GroupResource(), t.Name,
			"server-side apply needs an API server, which tracks the owners of fields", 0, false)
	case !slices.Contains(request.Forms(&p.Kind), patch.Type):
		return nil, request.UnsupportedPatch()
	}
	if err := request.Options("PatchOptions", metavalidation.ValidatePatchOptions(&o, patch.Type)); err != nil {
		return nil, err
	}
	if !json.Valid(patch.Data) {
		return nil, apierrors.NewBadRequest("invalid JSON patch")
	}
	work := request.Patch{Type: patch.Type, Data: patch.Data, Validation: o.FieldValidation}
	dry := len(o.DryRun) > 0
	if part == scale {
		return p.rescale(ctx, t, dry, func(ctx context.Context, live *autoscalingv1.Scale) (*autoscalingv1.Scale, error) {
			wanted := &autoscalingv1.Scale{}
			if _, err := work.Apply(ctx, live, autoscalingv1.SchemeGroupVersion.WithKind("Scale"), wanted); err != nil {
				return nil, err
			}
			if err := request.InNamespace(wanted, p.namespace(t)); err != nil {
				return nil, err
			}
			return wanted, request.At(wanted, p.namespace(t), t.Name)
		})
	}
	return p.change(ctx, t, registry.UpdateOptions{DryRun: dry, Patch: true}, func(ctx context.Context, current registry.Object) (registry.Object, error) {
		return p.patched(ctx, t, &work, current)
	})
}

// patched applies the patch to the current state and returns the new one.
func (p *place) patched(ctx context.Context, t client.Target, work *request.Patch, current registry.Object) (registry.Object, error) {
	if current == nil {
		return nil, registry.Errorf(registry.ErrNotFound, registry.ObjectKey{Resource: p.GroupResource(), Name: t.Name}, "")
	}
	before, err := p.FromStored(ctx, current)
	if err != nil {
		return nil, err
	}
	obj, own := p.New(), *work
	if p.Decode != nil {
		own.Decoder = customDecoder{p}
	}
	if _, err := own.Apply(ctx, before, p.gvk(), obj); err != nil {
		return nil, err
	}
	stored, err := p.settle(ctx, t, obj)
	if err != nil {
		return nil, err
	}
	return stored, request.At(stored, p.namespace(t), t.Name)
}

// customDecoder decodes patched objects of a kind that decodes its own.
type customDecoder struct{ *place }

// Decode implements request.Decoder.
func (d customDecoder) Decode(document []byte, into runtime.Object, _ schema.GroupVersionKind) ([]error, error) {
	return d.place.Decode(document, into.(registry.Object))
}

// Room implements request.Decoder.
func (customDecoder) Room([]byte, runtime.Object) error { return nil }
