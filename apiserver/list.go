package apiserver

import (
	"context"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/request"
)

func (c *call) list(ctx context.Context) {
	if _, err := c.accept(); err != nil {
		c.fail(err)
		return
	}
	l, err := c.listItems(ctx)
	if err == nil {
		err = c.endpoint.convert(ctx, l.Items)
	}
	if err != nil {
		c.fail(err)
		return
	}
	c.writeList(l)
}

// listItems lists what the request selects.
func (c *call) listItems(ctx context.Context) (*registry.List, error) {
	o, selection, err := c.listOptions(c.r.URL.Query(), false)
	if err != nil {
		return nil, err
	}
	return c.resource.List(registry.WithWarnings(ctx, c.warn), registry.ListOptions{
		Selection: selection, Limit: o.Limit, Continue: o.Continue,
		ResourceVersion: o.ResourceVersion, Match: o.ResourceVersionMatch,
	})
}

// listOptions reads and checks the parameters of a list, a watch or a deletecollection.
func (c *call) listOptions(query url.Values, watch bool) (metav1.ListOptions, registry.Selection, error) {
	var o metav1.ListOptions
	if err := metav1.Convert_url_Values_To_v1_ListOptions(&query, &o, nil); err != nil {
		return o, registry.Selection{}, apierrors.NewBadRequest(err.Error())
	}
	o.Watch = watch
	selection, err := request.Selection(c.resource, c.namespace(), o)
	if err != nil {
		return o, selection, err
	}
	if o.Limit < 0 {
		o.Limit = 0
	}
	// As upstream had it, a collection is deleted with what is hidden of it.
	selection.Pending = c.request.Verb == "deletecollection" || c.includesPending()
	if name := c.request.Name; watch && name != "" {
		// To watch one object by its path is to watch it by name.
		if by, ok := selection.Fields.RequiresExactMatch("metadata.name"); ok && by != name {
			return o, selection, apierrors.NewBadRequest("fieldSelector metadata.name doesn't match requested name")
		}
		selection.Fields = fields.AndSelectors(selection.Fields, fields.OneTermEqualSelector("metadata.name", name))
	}
	return o, selection, nil
}
