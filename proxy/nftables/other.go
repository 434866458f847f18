//go:build !linux

package nftables

import (
	"context"
	"errors"
	"log/slog"

	"github.com/keelson-dev/keelson/proxy"
)

// Options of a Writer. The zero value is ready to use.
type Options struct {
	// Table is the name of the table; keelson-proxy when empty.
	Table  string
	Logger *slog.Logger
}

// Writer is a proxy.Writer that keeps the tables in the kernel.
type Writer struct{}

var _ proxy.Writer = (*Writer)(nil)

// New fails: there is nftables only in Linux.
func New(Options) (*Writer, error) { return nil, errors.ErrUnsupported }

// Close does nothing.
func (*Writer) Close() error { return nil }

// Remove fails.
func (*Writer) Remove(context.Context) error { return errors.ErrUnsupported }

// Sync implements proxy.Writer.
func (*Writer) Sync(context.Context, proxy.Tables) error { return errors.ErrUnsupported }

// Update implements proxy.Writer.
func (*Writer) Update(context.Context, map[proxy.Service][]proxy.Port) error {
	return errors.ErrUnsupported
}

// Intact implements proxy.Writer.
func (*Writer) Intact(context.Context) (bool, error) { return false, errors.ErrUnsupported }
