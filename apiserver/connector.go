package apiserver

import (
	"context"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/registry"
)

// Connector connects clients to what runs behind objects: to the containers of a pod through the kubelet of its node, and
// to the ports of pods, services and nodes. Package apiserver/connect has one. Implementations are safe for concurrent use.
type Connector interface {
	// Connect finds the target of a request, which has been authorized and admitted, and returns what serves it. It does
	// not open the connection. The client is answered with its error; one of package
	// k8s.io/apimachinery/pkg/api/errors decides the status.
	Connect(ctx context.Context, objects Objects, to Target) (Connection, error)
}

// Connection serves one request. The response writer can be hijacked if the request came over HTTP/1.1. It ends when the
// request's context does; when it returns it has released everything, the client's connection included. The client is
// answered with its error, unless it has been answered already.
type Connection func(w http.ResponseWriter, r *http.Request) error

// Objects are what a Connector looks up. They are shared and must not be changed.
type Objects interface {
	// Get returns the newest state of an object, or an error that wraps registry.ErrNotFound.
	Get(ctx context.Context, key registry.ObjectKey) (registry.Object, error)
	// List returns the objects of a namespace.
	List(ctx context.Context, resource schema.GroupResource, namespace string) ([]registry.Object, error)
}

// Target is what a client wants to be connected to.
type Target struct {
	// Resource is "pods", "services" or "nodes".
	Resource schema.GroupResource
	// Subresource is such as "exec".
	Subresource string
	// Namespace of the object; empty for nodes.
	Namespace string
	// Name of the object. For subresource "proxy" it may have a scheme before it and a port after it, as in
	// "https:name:8443".
	Name string
	// Options are the parameters, such as *corev1.PodExecOptions.
	Options runtime.Object
}
