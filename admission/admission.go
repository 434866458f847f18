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

// Request is what a plugin judges.
type Request struct {
	Operation Operation
	Kind      schema.GroupVersionKind
	Resource  schema.GroupVersionResource
	// Subresource is the part of the path after the name ("status", "binding"), or empty.
	Subresource string
	Namespace   string
	// Name is empty in a create whose name the server has yet to generate.
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
	// Name is the name by which a plugin is chosen and reported, such as "NamespaceLifecycle".
	Name() string
	// Handles tells whether the plugin wants to see requests of this operation.
	Handles(Operation) bool
}

// Mutator changes objects before they are validated.
type Mutator interface {
	Plugin
	// Admit may change r.Object. An error refuses the request: see Forbidden for the common one.
	// It may run several times for one request and must be idempotent.
	Admit(ctx context.Context, r *Request) error
}

// Validator judges objects as they will be stored.
type Validator interface {
	Plugin
	// Validate refuses the request by an error. It changes nothing.
	Validate(ctx context.Context, r *Request) error
}
