package direct

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strconv"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/request"
	"github.com/keelson-dev/keelson/registry/status"
)

// Options are the options of a Client; the zero value is valid.
type Options struct {
	// Identity is the identity of all requests, for kinds whose rules depend on it. nil uses the identity in
	// each request's context.
	Identity *authn.Identity
	// Unserved also finds kinds in the version in which they are stored, if that is not served.
	Unserved bool
}

// Client is a client.Client over a registry. Make one with New.
type Client struct {
	registry *registry.Registry
	identity *authn.Identity
	unserved bool
}

var _ client.Client = (*Client)(nil)

// New returns a client of a registry; it sees its own writes and all others.
func New(r *registry.Registry, o Options) *Client {
	return &Client{registry: r, identity: o.Identity, unserved: o.Unserved}
}

// begin resolves the resource and the identity of a request.
func (c *Client) begin(ctx context.Context, t client.Target) (context.Context, *place, error) {
	res, ok := c.registry.Find(t.Resource)
	if !ok && c.unserved {
		res, ok = c.registry.Resource(t.Resource.GroupResource())
		ok = ok && res.GroupVersion == t.Resource.GroupVersion()
	}
	p := &place{Resource: res, client: c}
	if !ok || !p.Namespaced && t.Namespace != "" && t.Resource.Resource != "namespaces" {
		return ctx, nil, notFound()
	}
	if c.identity != nil {
		ctx = authn.NewContext(ctx, c.identity)
	}
	return ctx, p, nil
}

// beginOne is begin for a request about one object.
func (c *Client) beginOne(ctx context.Context, t client.Target) (context.Context, *place, error) {
	if t.Name == "" {
		return ctx, nil, client.ErrNoName
	}
	ctx, p, err := c.begin(ctx, t)
	switch {
	case err != nil:
		return ctx, nil, err
	case p.Answer != nil || p.wide(t):
		return ctx, nil, notFound()
	}
	return ctx, p, nil
}

// answered returns the error for the client.
func answered(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, ctx.Err()) {
		return err
	}
	told := &apierrors.StatusError{ErrStatus: *status.Of(err)}
	if told.ErrStatus.Code == http.StatusInternalServerError {
		return &failure{told, err}
	}
	return told
}

// failure is an internal error that lets a client in the same process find the cause.
type failure struct {
	*apierrors.StatusError
	cause error
}

// Unwrap returns the status error and its cause.
func (f *failure) Unwrap() []error { return []error{f.StatusError, f.cause} }

func notFound() error { return status.NoRoute(http.StatusNotFound, "404: Page Not Found") }

func notAllowed() error {
	return status.NoRoute(http.StatusMethodNotAllowed, "405: Method Not Allowed")
}

// Get implements client.Getter.
func (c *Client) Get(ctx context.Context, t client.Target) (runtime.Object, error) {
	ctx, p, err := c.beginOne(ctx, t)
	if err != nil {
		return nil, err
	}
	if part := p.part(t.Subresource); part != whole && part != scale && (part != view || t.Subresource == "finalize") {
		return nil, p.refuse(t.Subresource)
	}
	get := p.Resource.Get
	if t.Uninitialized {
		get = p.GetPending
	}
	item, err := get(ctx, p.namespace(t), t.Name, "")
	if err != nil {
		return nil, answered(ctx, err)
	}
	if p.part(t.Subresource) == scale {
		s, err := request.ReadScale(*p.Sub.Scale, item.Object)
		if err != nil {
			return nil, err
		}
		s.TypeMeta = metav1.TypeMeta{}
		return s, nil
	}
	return p.served(ctx, item)
}

// List implements client.Lister; it ignores the target's name and subresource.
func (c *Client) List(ctx context.Context, t client.Target, o metav1.ListOptions) (runtime.Object, error) {
	ctx, p, err := c.begin(ctx, t)
	if err != nil {
		return nil, err
	}
	switch {
	case p.Answer != nil && p.wide(t):
		return nil, notFound()
	case p.Answer != nil:
		return nil, notAllowed()
	}
	found, err := p.find(ctx, t, o)
	if err != nil {
		return nil, answered(ctx, err)
	}
	items := make([]runtime.Object, len(found.Items))
	for i, item := range found.Items {
		if items[i], err = p.served(ctx, item); err != nil {
			return nil, answered(ctx, err)
		}
	}
	list := p.NewList()
	about, err := meta.ListAccessor(list)
	if err == nil {
		err = meta.SetList(list, items)
	}
	if err != nil {
		return nil, answered(ctx, err)
	}
	about.SetResourceVersion(strconv.FormatInt(found.Revision, 10))
	about.SetContinue(found.Continue)
	about.SetRemainingItemCount(found.Remaining)
	return list, nil
}

// Create implements client.Creator.
func (c *Client) Create(ctx context.Context, t client.Target, obj runtime.Object, o metav1.CreateOptions) (runtime.Object, error) {
	ctx, p, err := c.begin(ctx, t)
	switch {
	case err != nil:
		return nil, err
	case t.Subresource != "":
		return p.act(ctx, t, obj, o)
	case p.Answer != nil && p.wide(t):
		return nil, notFound()
	case p.Read != nil || p.wide(t):
		return nil, notAllowed()
	}
	if err := request.Options("CreateOptions", metavalidation.ValidateCreateOptions(&o)); err != nil {
		return nil, err
	}
	if p.Answer != nil {
		return p.answer(ctx, t, obj)
	}
	wanted, err := p.decode(ctx, t, obj)
	if err != nil {
		return nil, err
	}
	item, err := p.Create(ctx, wanted, registry.CreateOptions{DryRun: len(o.DryRun) > 0})
	if err != nil {
		return nil, answered(ctx, err)
	}
	return p.served(ctx, item)
}

// Update implements client.Updater.
func (c *Client) Update(ctx context.Context, t client.Target, obj runtime.Object, o metav1.UpdateOptions) (runtime.Object, error) {
	ctx, p, err := c.beginOne(ctx, t)
	if err != nil {
		return nil, err
	}
	part := p.part(t.Subresource)
	if p.Read != nil || part != whole && part != view && part != scale {
		return nil, p.refuse(t.Subresource)
	}
	if err := request.Options("UpdateOptions", metavalidation.ValidateUpdateOptions(&o)); err != nil {
		return nil, err
	}
	dry := len(o.DryRun) > 0
	if part == scale {
		wanted, err := as[*autoscalingv1.Scale](obj, "Scale")
		if err == nil {
			wanted = wanted.DeepCopy()
			err = request.InNamespace(wanted, p.namespace(t))
		}
		if err == nil {
			err = request.At(wanted, p.namespace(t), t.Name)
		}
		if err != nil {
			return nil, err
		}
		return p.rescale(ctx, t, dry, func(context.Context, *autoscalingv1.Scale) (*autoscalingv1.Scale, error) { return wanted, nil })
	}
	wanted, err := p.decode(ctx, t, obj)
	if err == nil {
		err = request.At(wanted, p.namespace(t), t.Name)
	}
	if err != nil {
		return nil, err
	}
	return p.change(ctx, t, registry.UpdateOptions{DryRun: dry}, func(context.Context, registry.Object) (registry.Object, error) {
		return wanted.DeepCopyObject().(registry.Object), nil
	})
}

// Delete implements client.Deleter.
func (c *Client) Delete(ctx context.Context, t client.Target, o metav1.DeleteOptions) error {
	ctx, p, err := c.begin(ctx, t)
	switch {
	case err != nil:
		return err
	case t.Name != "" && (p.Answer != nil || p.wide(t)), p.Answer != nil && p.wide(t):
		return notFound()
	case t.Subresource != "":
		return p.refuse(t.Subresource)
	case !p.Stored() || t.Name == "" && (p.Rules.Deletion.Singly || p.wide(t)):
		return notAllowed()
	}
	if err := request.Options("DeleteOptions", metavalidation.ValidateDeleteOptions(&o)); err != nil {
		return err
	}
	if t.Name == "" {
		return answered(ctx, p.deleteAll(ctx, t, o))
	}
	_, _, err = p.Resource.Delete(ctx, p.namespace(t), t.Name, registry.DeleteOptions{DeleteOptions: o, DryRun: len(o.DryRun) > 0})
	return answered(ctx, err)
}

// as returns a copy of a body as type T.
func as[T runtime.Object](body runtime.Object, kind string) (T, error) {
	var none T
	typed, ok := body.(T)
	if !ok || reflect.ValueOf(body).IsNil() {
		return none, apierrors.NewBadRequest(fmt.Sprintf("%T cannot be handled as a %s", body, kind))
	}
	own := typed.DeepCopyObject().(T)
	own.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	return own, nil
}
