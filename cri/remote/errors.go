package remote

import (
	"context"
	"errors"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/cri/internal/wire"
)

// unavailable is cri.ErrUnavailable with the place and what to do.
type unavailable struct {
	cause    error
	endpoint string
}

func (e *unavailable) Error() string { return e.cause.Error() + e.where() }

// Description implements cri.Described.
func (e *unavailable) Description() string { return status.Convert(e.cause).Message() + e.where() }

func (e *unavailable) where() string {
	return " (container runtime at " + e.endpoint + ": " + advice(e.cause.Error()) + ")"
}

func (e *unavailable) Unwrap() []error { return []error{e.cause, cri.ErrUnavailable} }

func advice(cause string) string {
	switch {
	case strings.Contains(cause, "no such file or directory"):
		return "there is no socket; start the runtime or correct the endpoint"
	case strings.Contains(cause, "connection refused"):
		return "nobody listens on the socket; start the runtime and look at its log if it does not stay up"
	case strings.Contains(cause, "permission denied"):
		return "the socket may not be used by this user; run as root or as a user whom the socket allows"
	case strings.Contains(cause, "connection error"):
		return "something listens on the socket but does not speak CRI or hangs; look at the runtime's log or correct the endpoint"
	default:
		return "it went away during the call or was closed; it is tried again at the next one"
	}
}

// failed converts the error of a call to one of package cri.
func (r *Runtime) failed(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	code := status.Code(err)
	if code == codes.Unavailable || code == codes.Canceled && ctx.Err() == nil {
		r.conn.ResetConnectBackoff()
		return &unavailable{err, r.endpoint}
	}
	return wire.DecodeError(err)
}

// gone is failed for removals and other calls that succeed if the object does not exist.
func (r *Runtime) gone(ctx context.Context, err error) error {
	if err = r.failed(ctx, err); errors.Is(err, cri.ErrNotFound) {
		return nil
	}
	return err
}
