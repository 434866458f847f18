package apiserver

import (
	"context"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/registry"
)

// Connector knows the way to what runs behind objects: to the containers of a pod through the
// kubelet of its node, and to the ports of pods, services and nodes. Package apiserver/connect has
// one. Implementations are safe for concurrent use.
type Connector interface {
	// Connect finds where a request leads that was authorized and admitted, and returns what serves
	// it. It connects to nobody yet. Its error is answered to the client; one of package
	// k8s.io/apimachinery/pkg/api/errors says with which status.
	Connect(ctx context.Context, objects Objects, to Target) (Connection, error)
}

// Connection serves one request. The response writer can be hijacked when the request came over
// HTTP/1.1. It ends when the request's context does, and when it returns it has let go of
// everything, the client's connection too. An error is answered to the client if nothing else was.
type Connection func(w http.ResponseWriter, r *http.Request) error

// Objects are what a Connector looks up. They are shared and must not be changed.
type Objects interface {
	// Get returns the newest state of an object, or an error around registry.ErrNotFound.
	Get(ctx context.Context, key registry.ObjectKey) (registry.Object, error)
	// List returns the objects of a namespace.
	List(ctx context.Context, resource schema.GroupResource, namespace string) ([]registry.Object, error)
}

// Target is what a client wants to be connected to.
type Target struct {
	// Resource is "pods", "services" or "nodes", Subresource such as "exec".
	Resource    schema.GroupResource
	Subresource string
	Namespace   string
	// Name of the object; of a proxied one it may have a scheme before it and a port behind it, as in
	// "https:name:8443".
	Name string
	// Options are the parameters, such as *corev1.PodExecOptions.
	Options runtime.Object
}

// connects finds a subresource that leads to what runs behind the object.
func (c *call) connects() (registry.Connect, bool) {
	connect, ok := c.Sub.Connects[c.q.Subresource]
	return connect, ok && (connect.Below || len(c.q.Rest) == 0) && (!c.Namespaced || c.q.Namespace != "")
}

// connection serves such a subresource, or nil if it does not take the method.
func (c *call) connection(connect registry.Connect) func(context.Context) {
	if !slices.Contains(connect.Methods, c.r.Method) {
		return nil
	}
	return func(ctx context.Context) {
		if err := c.connect(ctx, connect); err != nil {
			c.fail(err)
		}
	}
}

func (c *call) connect(ctx context.Context, connect registry.Connect) error {
	if !connect.Reads && len(c.r.URL.Query()["dryRun"]) > 0 {
		return apierrors.NewBadRequest("dryRun is not supported")
	}
	options, err := connect.Parameters(c.r.URL.Query(), c.below())
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	if !connect.Reads {
		q := c.admission(admission.Connect, nil, nil, nil, false)
		q.Kind, q.Object = connect.GroupVersionKind, options
		if err := c.server.admit(ctx, q); err != nil {
			return err
		}
	}
	if connect.Validate != nil {
		if errs := connect.Validate(options); len(errs) > 0 {
			return apierrors.NewInvalid(connect.GroupVersionKind.GroupKind(), c.q.Name, errs)
		}
	}
	if upgrades := !connect.Reads && !connect.Below; upgrades {
		if err := c.mayUpgrade(ctx); err != nil {
			return err
		}
	}
	if c.server.connector == nil {
		return failure(http.StatusNotImplemented, "", "%s of %s needs nodes that run real containers; this server knows no way to them",
			c.q.Subresource, c.q.Resource)
	}
	serve, err := c.server.connector.Connect(ctx, c.server.registry.Access(), Target{
		Resource: c.GroupResource(), Subresource: c.q.Subresource, Namespace: c.namespace(), Name: c.q.Name, Options: options,
	})
	if err != nil {
		return err
	}
	return serve(c.w, c.r.WithContext(ctx))
}

// mayUpgrade authorizes what a GET comes to that is upgraded: it runs commands, as a POST does,
// and who may only read must not.
func (c *call) mayUpgrade(ctx context.Context) error {
	q := c.q
	q.Verb = "create"
	return c.server.authorize(ctx, attributes(authn.FromContext(ctx), &q))
}

// below is the path that follows the name of the subresource, with its slash.
func (c *call) below() string {
	at := "/" + c.q.Name + "/" + c.q.Subresource
	i := strings.Index(c.r.URL.Path, at)
	if i < 0 {
		return ""
	}
	return c.r.URL.Path[i+len(at):]
}

// connectVerbs are what discovery says can be done by the methods.
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
