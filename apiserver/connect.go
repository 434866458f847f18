package apiserver

import (
	"context"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/registry"
)

// connects finds a subresource that connects to what runs behind the object.
func (e *endpoint) connects(q *Request) (registry.Connect, bool) {
	connect, ok := e.resource.Sub.Connects[q.Subresource]
	return connect, ok && (connect.Below || len(q.Rest) == 0) && (!e.resource.Namespaced || q.Namespace != "")
}

// connectOperation serves such a subresource, or is nil if it does not take the method.
func connectOperation(connect registry.Connect, method string) operation {
	if !slices.Contains(connect.Methods, method) {
		return nil
	}
	return func(c *call, ctx context.Context) {
		if err := c.connect(ctx, connect); err != nil {
			c.fail(err)
		}
	}
}

func (c *call) connect(ctx context.Context, connect registry.Connect) error {
	if !connect.Reads && len(c.r.URL.Query()["dryRun"]) > 0 {
		return apierrors.NewBadRequest("dryRun is not supported")
	}
	options, err := connect.Parameters(c.r.URL.Query(), c.pathBelow())
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	if !connect.Reads {
		q := c.admissionRequest(admission.Connect, nil, nil, nil, false)
		q.Kind, q.Object = connect.GroupVersionKind, options
		if err := c.backend.admit(ctx, q); err != nil {
			return err
		}
	}
	if connect.Validate != nil {
		if errs := connect.Validate(options); len(errs) > 0 {
			return apierrors.NewInvalid(connect.GroupVersionKind.GroupKind(), c.request.Name, errs)
		}
	}
	if upgrades := !connect.Reads && !connect.Below; upgrades {
		// A GET that is upgraded runs commands, as a POST does: users who may only read must not.
		if err := c.authorizeAs(ctx, "create"); err != nil {
			return err
		}
	}
	if c.backend.connector == nil {
		return failure(http.StatusNotImplemented, "", "%s of %s needs nodes that run real containers; this server knows no way to them",
			c.request.Subresource, c.request.Resource)
	}
	serve, err := c.backend.connector.Connect(ctx, c.backend.registry.Access(), Target{
		Resource: c.resource.GroupResource(), Subresource: c.request.Subresource, Namespace: c.namespace(), Name: c.request.Name, Options: options,
	})
	if err != nil {
		return err
	}
	return serve(c.exchange, c.r.WithContext(ctx))
}

// pathBelow is the path that follows the name of the subresource, with its slash.
func (c *call) pathBelow() string {
	at := "/" + c.request.Name + "/" + c.request.Subresource
	i := strings.Index(c.r.URL.Path, at)
	if i < 0 {
		return ""
	}
	return c.r.URL.Path[i+len(at):]
}

// connectVerbs are the verbs that discovery lists for the methods.
func connectVerbs(methods []string) []string {
	verbs := map[string]string{
		http.MethodGet: "get", http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete",
	}
	var all []string
	for _, m := range methods {
		if verb, ok := verbs[m]; ok {
			all = append(all, verb)
		}
	}
	slices.Sort(all)
	return all
}
