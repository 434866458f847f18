package cri

import "errors"

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
