package apiserver

import (
	"context"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	ivalidation "k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/authz/selector"
	"github.com/keelson-dev/keelson/registry"
)

func (c *call) get(ctx context.Context) {
	if _, err := c.accept(); err != nil {
		c.fail(err)
		return
	}
	item, err := c.Get(ctx, c.namespace(), c.q.Name, c.r.URL.Query().Get("resourceVersion"))
	if err != nil {
		c.fail(err)
		return
	}
	c.write(c.w, c.r, 200, item)
}

func (c *call) list(ctx context.Context) {
	if _, err := c.accept(); err != nil {
		c.fail(err)
		return
	}
	l, err := c.find(ctx)
	if err != nil {
		c.fail(err)
		return
	}
	c.writeList(l)
}

// find lists what the request selects.
func (c *call) find(ctx context.Context) (*registry.List, error) {
	o, selection, err := c.listOptions(c.r.URL.Query(), false)
	if err != nil {
		return nil, err
	}
	return c.List(registry.WithWarnings(ctx, c.warn), registry.ListOptions{
		Selection: selection, Limit: o.Limit, Continue: o.Continue,
		ResourceVersion: o.ResourceVersion, Match: o.ResourceVersionMatch,
	})
}

// listOptions reads and checks the parameters of a list, a watch or a deletion of a collection.
func (c *call) listOptions(query url.Values, watch bool) (metav1.ListOptions, registry.Selection, error) {
	var o metav1.ListOptions
	selection := registry.Selection{Namespace: c.namespace()}
	if err := metav1.Convert_url_Values_To_v1_ListOptions(&query, &o, nil); err != nil {
		return o, selection, apierrors.NewBadRequest(err.Error())
	}
	o.Watch = watch
	for _, s := range []struct{ name, raw string }{{"labelSelector", o.LabelSelector}, {"fieldSelector", o.FieldSelector}} {
		if err := selector.Check(s.raw); err != nil {
			return o, selection, apierrors.NewBadRequest(s.name + ": " + err.Error())
		}
	}
	var err error
	if selection.Labels, err = labels.Parse(o.LabelSelector); err != nil {
		return o, selection, apierrors.NewBadRequest(err.Error())
	}
	if selection.Fields, err = fields.ParseAndTransformSelector(o.FieldSelector, func(label, value string) (string, string, error) {
		label, err := c.fieldLabel(label)
		return label, value, err
	}); err != nil {
		return o, selection, apierrors.NewBadRequest(err.Error())
	}
	internal := internalversion.ListOptions{
		LabelSelector: selection.Labels, FieldSelector: selection.Fields, Watch: watch,
		AllowWatchBookmarks: o.AllowWatchBookmarks, ResourceVersion: o.ResourceVersion,
		ResourceVersionMatch: o.ResourceVersionMatch, TimeoutSeconds: o.TimeoutSeconds,
		Limit: o.Limit, Continue: o.Continue, SendInitialEvents: o.SendInitialEvents,
	}
	if errs := ivalidation.ValidateListOptions(&internal, true); len(errs) > 0 {
		return o, selection, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "ListOptions"}, "", errs)
	}
	if o.Limit < 0 {
		o.Limit = 0
	}
	if name := c.q.Name; watch && name != "" {
		// Watching one object by path is watching by its name.
		if by, ok := selection.Fields.RequiresExactMatch("metadata.name"); ok && by != name {
			return o, selection, apierrors.NewBadRequest("fieldSelector metadata.name doesn't match requested name")
		}
		selection.Fields = fields.AndSelectors(selection.Fields, fields.OneTermEqualSelector("metadata.name", name))
	}
	return o, selection, nil
}
