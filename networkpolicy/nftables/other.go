//go:build !linux

package nftables

import (
	"context"
	"errors"

	"github.com/keelson-dev/keelson/networkpolicy"
)

// Options of a Writer. The zero value is ready to use.
type Options struct {
	// Table is the name of the table; keelson-networkpolicy when empty.
	Table string
}

// Writer is a networkpolicy.Writer that keeps the tables in the kernel.
type Writer struct{}

var _ networkpolicy.Writer = (*Writer)(nil)

// New fails: there is nftables only in Linux.
func New(Options) (*Writer, error) { return nil, errors.ErrUnsupported }

// PoliceBridges fails.
func PoliceBridges() error { return errors.ErrUnsupported }

// Close does nothing.
func (*Writer) Close() error { return nil }

// Remove fails.
func (*Writer) Remove(context.Context) error { return errors.ErrUnsupported }

// Sync implements networkpolicy.Writer.
func (*Writer) Sync(context.Context, networkpolicy.Tables) error { return errors.ErrUnsupported }

// Update implements networkpolicy.Writer.
func (*Writer) Update(context.Context, networkpolicy.Changes) error { return errors.ErrUnsupported }

// Intact implements networkpolicy.Writer.
func (*Writer) Intact(context.Context) (bool, error) { return false, errors.ErrUnsupported }
