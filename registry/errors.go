package registry

import (
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The reasons why a request fails; test for them with errors.Is. The registry returns them inside an *Error
// that names the object.
var (
	ErrNotFound  = errors.New("not found")
	ErrExists    = errors.New("already exists")
	ErrConflict  = errors.New("conflict")
	ErrInvalid   = errors.New("invalid")
	ErrExpired   = errors.New("expired")
	ErrForbidden = errors.New("forbidden")
	// ErrBadRequest means that the request makes no sense in any state.
	ErrBadRequest = errors.New("bad request")
	// ErrTooManyRequests means that the request may succeed later (an eviction that a budget does not allow).
	ErrTooManyRequests = errors.New("too many requests")
	// ErrTimeout means that what the request began has not come to its end in time.
	ErrTimeout = errors.New("timeout")
	// ErrReplaced means that the kind was replaced (Registry.Install) and nothing was changed: whoever asks the
	// registry for the resource again gets another. Such an error is also an ErrNotFound.
	ErrReplaced = errors.New("the kind was replaced")
	// ErrInternal means that the server has run out of something, or is broken.
	ErrInternal = errors.New("internal error")
	// ErrNameExhausted means that no free name was found for a generateName.
	ErrNameExhausted = errors.New("no free generated name")
)

// Error is a refused or failed operation on an object. Err, one of the sentinels above, classifies it; the rest
// is for the client.
type Error struct {
	Err      error // one of the sentinels
	Resource schema.GroupResource
	Kind     string // for ErrInvalid
	Name     string
	// Message follows the standard opening words; empty for errors that need no more.
	Message string
	Fields  field.ErrorList
	Causes  []metav1.StatusCause
	// Continue, with ErrExpired of a list, is the token that continues at the newest revision.
	Continue string
	// RetryAfter, with ErrTooManyRequests, is when to try again, in seconds.
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
