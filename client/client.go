package client

import (
	"context"
	"errors"
	"net/url"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Target addresses one object, or a collection when Name is empty.
type Target struct {
	Resource    schema.GroupVersionResource
	Namespace   string
	Name        string
	Subresource string // such as "status"; empty for the object itself
	// Uninitialized also reads objects whose initializers are not done, of servers that have initializers.
	Uninitialized bool
}

// Patch is a patch body and its type.
type Patch struct {
	Type types.PatchType
	Data []byte // the patch, in the format of its type
}

// ErrNoName means that the target of a request about one object names none.
var ErrNoName = errors.New("the target has no name")

// Getter reads one object from the server, past every cache.
type Getter interface {
	Get(ctx context.Context, t Target) (runtime.Object, error)
}

// Lister lists a collection from the server, past every cache. The answer is the kind's typed
// list, or a metav1.PartialObjectMetadataList from an implementation that reads only metadata.
type Lister interface {
	List(ctx context.Context, t Target, options metav1.ListOptions) (runtime.Object, error)
}

// Creator creates an object, or posts to a subresource such as binding or eviction. The object
// passed in is not changed; the stored one is returned.
type Creator interface {
	Create(ctx context.Context, t Target, obj runtime.Object, options metav1.CreateOptions) (runtime.Object, error)
}

// Updater replaces an object or its subresource.
type Updater interface {
	Update(ctx context.Context, t Target, obj runtime.Object, options metav1.UpdateOptions) (runtime.Object, error)
}

// Patcher patches an object or its subresource.
type Patcher interface {
	Patch(ctx context.Context, t Target, patch Patch, options metav1.PatchOptions) (runtime.Object, error)
}

// Deleter deletes an object, or a collection when the target has no name.
type Deleter interface {
	Delete(ctx context.Context, t Target, options metav1.DeleteOptions) error
}

// Querier reads what the server has at an absolute path, such as "/apis", past every cache: what is no object, such as
// discovery documents. The answer is JSON. It is an optional part of a Client.
type Querier interface {
	Query(ctx context.Context, path string, query url.Values) ([]byte, error)
}

// Client is access to an API server as one identity. Implementations are safe for concurrent
// use; their errors are those of k8s.io/apimachinery/pkg/api/errors. Consumers ask for the
// narrowest part that they need.
//
//nolint:interfacebloat // composed of all narrow ones, of which consumers ask for theirs
type Client interface {
	Getter
	Lister
	Creator
	Updater
	Patcher
	Deleter
}
