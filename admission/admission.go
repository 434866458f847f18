package admission

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/authn"
)

// Operation is what a request does to its object.
type Operation string

// The operations of upstream's admission review.
const (
	Create  Operation = "CREATE"
	Update  Operation = "UPDATE"
	Delete  Operation = "DELETE"
	Connect Operation = "CONNECT"
)

// Request is a request as plugins see it.
type Request struct {
	Operation Operation
	Kind      schema.GroupVersionKind
	Resource  schema.GroupVersionResource
	// RequestedKind and RequestedResource are set if the client used another version than that of Kind, Resource
	// and the objects, which is the stored one.
	RequestedKind     schema.GroupVersionKind
	RequestedResource schema.GroupVersionResource
	// Subresource is the part of the path after the name ("status", "binding"), or empty.
	Subresource string
	Namespace   string
	// Name is empty in a create whose name the server has not generated yet.
	Name string
	// Object is the new object: nil in a delete. Mutators may change it, validators must not.
	Object runtime.Object
	// OldObject is the stored object: nil in a create. It is shared and must not be changed.
	OldObject runtime.Object
	// Options are the metav1.CreateOptions, UpdateOptions, PatchOptions or DeleteOptions.
	Options runtime.Object
	DryRun  bool
	User    *authn.Identity
}

// Plugin is one admission step. It is also a Mutator, a Validator, or both.
type Plugin interface {
	// Name is the name by which a plugin is configured and reported, such as "NamespaceLifecycle".
	Name() string
	// Handles reports whether the plugin handles requests of this operation.
	Handles(Operation) bool
}

// Mutator changes objects before they are validated.
type Mutator interface {
	Plugin
	// Admit may change r.Object. An error refuses the request: see Forbidden for the usual one. It may run
	// several times for one request and must be idempotent.
	Admit(ctx context.Context, r *Request) error
}

// Reinvoker is a Mutator after whose changes the others may have to run again: webhooks, which do what no one
// knows beforehand.
type Reinvoker interface {
	Mutator
	// AdmitFirst does what Admit does, in a Chain's first pass over a request. The second return value is Admit's.
	AdmitFirst(ctx context.Context, r *Request) (Reinvocation, error)
}

// Reinvocation is what a Reinvoker leaves for a second pass over the same request.
type Reinvocation struct {
	// Needed asks for a second pass of all mutators. There is never a third.
	Needed bool
	// Again takes the place of Admit in a second pass, whoever asked for it; nil stands for Admit itself.
	Again func(ctx context.Context, r *Request) error
}

// Validator validates objects as they will be stored.
type Validator interface {
	Plugin
	// Validate returns an error to refuse the request. It changes nothing.
	Validate(ctx context.Context, r *Request) error
}
