package cni

import (
	"context"
	"errors"
	"fmt"
)

// Network connects network namespaces: the union of the parts below. Consumers should ask for the narrowest part that
// they need.
type Network interface {
	Attacher
	Checker
	Reporter
}

// Attacher attaches network namespaces and removes attachments.
type Attacher interface {
	// Add attaches an existing namespace and returns its addresses. A failed Add undoes its work as far as possible;
	// the caller must still call Delete. Add fails with ErrExists for an existing attachment, which is not changed,
	// with ErrInvalid for an invalid request, and with ErrNotReady as long as there is no network.
	Add(ctx context.Context, a Attachment) (Result, error)
	// Delete removes the attachment and frees its addresses. Only ContainerID and Interface are required. It may be
	// called again, and succeeds for an attachment that does not exist or whose namespace is gone.
	Delete(ctx context.Context, a Attachment) error
}

// Checker checks attachments.
type Checker interface {
	// Check fails if the attachment is not as Add left it, with ErrNotFound if it does not exist, and with
	// errors.ErrUnsupported if the network cannot check it.
	Check(ctx context.Context, a Attachment) error
}

// Reporter reports the status of the network as a whole.
type Reporter interface {
	// Status returns nil if Add can be expected to work, and otherwise an error that wraps ErrNotReady.
	Status(ctx context.Context) error
}

// CheckerFunc adapts a function to Checker.
type CheckerFunc func(ctx context.Context, a Attachment) error

// Check calls the function.
func (f CheckerFunc) Check(ctx context.Context, a Attachment) error { return f(ctx, a) }

// ReporterFunc adapts a function to Reporter.
type ReporterFunc func(ctx context.Context) error

// Status calls the function.
func (f ReporterFunc) Status(ctx context.Context) error { return f(ctx) }

// Ready combines Reporters: its status is that of the first one that is not ready.
func Ready(all ...Reporter) Reporter {
	return ReporterFunc(func(ctx context.Context) error {
		for _, r := range all {
			if err := r.Status(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}

// Collector is an optional interface of a Network that knows its attachments and can remove those no longer wanted,
// after a crash for example. Use it through Collect.
type Collector interface {
	// Attachments returns the keys of all attachments, including partial ones left by a crash, in lexical order.
	Attachments(ctx context.Context) ([]Key, error)
	// Collect removes every attachment that is not live. It continues after failures and returns them joined.
	Collect(ctx context.Context, live []Key) error
}

// Collect removes every attachment of the network that is not live. It fails with errors.ErrUnsupported if the network
// is not a Collector.
func Collect(ctx context.Context, n Attacher, live []Key) error {
	c, ok := n.(Collector)
	if !ok {
		return fmt.Errorf("%T keeps no list of its attachments: %w", n, errors.ErrUnsupported)
	}
	return c.Collect(ctx, live)
}
