package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/keelson-dev/keelson/storage"
)

// Error is a failure of etcd or of the connection to it. It leaves open whether a write happened.
type Error struct {
	// Endpoints are etcd's, as configured.
	Endpoints []string
	// Op is the operation that failed, with the store's key.
	Op string
	// Err is the cause.
	Err error
}

// Error names endpoints, operation and cause.
func (e *Error) Error() string {
	return fmt.Sprintf("etcd at %s: %s: %v", strings.Join(e.Endpoints, ","), e.Op, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// failed turns what clientv3 returned into the contract's errors.
func (s *Store) failed(ctx context.Context, op string, err error) error {
	if s.isClosed() {
		return fmt.Errorf("%s: %w", op, storage.ErrClosed)
	}
	if ended := ctx.Err(); ended != nil {
		if code := status.Code(err); code == codes.Aborted { // the code of caller.connected
			ended = fmt.Errorf("%w: %s", ended, status.Convert(err).Message())
		}
		return &Error{s.client.Endpoints(), op, ended}
	}
	if sentinel := meaning(err); sentinel != nil {
		return fmt.Errorf("%s: %w", op, sentinel)
	}
	return &Error{s.client.Endpoints(), op, err}
}

// meaning returns the sentinel with the same meaning, nil if there is none.
func meaning(err error) error {
	switch {
	case errors.Is(err, rpctypes.ErrCompacted):
		return storage.ErrCompacted
	case errors.Is(err, rpctypes.ErrFutureRev):
		return storage.ErrFutureRevision
	case errors.Is(err, rpctypes.ErrRequestTooLarge):
		return storage.ErrTooLarge
	case isTooLargeMessage(err):
		return storage.ErrTooLarge
	}
	return nil
}

// isTooLargeMessage recognizes the limits of gRPC, on either side, which lie above etcd's.
func isTooLargeMessage(err error) bool {
	var etcd rpctypes.EtcdError
	code, text := status.Code(err), err.Error()
	if errors.As(err, &etcd) {
		code, text = etcd.Code(), etcd.Error()
	}
	return code == codes.ResourceExhausted && strings.Contains(text, "larger than max")
}
