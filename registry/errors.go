package registry

import (
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// What can be wrong with a request; test for them with errors.Is. The registry returns them
// inside an *Error that says of what.
var (
	ErrNotFound  = errors.New("not found")
	ErrExists    = errors.New("already exists")
	ErrConflict  = errors.New("conflict")
	ErrInvalid   = errors.New("invalid")
	ErrExpired   = errors.New("expired")
	ErrForbidden = errors.New("forbidden")
	// ErrBadRequest: the request makes no sense whatever the state.
	ErrBadRequest = errors.New("bad request")
	// ErrTooManyRequests: not now (an eviction that a disruption budget does not allow).
	ErrTooManyRequests = errors.New("too many requests")
	// ErrInternal: the server has run out of something, or is broken.
	ErrInternal = errors.New("internal error")
	// ErrNameExhausted: no free name was found for a generateName.
	ErrNameExhausted = errors.New("no free generated name")
)

// Error is a refused or failed operation on an object. What it is, is its Err, one of the
// sentinels above; the rest is what a client is told.
type Error struct {
	Err      error
	Resource schema.GroupResource
	Kind     string // for ErrInvalid
	Name     string
	// Message is the detail after the standard opening words; empty for the errors that need none.
	Message string
	Fields  field.ErrorList
	Causes  []metav1.StatusCause
	// Continue is, with ErrExpired of a list, the token that goes on at the newest revision.
	Continue string
	// RetryAfter is, with ErrTooManyRequests, when to try again, in seconds.
	RetryAfter int
}

// Error implements error.
func (e *Error) Error() string {
	s := fmt.Sprintf("%s %q: %v", e.Resource, e.Name, e.Err)
	if e.Message != "" {
		s += ": " + e.Message
	}
	if len(e.Fields) > 0 {
		s += ": " + e.Fields.ToAggregate().Error()
	}
	return s
}

// Unwrap returns the sentinel.
func (e *Error) Unwrap() error { return e.Err }

// Errorf returns an *Error about the object at key.
func Errorf(sentinel error, key ObjectKey, format string, args ...any) *Error {
	return &Error{Err: sentinel, Resource: key.Resource, Name: key.Name, Message: fmt.Sprintf(format, args...)}
}
