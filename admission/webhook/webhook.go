package webhook

import (
	"context"
	"log/slog"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/admission"
)

// The plugins' names.
const (
	MutatingName   = "MutatingAdmissionWebhook"
	ValidatingName = "ValidatingAdmissionWebhook"
)

// Caller brings reviews to webhooks.
type Caller interface {
	// Call posts a review, an AdmissionReview in JSON, to the webhook that a configuration describes, and returns the
	// body of its answer, whose size it bounds. It returns once ctx ends. An error means that there is no
	// answer; its text tells users why. Call neither changes nor keeps its arguments.
	Call(ctx context.Context, to *registrationv1.WebhookClientConfig, review []byte) ([]byte, error)
}

// CallerFunc adapts a function to Caller.
type CallerFunc func(ctx context.Context, to *registrationv1.WebhookClientConfig, review []byte) ([]byte, error)

// Call calls f.
func (f CallerFunc) Call(ctx context.Context, to *registrationv1.WebhookClientConfig, review []byte) ([]byte, error) {
	return f(ctx, to, review)
}

// Direct is a Caller that reaches some webhooks without writing and reading JSON.
type Direct interface {
	Caller
	// Reviewer returns the webhook that a configuration describes, or nil if it can only be called by Call.
	Reviewer(to *registrationv1.WebhookClientConfig) Reviewer
}

// Reviewer is a webhook that takes reviews as they are. Package handler makes one of an admission plugin.
type Reviewer interface {
	// Review answers a request, whose objects and options are decoded (RawExtension.Object) and do not name their types.
	// It must not change what they refer to, and must return soon after ctx ends. It may be called concurrently.
	Review(ctx context.Context, r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse
}

// Configurations is the cache of webhook configurations that a plugin reads; an informer is one.
type Configurations[T any] interface {
	// List returns all configurations, in any order; the argument is empty. They are shared and never change: a
	// configuration that was updated is another object.
	List(namespace string) []T
}

// Namespaces is the cache of namespaces that the plugins read; an informer of namespaces is one.
type Namespaces interface {
	// Get returns the namespace of that name; the first argument is empty.
	Get(namespace, name string) (*corev1.Namespace, bool)
}

// Conditions are the compiled match conditions of a webhook. They return false if one of them is false, even if
// others fail; otherwise an error if some fail; otherwise true. The request is the one that the webhook would
// get, except that it has no UID, and that its objects and options are decoded (RawExtension.Object) and do
// not name their types.
type Conditions func(ctx context.Context, r *admissionv1.AdmissionRequest) (bool, error)

// Version is a version in which objects are served.
type Version = admission.Version

// Annotation is an addition to the audit log.
type Annotation struct {
	Key   string // with a domain of its own
	Value string // text, or JSON
	// Content means that the value contains parts of objects: it is only for logs that contain objects, of level
	// Request and above.
	Content bool
}

// Options are the options of the plugins. The zero value is valid.
type Options struct {
	// Live reads a namespace directly from the server, and returns false if it does not exist. Without Live,
	// the cache is authoritative.
	Live func(ctx context.Context, name string) (*corev1.Namespace, bool, error)
	// Versions returns all versions in which the objects of a stored resource, or of a subresource, are served.
	// Without Versions, that is the stored one.
	Versions func(stored schema.GroupVersionResource, subresource string) []Version
	// Default fills the unset fields of an object, of the stored version, that a webhook has changed.
	Default func(kind schema.GroupVersionKind, obj runtime.Object)
	// Compile compiles match conditions; it is called once for each version of a webhook. What does not compile
	// fails when evaluated. Without Compile, all match conditions fail.
	Compile func(conditions []registrationv1.MatchCondition) Conditions
	// Warn warns the client of the request that ctx belongs to, from the request's own goroutine; nil drops
	// warnings.
	Warn func(ctx context.Context, text string)
	// Annotate adds to the audit log, from the request's own goroutine; nil adds nothing.
	Annotate func(ctx context.Context, a Annotation)
	// Logger logs failures of webhooks; nil logs nothing.
	Logger *slog.Logger
}

// withDefaults fills what may be nil.
func (o Options) withDefaults() Options {
	if o.Versions == nil {
		o.Versions = func(schema.GroupVersionResource, string) []Version { return nil }
	}
	if o.Default == nil {
		o.Default = func(schema.GroupVersionKind, runtime.Object) {}
	}
	if o.Warn == nil {
		o.Warn = func(context.Context, string) {}
	}
	if o.Annotate == nil {
		o.Annotate = func(context.Context, Annotation) {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}
