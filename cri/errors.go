package cri

import (
	"errors"
	"strings"
)

// Errors that callers can distinguish; test for them with errors.Is.
var (
	// ErrNotFound: the sandbox, container or image does not exist.
	ErrNotFound = errors.New("not found")
	// ErrUnavailable: the runtime cannot be reached now; the call may succeed later.
	ErrUnavailable = errors.New("container runtime unavailable")
	// ErrInvalid: the call is invalid for its arguments, or in the state of the sandbox or container, such as starting
	// a container twice.
	ErrInvalid = errors.New("invalid for its state or arguments")
	// ErrUnsupported: the runtime cannot do this at all.
	ErrUnsupported = errors.New("not supported by the container runtime")
	// ErrEventsLost: a reader of events fell too far behind and has missed some. It must list again and open a new
	// stream.
	ErrEventsLost = errors.New("container events lost")
	// ErrRegistryUnavailable: an image could not be pulled because its registry did not answer.
	// The text is the one that CRI prescribes.
	ErrRegistryUnavailable = errors.New("RegistryUnavailable")
	// ErrSignatureValidation: an image was refused because of its signature. The text is the one
	// that CRI prescribes.
	ErrSignatureValidation = errors.New("SignatureValidationFailed")
)

// Described is an error whose text begins with a protocol's prefix, such as "rpc error: code = NotFound desc = ".
type Described interface {
	error
	// Description is the text without that prefix.
	Description() string
}

// Description returns the text of an error without the protocol's prefix, wherever in the text that is. A kubelet
// reports with it why a container could not be created or started; it reports the whole text for failures of image
// pulls and sandboxes. The error must not be nil.
func Description(err error) string {
	var d Described
	if !errors.As(err, &d) {
		return err.Error()
	}
	return strings.Replace(err.Error(), d.Error(), d.Description(), 1)
}
