package apiserver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/apiserver/managedfields"
	"github.com/keelson-dev/keelson/registry"
)

// trackTransient sets the managed fields of an object that is not stored, if it has metadata.
func (c *call) trackTransient(body runtime.Object, gvk schema.GroupVersionKind, empty func() runtime.Object, manager string) {
	if obj, ok := body.(managedfields.Object); ok {
		t := c.backend.trackers.transient(&c.endpoint.trackers, c.request.Subresource, gvk, empty)
		t.Update(empty().(managedfields.Object), obj, c.fieldManager(manager))
	}
}

// tracker is the tracker of what the request writes: the object or a view of it.
func (c *call) tracker() *managedfields.Tracker {
	view := ""
	if _, ok := c.resource.Sub.Views[c.request.Subresource]; ok {
		view = c.request.Subresource
	}
	return c.backend.trackers.tracker(c.endpoint, view)
}

// trackChanges sets the managed fields of what change returns.
func (c *call) trackChanges(manager string, change registry.Change) registry.Change {
	return func(ctx context.Context, current registry.Object) (registry.Object, error) {
		obj, err := change(ctx, current)
		if err != nil {
			return nil, err
		}
		c.track(c.currentOrEmpty(current), obj, manager)
		return obj, nil
	}
}

// track sets the managed fields of what the request writes. An object of another type keeps those that there were: it is
// refused, or only its status is written.
func (c *call) track(before, obj registry.Object, manager string) {
	if u, ok := obj.(runtime.Unstructured); ok && !u.GetObjectKind().GroupVersionKind().Empty() {
		obj.SetManagedFields(before.GetManagedFields())
		return
	}
	c.tracker().Update(before, obj, c.fieldManager(manager))
}

// currentOrEmpty is the object before a write, or an empty one if there is none.
func (c *call) currentOrEmpty(current registry.Object) registry.Object {
	if current == nil {
		return c.resource.Storage().New()
	}
	return current
}

// fieldManager is the field manager of the request: the one it names, or else the name of its program.
func (c *call) fieldManager(asked string) string {
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

// restoreManagedFields restores an object's managed fields if plugins have made them invalid.
func (c *call) restoreManagedFields(obj registry.Object, before []metav1.ManagedFieldsEntry) {
	after := obj.GetManagedFields()
	if len(after) == len(before) && (len(after) == 0 || &after[0] == &before[0]) {
		return
	}
	if err := managedfields.Validate(after); err != nil {
		obj.SetManagedFields(before)
		c.warn(fmt.Sprintf(".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated mutating admission controller; please fix your requests: %v", err))
	}
}

// applyError is the answer to a configuration that cannot be applied.
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
