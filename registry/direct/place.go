package direct

import (
	"context"
	"errors"
	"net/http"
	"reflect"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/codec"
	"github.com/keelson-dev/keelson/registry/request"
)

// place is one resource in one group-version.
type place struct {
	*registry.Resource
	client *Client
}

// The sorts of subresources.
const (
	whole  = "" // none: the object itself
	view   = "view"
	scale  = "scale"
	action = "action"
	other  = "other" // served only by a server
	none   = "none"
)

// part returns the sort of a subresource.
func (p *place) part(subresource string) string {
	if subresource == "" {
		return whole
	}
	if _, ok := p.Sub.Views[subresource]; ok {
		return view
	}
	if subresource == "scale" && p.Sub.Scale != nil {
		return scale
	}
	if _, ok := p.Sub.Actions[subresource]; ok {
		return action
	}
	if _, ok := p.Sub.Connects[subresource]; ok {
		return other
	}
	return none
}

// refuse returns the error for a verb that the subresource does not support.
func (p *place) refuse(subresource string) error {
	if p.part(subresource) == none {
		return notFound()
	}
	return notAllowed()
}

// namespace returns the object's namespace; a Namespace object has none.
func (p *place) namespace(t client.Target) string {
	if !p.Namespaced {
		return ""
	}
	return t.Namespace
}

// wide tells whether a target leaves open in which namespace its objects are.
func (p *place) wide(t client.Target) bool { return p.Namespaced && t.Namespace == "" }

func (p *place) gvk() schema.GroupVersionKind { return p.GroupVersion.WithKind(p.Names.Kind) }

// served returns what clients see of an item in this version; the caller owns the result.
func (p *place) served(ctx context.Context, i *registry.Item) (runtime.Object, error) {
	out, err := p.Shown(ctx, i)
	if err != nil {
		return nil, answered(ctx, err)
	}
	return out.DeepCopyObject(), nil
}

// settle sets the object's namespace and defaults, in its stored version. It takes the object over.
func (p *place) settle(ctx context.Context, t client.Target, obj registry.Object) (registry.Object, error) {
	if err := request.InNamespace(obj, p.namespace(t)); err != nil {
		return nil, err
	}
	obj, err := p.ToStored(ctx, obj)
	if err != nil {
		return nil, err
	}
	if p.Rules.Default != nil {
		p.Rules.Default(obj)
	}
	return obj, nil
}

// decode turns a body into the object that a server would decode.
func (p *place) decode(ctx context.Context, t client.Target, body runtime.Object) (registry.Object, error) {
	if reflect.TypeOf(body) != reflect.TypeOf(p.New()) {
		body = nil
	}
	obj, err := as[registry.Object](body, p.gvk().Kind)
	if err != nil {
		return nil, err
	}
	if p.Decode != nil {
		data, err := codec.JSON(p.gvk(), obj)
		if err == nil {
			obj = p.New()
			_, err = p.Decode(data, obj)
		}
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	return p.settle(ctx, t, obj)
}

// find lists the objects that the options select.
func (p *place) find(ctx context.Context, t client.Target, o metav1.ListOptions) (*registry.List, error) {
	o.Watch = false
	selection, err := request.Selection(p.Resource, p.namespace(t), o)
	if err != nil {
		return nil, err
	}
	selection.Pending = t.Uninitialized
	return p.Resource.List(ctx, registry.ListOptions{
		Selection: selection, Limit: max(o.Limit, 0), Continue: o.Continue, ResourceVersion: o.ResourceVersion, Match: o.ResourceVersionMatch,
	})
}

// change updates the object or a view of it.
func (p *place) change(ctx context.Context, t client.Target, o registry.UpdateOptions, wanted registry.Change) (runtime.Object, error) {
	o.View = t.Subresource
	item, _, err := p.Resource.Update(ctx, p.namespace(t), t.Name, wanted, o)
	if err != nil {
		return nil, answered(ctx, err)
	}
	return p.served(ctx, item)
}

// deleteAll deletes the selected objects one by one.
func (p *place) deleteAll(ctx context.Context, t client.Target, o metav1.DeleteOptions) error {
	t.Uninitialized = true
	found, err := p.find(ctx, t, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, item := range found.Items {
		_, _, err := p.Resource.Delete(ctx, item.Object.GetNamespace(), item.Object.GetName(), registry.DeleteOptions{DeleteOptions: o, DryRun: len(o.DryRun) > 0})
		if err != nil && !errors.Is(err, registry.ErrNotFound) {
			return err
		}
	}
	if unread := p.Unreadable(p.namespace(t)); len(unread) > 0 {
		return unread[0] // they still exist
	}
	return nil
}

func (p *place) scaleOf(obj registry.Object) *autoscalingv1.Scale {
	s := registry.NewScale(*p.Sub.Scale, obj)
	s.TypeMeta = metav1.TypeMeta{}
	return s
}

// rescale changes the replica count by an update of the object itself.
func (p *place) rescale(ctx context.Context, t client.Target, dry bool, wanted func(context.Context, *autoscalingv1.Scale) (*autoscalingv1.Scale, error)) (runtime.Object, error) {
	item, _, err := p.Resource.Update(ctx, p.namespace(t), t.Name, func(ctx context.Context, current registry.Object) (registry.Object, error) {
		s, err := wanted(ctx, p.scaleOf(current))
		if err == nil {
			err = request.Scale(*p.Sub.Scale, s, t.Name)
		}
		if err != nil {
			return nil, err
		}
		obj := current.DeepCopyObject().(registry.Object)
		request.SetScale(*p.Sub.Scale, obj, s)
		return obj, nil
	}, registry.UpdateOptions{DryRun: dry})
	if err != nil {
		return nil, answered(ctx, err)
	}
	return p.scaleOf(item.Object), nil
}

// act posts to an action such as binding or eviction.
func (p *place) act(ctx context.Context, t client.Target, body runtime.Object, o metav1.CreateOptions) (runtime.Object, error) {
	if t.Name == "" {
		return nil, client.ErrNoName
	}
	if p.wide(t) {
		return nil, notFound()
	}
	if p.part(t.Subresource) != action {
		return nil, p.refuse(t.Subresource)
	}
	if err := request.Options("CreateOptions", metavalidation.ValidateCreateOptions(&o)); err != nil {
		return nil, err
	}
	posted := p.Sub.Actions[t.Subresource]
	if reflect.TypeOf(body) != reflect.TypeOf(posted.New()) {
		body = nil
	}
	own, err := as[runtime.Object](body, posted.GroupVersionKind.Kind)
	if err != nil {
		return nil, err
	}
	if about, ok := own.(metav1.Object); ok {
		if err := request.InNamespace(about, t.Namespace); err != nil {
			return nil, err
		}
	}
	if posted.Default != nil {
		posted.Default(own)
	}
	key := registry.ObjectKey{Resource: p.GroupResource(), Namespace: p.namespace(t), Name: t.Name}
	result, err := posted.Run(ctx, p.client.registry.Access(), key, own, len(o.DryRun) > 0)
	if err != nil {
		return nil, answered(ctx, err)
	}
	return created(result), nil
}

// answer handles a create of a kind that is not stored.
func (p *place) answer(ctx context.Context, t client.Target, body runtime.Object) (runtime.Object, error) {
	if reflect.TypeOf(body) != reflect.TypeOf(p.NewRequest()) {
		body = nil
	}
	own, err := as[runtime.Object](body, p.Names.Kind)
	if err != nil {
		return nil, err
	}
	if about, ok := own.(metav1.Object); ok {
		request.Wipe(about)
		if err := request.InNamespace(about, p.namespace(t)); err != nil {
			return nil, err
		}
	}
	result, err := p.Answer(ctx, p.client.registry.Access(), p.namespace(t), own)
	if err != nil {
		return nil, answered(ctx, err)
	}
	return created(result), nil
}

// created returns the object of the response to a POST.
func created(result runtime.Object) runtime.Object {
	own := result.DeepCopyObject()
	own.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	if s, ok := own.(*metav1.Status); ok && s.Code == 0 {
		s.Code = http.StatusCreated
	}
	return own
}
