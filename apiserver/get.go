package apiserver

import (
	"context"
	"net/http"
)

func (c *call) get(ctx context.Context) {
	if _, err := c.accept(); err != nil {
		c.fail(err)
		return
	}
	get := c.resource.Get
	if c.includesPending() {
		get = c.resource.GetPending
	}
	item, err := get(ctx, c.namespace(), c.request.Name, c.r.URL.Query().Get("resourceVersion"))
	if err != nil {
		c.fail(err)
		return
	}
	c.writeItem(http.StatusOK, item)
}
