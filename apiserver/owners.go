package apiserver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/apiserver/managedfields"
	"github.com/keelson-dev/keelson/registry"
)

// owners keeps account of who set which field of the objects that the server stores.
type owners struct {
	schema   managedfields.Schema
	trackers sync.Map // *managedfields.Tracker by place
}

// place is an endpoint or one of its subresources; no endpoint is every scale subresource.
type place struct {
	endpoint    *endpoint
	subresource string
}

// tracker returns the tracker of an endpoint's objects, or of a view of them.
func (o *owners) tracker(e *endpoint, view string) *managedfields.Tracker {
	at := place{e, view}
	if t, ok := o.trackers.Load(at); ok {
		return t.(*managedfields.Tracker)
	}
	kind := managedfields.Kind{Versions: []managedfields.Version{{
		GroupVersionKind: e.GroupVersion.WithKind(e.Names.Kind),
		New:              func() managedfields.Object { return e.New() },
	}}}
	if e.Rules.Default != nil {
		kind.Default = func(obj managedfields.Object) { e.Rules.Default(obj) }
	}
	for i := range e.Also {
		v := &e.Also[i]
		kind.Versions = append(kind.Versions, managedfields.Version{
			GroupVersionKind: v.GroupVersion.WithKind(v.Names.Kind),
			New:              func() managedfields.Object { return v.New() },
			FromStored:       func(obj managedfields.Object) managedfields.Object { return v.FromStored(obj) },
			ToStored:         func(obj managedfields.Object) managedfields.Object { return v.ToStored(obj) },
		})
	}
	t, _ := o.trackers.LoadOrStore(at, managedfields.New(&o.schema, kind, managedfields.Endpoint{
		Version: e.gv, Subresource: view, Resets: resets(e, view),
	}))
	return t.(*managedfields.Tracker)
}

// resets is what a write to the object itself, or to a view of it, does not change.
func resets(e *endpoint, view string) []string {
	_, status := e.Sub.Views["status"]
	switch own := e.Sub.Views[view].Resets; {
	case own != nil:
		return own
	case view == "status":
		return []string{"spec"}
	case status:
		return []string{"status"}
	}
	return nil
}

// passing returns the tracker of objects that come and go: Scales, reviews, what is posted to
// actions.
func (o *owners) passing(at place, gvk schema.GroupVersionKind, empty func() runtime.Object) *managedfields.Tracker {
	if t, ok := o.trackers.Load(at); ok {
		return t.(*managedfields.Tracker)
	}
	kind := managedfields.Kind{Versions: []managedfields.Version{{
		GroupVersionKind: gvk, New: func() managedfields.Object { return empty().(managedfields.Object) },
	}}}
	t, _ := o.trackers.LoadOrStore(at, managedfields.New(&o.schema, kind, managedfields.Endpoint{
		Version: gvk.GroupVersion(), Subresource: at.subresource,
	}))
	return t.(*managedfields.Tracker)
}

// scale returns the tracker of Scales.
func (o *owners) scale() *managedfields.Tracker {
	return o.passing(place{nil, "scale"}, scaleGVK(), func() runtime.Object { return &autoscalingv1.Scale{} })
}

// trackPosted records whose an object is that is not stored, if it has metadata.
func (c *call) trackPosted(body runtime.Object, gvk schema.GroupVersionKind, empty func() runtime.Object, manager string) {
	if obj, ok := body.(managedfields.Object); ok {
		t := c.server.owners.passing(place{c.endpoint, c.q.Subresource}, gvk, empty)
		t.Update(empty().(managedfields.Object), obj, c.manager(manager))
	}
}

// self is as whom the server itself changes objects.
const self = "kube-apiserver"

// accessOf is what actions on a resource work through. What they change of others, the server
// changes as their controller does: by their status.
type accessOf struct {
	registry.Access
	resource schema.GroupResource
	server   *Server
}

// Modify implements registry.Access.
func (a accessOf) Modify(ctx context.Context, key registry.ObjectKey, change func(registry.Object) error, dryRun bool) (registry.Object, error) {
	res, ok := a.server.registry.Resource(key.Resource)
	if !ok || key.Resource == a.resource {
		return a.Access.Modify(ctx, key, change, dryRun)
	}
	e := a.server.endpoints[res.GroupVersion.WithResource(res.Plural)]
	return a.Access.Modify(ctx, key, func(obj registry.Object) error {
		before := obj.DeepCopyObject().(registry.Object)
		if err := change(obj); err != nil {
			return err
		}
		a.server.owners.tracker(e, "status").Update(before, obj, self)
		return nil
	}, dryRun)
}

// scaled maps the ownership of an object's replica count to that of its Scale.
func (c *call) scaled() managedfields.Scaled {
	s := managedfields.Scaled{Version: c.gv.String(), Replicas: map[string][]string{c.GroupVersion.String(): {"spec", "replicas"}}}
	for _, v := range c.Also {
		s.Replicas[v.GroupVersion.String()] = []string{"spec", "replicas"}
	}
	return s
}

// tracker is the tracker of where the request writes.
func (c *call) tracker() *managedfields.Tracker {
	view := ""
	if _, ok := c.Sub.Views[c.q.Subresource]; ok {
		view = c.q.Subresource
	}
	return c.server.owners.tracker(c.endpoint, view)
}

// tracked records in what wanted returns that the client made it so.
func (c *call) tracked(manager string, wanted registry.Change) registry.Change {
	return func(ctx context.Context, current registry.Object) (registry.Object, error) {
		obj, err := wanted(ctx, current)
		if err != nil {
			return nil, err
		}
		c.tracker().Update(c.live(current), obj, c.manager(manager))
		return obj, nil
	}
}

// live is the state before a write: an empty object, if there is none.
func (c *call) live(current registry.Object) registry.Object {
	if current == nil {
		return c.New()
	}
	return current
}

// manager is the name of the request's writer: the one it asks for, or else that of its program.
func (c *call) manager(asked string) string {
	if asked != "" {
		return asked
	}
	program, _, _ := strings.Cut(c.r.UserAgent(), "/")
	var name strings.Builder
	for _, r := range program {
		if !unicode.IsPrint(r) {
			continue
		}
		if name.Len()+utf8.RuneLen(r) > metavalidation.FieldManagerMaxLength {
			break
		}
		name.WriteRune(r)
	}
	return name.String()
}

// keepOwners undoes what a plugin made of an object's managed fields, if they are not valid.
func (c *call) keepOwners(obj registry.Object, before []metav1.ManagedFieldsEntry) {
	after := obj.GetManagedFields()
	if len(after) == len(before) && (len(after) == 0 || &after[0] == &before[0]) {
		return
	}
	if err := managedfields.Validate(after); err != nil {
		obj.SetManagedFields(before)
		c.warn(fmt.Sprintf(".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated mutating admission controller; please fix your requests: %v", err))
	}
}

// applyError is what a client is told of a configuration that cannot be applied.
func applyError(err error) error {
	var conflict *managedfields.ConflictError
	if errors.As(err, &conflict) {
		causes := make([]metav1.StatusCause, len(conflict.Conflicts))
		for i, c := range conflict.Conflicts {
			causes[i] = metav1.StatusCause{Type: metav1.CauseTypeFieldManagerConflict, Message: "conflict with " + c.Owner, Field: c.Field}
		}
		return apierrors.NewApplyConflict(causes, conflict.Error())
	}
	var config *managedfields.ConfigError
	if errors.As(err, &config) {
		return apierrors.NewBadRequest(config.Message)
	}
	return err
}
