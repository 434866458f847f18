package cri

import (
	"errors"
	"strings"
)

// The errors that callers tell apart. Test with errors.Is.
var (
	// ErrNotFound: there is no such sandbox, container or image.
	ErrNotFound = errors.New("not found")
	// ErrUnavailable: the runtime cannot be reached now; the call may succeed later.
	ErrUnavailable = errors.New("container runtime unavailable")
	// ErrInvalid: the call makes no sense for its arguments, or in the state that the sandbox or
	// container is in, such as starting a container twice.
	ErrInvalid = errors.New("invalid for its state or arguments")
	// ErrUnsupported: the runtime cannot do this at all.
	ErrUnsupported = errors.New("not supported by the container runtime")
	// ErrEventsLost: a reader of events fell too far behind and has missed some. It lists again
	// and opens a new stream.
	ErrEventsLost = errors.New("container events lost")
	// ErrRegistryUnavailable: an image could not be pulled because its registry did not answer.
	// The text is the one that CRI prescribes.
	ErrRegistryUnavailable = errors.New("RegistryUnavailable")
	// ErrSignatureValidation: an image was refused because of its signature. The text is the one
	// that CRI prescribes.
	ErrSignatureValidation = errors.New("SignatureValidationFailed")
)

// Described is an error whose text begins with the words of a protocol, such as
// "rpc error: code = NotFound desc = ".
type Described interface {
	error
	// Description is the text without those words.
	Description() string
}

// Description is the text of an error without the words of a protocol, wherever in the text they
// are. A kubelet tells by it why a container could not be created or started, and by the whole text
// why an image could not be pulled or a sandbox not be made. The error must not be nil.
func Description(err error) string {
	var d Described
	if !errors.As(err, &d) {
		return err.Error()
	}
	return strings.Replace(err.Error(), d.Error(), d.Description(), 1)
}
