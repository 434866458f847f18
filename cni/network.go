package cni

import (
	"context"
	"errors"
	"fmt"
)

// Network connects network namespaces: the union of the parts below. Consumers ask for the
// narrowest part that they need.
type Network interface {
	Attacher
	Checker
	Reporter
}

// Attacher attaches network namespaces and takes the attachments back.
type Attacher interface {
	// Add makes the attachment and returns what the namespace has got. The namespace exists. When
	// Add fails it has taken back what it had done, as far as that was possible; the caller calls
	// Delete all the same. It fails with ErrExists for an attachment that is there, which stays
	// as it is, with ErrInvalid for a request that makes no sense, and with ErrNotReady as long
	// as there is no network.
	Add(ctx context.Context, a Attachment) (Result, error)
	// Delete takes the attachment back, with its addresses. Only ContainerID and Interface need
	// to be set. It may be called again, and succeeds for an attachment that does not exist and
	// for one whose namespace is gone.
	Delete(ctx context.Context, a Attachment) error
}

// Checker looks at attachments.
type Checker interface {
	// Check fails when the attachment is not as Add left it, with ErrNotFound when there is none,
	// and with errors.ErrUnsupported when the network has no way to tell.
	Check(ctx context.Context, a Attachment) error
}

// Reporter tells about the network as a whole.
type Reporter interface {
	// Status returns nil when Add can be expected to work, and wraps ErrNotReady with the reason
	// when not.
	Status(ctx context.Context) error
}

// CheckerFunc is a Checker made of a function.
type CheckerFunc func(ctx context.Context, a Attachment) error

// Check calls the function.
func (f CheckerFunc) Check(ctx context.Context, a Attachment) error { return f(ctx, a) }

// ReporterFunc is a Reporter made of a function.
type ReporterFunc func(ctx context.Context) error

// Status calls the function.
func (f ReporterFunc) Status(ctx context.Context) error { return f(ctx) }

// Ready is a Reporter of several: its status is that of the first that is not ready.
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

// Collector is what a Network may have besides: it knows its attachments and takes back those
// that nobody wants any more, after a crash say. It is found by a type assertion; Collect does so.
type Collector interface {
	// Attachments returns the keys of the attachments there are, also of those of which a crash
	// left only a part, in lexical order.
	Attachments(ctx context.Context) ([]Key, error)
	// Collect takes back every attachment that is not among the live ones. It goes on after
	// failures and returns them joined.
	Collect(ctx context.Context, live []Key) error
}

// Collect takes back every attachment of the network that is not among the live ones. It fails
// with errors.ErrUnsupported when the network is no Collector.
func Collect(ctx context.Context, n Attacher, live []Key) error {
	c, ok := n.(Collector)
	if !ok {
		return fmt.Errorf("%T keeps no list of its attachments: %w", n, errors.ErrUnsupported)
	}
	return c.Collect(ctx, live)
}
