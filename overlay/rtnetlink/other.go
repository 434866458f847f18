//go:build !linux

package rtnetlink

import (
	"context"
	"errors"
	"net/netip"

	"github.com/keelson-dev/keelson/overlay"
)

// Options of a Writer. The zero value is ready to use.
type Options struct {
	// Device is the name of the VXLAN device; keelson-vxlan when empty.
	Device string
	// VNI is the number of the VXLAN, 1 if it is 0; Port is its UDP port, 8472 if it is 0. All hosts have the same.
	VNI, Port int
	// Protocol is the number that marks routes, 75 if it is 0. No other program of the host has the same.
	Protocol int
}

// ErrNoAddress: no device of the host has its address.
var ErrNoAddress = errors.New("no device has the address of the host")

// Writer is an overlay.Writer.
type Writer struct{}

var _ overlay.Writer = (*Writer)(nil)

// New fails: it is for Linux.
func New(netip.Addr, Options) (*Writer, error) { return nil, errors.ErrUnsupported }

// Close does nothing.
func (*Writer) Close() error { return nil }

// Underlay implements overlay.Writer.
func (*Writer) Underlay(context.Context) (overlay.Underlay, error) {
	return overlay.Underlay{}, errors.ErrUnsupported
}

// Write implements overlay.Writer.
func (*Writer) Write(context.Context, overlay.Table) error { return errors.ErrUnsupported }

// Remove fails.
func (*Writer) Remove(context.Context) error { return errors.ErrUnsupported }
