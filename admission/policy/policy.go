package policy

import (
	"context"
	"log/slog"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/admission"
)

// The plugins' names.
const (
	MutatingName   = "MutatingAdmissionPolicy"
	ValidatingName = "ValidatingAdmissionPolicy"
)

// Objects is the cache of the policies or bindings of one kind that a plugin reads; an informer is one.
type Objects[T any] interface {
	// List returns all objects, in any order; the argument is empty. They are shared and never change: one that
	// was updated is another object.
	List(namespace string) []T
}

// Namespaces is the cache of namespaces that the plugins read; an informer of namespaces is one.
type Namespaces interface {
	// Get returns the namespace of that name; the first argument is empty.
	Get(namespace, name string) (*corev1.Namespace, bool)
}

// Params are the objects of a kind, as parameters of policies. They are shared and never change, and need not name their type.
type Params interface {
	// Namespaced reports whether the objects are in namespaces.
	Namespaced() bool
	// Get returns an object, or nil if there is none.
	Get(ctx context.Context, namespace, name string) (runtime.Object, error)
	// List returns the objects of a namespace that a selector selects, in the order in which policies get them.
	List(ctx context.Context, namespace string, selected labels.Selector) ([]runtime.Object, error)
}

// Input is a request as expressions see it, in one version. All expressions of a request in that version get the same Input,
// one after the other.
type Input struct {
	// Request is the request. Its objects are in the stored version; expressions see those below.
	Request *admission.Request
	// Version is the version that the policy has selected, which may not be the one that the client used.
	Version admission.Version
	// Object and OldObject are in that version and name their type. They are nil if the request has none.
	Object, OldObject runtime.Object
	// Options are the request's; they name their type.
	Options runtime.Object
	// Namespace is that of the object; nil if it is cluster-scoped.
	Namespace *corev1.Namespace
	// Memo is for the evaluators, to keep what they derive from the other fields, of which Object may change between
	// two evaluations. It is nil at first.
	Memo any

	stale bool // Object is not the request's any more
}

// Decision is about a request, by one expression.
type Decision struct {
	// Allowed means that the expression is true.
	Allowed bool
	// Failed means that the expression could not be evaluated, for the reason in Message: the failure policy decides.
	Failed bool
	// Message tells users why the request is not allowed.
	Message string
	// Reason is that of the Status of a refusal, from the policy or the default.
	Reason metav1.StatusReason
}

// AuditAnnotation is the value of an audit annotation of a policy.
type AuditAnnotation struct {
	Key   string // without the policy's name
	Value string // empty: there is to be none
	// Error is why there is no value; then the failure policy decides about the request.
	Error string
}

// Verdict is what a policy says of a request.
type Verdict struct {
	// Decisions has one for each of the validations, in order, or a single one if they could not be evaluated; none if
	// the match conditions are not met.
	Decisions   []Decision
	Annotations []AuditAnnotation
}

// Validator is a compiled ValidatingAdmissionPolicy. It is safe for concurrent use.
type Validator interface {
	// Validate evaluates the policy with a parameter, which names its type; nil is null.
	Validate(ctx context.Context, in *Input, param runtime.Object) Verdict
}

// ValidatorFunc adapts a function to Validator.
type ValidatorFunc func(ctx context.Context, in *Input, param runtime.Object) Verdict

// Validate calls f.
func (f ValidatorFunc) Validate(ctx context.Context, in *Input, param runtime.Object) Verdict {
	return f(ctx, in, param)
}

// Mutator is a compiled MutatingAdmissionPolicy. It is safe for concurrent use.
type Mutator interface {
	// Matches evaluates the match conditions: false if one is false, even if others fail; otherwise an error if some fail.
	// A parameter that has a Go type does not name it.
	Matches(ctx context.Context, in *Input, param runtime.Object) (bool, error)
	// Mutate evaluates one of the policy's mutations, by its index.
	Mutate(ctx context.Context, mutation int, in *Input, param runtime.Object) (Change, error)
}

// Change is what a mutation does to an object. One of the two is set.
type Change struct {
	// Patch is a JSON patch.
	Patch []byte
	// Apply is a configuration that is merged into the object, as by server-side apply, without apiVersion and kind.
	Apply map[string]any
}

// Options are the options of the plugins. The zero value is valid.
type Options struct {
	// Versions returns all versions in which the objects of a stored resource, or of a subresource, are served.
	// Without Versions, that is the stored one.
	Versions func(stored schema.GroupVersionResource, subresource string) []admission.Version
	// Params returns the objects of a kind, or false if it is not served. Without Params, no kind is.
	Params func(kind schema.GroupVersionKind) (Params, bool)
	// Merge merges a configuration into an object of a kind by the kind's schema, without changing its arguments, and
	// returns an object of the same Go type. Both name their type. Without Merge, it fails.
	Merge func(kind schema.GroupVersionKind, obj runtime.Object, config map[string]any) (runtime.Object, error)
	// Default fills the unset fields of an object, of the stored version, that a policy has changed.
	Default func(kind schema.GroupVersionKind, obj runtime.Object)
	// Warn warns the client of the request that ctx belongs to; nil drops warnings.
	Warn func(ctx context.Context, text string)
	// Annotate adds to the audit log; nil adds nothing.
	Annotate func(ctx context.Context, key, value string)
	// Logger logs what nobody else learns; nil logs nothing.
	Logger *slog.Logger
}

// withDefaults fills what may be nil.
func (o Options) withDefaults() Options {
	if o.Versions == nil {
		o.Versions = func(schema.GroupVersionResource, string) []admission.Version { return nil }
	}
	if o.Params == nil {
		o.Params = func(schema.GroupVersionKind) (Params, bool) { return nil, false }
	}
	if o.Merge == nil {
		o.Merge = func(kind schema.GroupVersionKind, _ runtime.Object, _ map[string]any) (runtime.Object, error) {
			return nil, noSchema(kind)
		}
	}
	if o.Default == nil {
		o.Default = func(schema.GroupVersionKind, runtime.Object) {}
	}
	if o.Warn == nil {
		o.Warn = func(context.Context, string) {}
	}
	if o.Annotate == nil {
		o.Annotate = func(context.Context, string, string) {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// failsOpen reports whether the failures of a policy are ignored.
func failsOpen(p *registrationv1.FailurePolicyType) bool {
	return p != nil && *p == registrationv1.Ignore
}
