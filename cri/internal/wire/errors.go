package wire

import (
	"context"
	"errors"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/keelson-dev/keelson/cri"
)

// Error is an error received over the wire: its text is gRPC's, with code and description, and it wraps the matching
// error of package cri or context.
type Error struct {
	status error
	kind   error // nil if there is no matching error
}

func (e *Error) Error() string { return e.status.Error() }

// Description implements cri.Described.
func (e *Error) Description() string { return status.Convert(e.status).Message() }

// Named gives an error of a call the given kind, without changing its text.
func Named(err, kind error) error { return &Error{status: err, kind: kind} }

// Unwrap returns the status and the sentinel.
func (e *Error) Unwrap() []error {
	if e.kind == nil {
		return []error{e.status}
	}
	return []error{e.status, e.kind}
}

// DecodeError converts an error returned by a call. Its kind is cri.ErrNotFound, ErrUnavailable, ErrInvalid,
// ErrUnsupported, ErrEventsLost, ErrRegistryUnavailable, ErrSignatureValidation, context.DeadlineExceeded,
// context.Canceled or none of these. An error that is not a status is returned unchanged.
func DecodeError(err error) error {
	if err == nil {
		return nil
	}
	s, ok := status.FromError(err)
	if !ok {
		return err
	}
	return &Error{status: err, kind: kindOf(s)}
}

func kindOf(s *status.Status) error {
	switch s.Code() {
	case codes.NotFound:
		return cri.ErrNotFound
	case codes.Unavailable:
		return cri.ErrUnavailable
	case codes.InvalidArgument, codes.FailedPrecondition, codes.OutOfRange:
		return cri.ErrInvalid
	case codes.Unimplemented:
		return cri.ErrUnsupported
	case codes.DataLoss:
		return cri.ErrEventsLost
	case codes.DeadlineExceeded:
		return context.DeadlineExceeded
	case codes.Canceled:
		return context.Canceled
	case codes.Unknown, codes.Internal:
		for _, kind := range []error{cri.ErrRegistryUnavailable, cri.ErrSignatureValidation} {
			if strings.HasPrefix(s.Message(), kind.Error()) {
				return kind
			}
		}
	}
	return nil
}

// EncodeError makes the status of an error of package cri or context; any other is codes.Unknown.
func EncodeError(err error) error {
	if err == nil {
		return nil
	}
	message := err.Error()
	for _, k := range []struct {
		kind error
		code codes.Code
	}{
		{cri.ErrNotFound, codes.NotFound},
		{cri.ErrUnavailable, codes.Unavailable},
		{cri.ErrInvalid, codes.FailedPrecondition},
		{cri.ErrUnsupported, codes.Unimplemented},
		{cri.ErrEventsLost, codes.DataLoss},
		{context.DeadlineExceeded, codes.DeadlineExceeded},
		{context.Canceled, codes.Canceled},
	} {
		if errors.Is(err, k.kind) {
			return status.Error(k.code, message)
		}
	}
	for _, kind := range []error{cri.ErrRegistryUnavailable, cri.ErrSignatureValidation} {
		if errors.Is(err, kind) && !strings.HasPrefix(message, kind.Error()) {
			message = kind.Error() + ": " + message
		}
	}
	return status.Error(codes.Unknown, message)
}
