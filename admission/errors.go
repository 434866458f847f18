package admission

import (
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The reasons why a request is refused; test for them with errors.Is. Plugins return them inside an *Error.
var (
	// ErrForbidden means that the request is not allowed (HTTP 403).
	ErrForbidden = errors.New("forbidden")
	// ErrNotFound means that something that the request depends on does not exist (404).
	ErrNotFound = errors.New("not found")
	// ErrBadRequest means that the request makes no sense to the plugin (400).
	ErrBadRequest = errors.New("bad request")
	// ErrInvalid means that fields of the object break the plugin's rules (422).
	ErrInvalid = errors.New("invalid")
	// ErrInternal means that the plugin could not decide about the request (500).
	ErrInternal = errors.New("internal error")
)

// Error is a refusal with what an API server tells the client about it.
type Error struct {
	// Err is one of the sentinels above.
	Err error
	// Resource and Name identify what is forbidden or not found.
	Resource schema.GroupResource
	Name     string
	// Kind is the kind of an invalid object, and Fields are its invalid fields: with ErrInvalid only.
	Kind   schema.GroupKind
	Fields field.ErrorList
	// Message is the reason without the standard opening words.
	Message string
	Causes  []metav1.StatusCause
	// Code is an HTTP status other than that of Err; 0 means that of Err.
	Code int
	// Cause is the underlying error, or nil.
	Cause error
}

// Error returns the message of the client's Status, in upstream's words.
func (e *Error) Error() string {
	switch {
	case errors.Is(e.Err, ErrForbidden) && e.Resource.Empty():
		return "forbidden: " + e.Message
	case errors.Is(e.Err, ErrForbidden) && e.Name == "":
		return fmt.Sprintf("%s is forbidden: %s", e.Resource.String(), e.Message)
	case errors.Is(e.Err, ErrForbidden):
		return fmt.Sprintf("%s %q is forbidden: %s", e.Resource.String(), e.Name, e.Message)
	case errors.Is(e.Err, ErrNotFound):
		return fmt.Sprintf("%s %q not found", e.Resource.String(), e.Name)
	case errors.Is(e.Err, ErrInvalid):
		return fmt.Sprintf("%s %q is invalid: %v", e.Kind.String(), e.Name, e.Fields.ToAggregate())
	case errors.Is(e.Err, ErrInternal):
		return "Internal error occurred: " + e.Message
	}
	return e.Message
}

// Unwrap returns the sentinel and the cause.
func (e *Error) Unwrap() []error {
	if e.Cause == nil {
		return []error{e.Err}
	}
	return []error{e.Err, e.Cause}
}

// Forbidden refuses the request. The client reads `pods "x" is forbidden: ` and the message, where x is the
// object's name, or its generateName if it has no name yet. An error that the format wraps with %w becomes the
// Cause.
func Forbidden(r *Request, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{
		Err: ErrForbidden, Resource: r.Resource.GroupResource(), Name: nameOf(r),
		Message: err.Error(), Cause: errors.Unwrap(err),
	}
}

// NotFound refuses the request because something that it depends on is missing.
func NotFound(resource schema.GroupResource, name string) *Error {
	return &Error{Err: ErrNotFound, Resource: resource, Name: name}
}

// Invalid refuses the request because of fields of its object.
func Invalid(r *Request, errs field.ErrorList) *Error {
	return &Error{Err: ErrInvalid, Resource: r.Resource.GroupResource(), Name: r.Name, Kind: r.Kind.GroupKind(), Fields: errs}
}

// BadRequest refuses a request that makes no sense to the plugin.
func BadRequest(format string, args ...any) *Error {
	return &Error{Err: ErrBadRequest, Message: fmt.Sprintf(format, args...)}
}

// Internal fails the request because of an error that is not the client's.
func Internal(cause error) *Error {
	return &Error{Err: ErrInternal, Message: cause.Error(), Cause: cause}
}

// nameOf returns upstream's name for the object of a request.
func nameOf(r *Request) string {
	if r.Name != "" {
		return r.Name
	}
	if obj, ok := r.Object.(metav1.Object); ok {
		if obj.GetName() != "" {
			return obj.GetName()
		}
		if obj.GetGenerateName() != "" {
			return obj.GetGenerateName()
		}
	}
	return "Unknown"
}
