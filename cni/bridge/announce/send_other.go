//go:build !linux

package announce

import (
	"errors"
	"net/netip"

	"github.com/keelson-dev/keelson/cni/bridge"
)

type sender struct{}

func open() (sender, error) { return sender{}, errors.ErrUnsupported }

func (sender) Close() error { return nil }

func (sender) send(string, func(netip.Addr) netip.Addr, []bridge.Endpoint) error {
	return errors.ErrUnsupported
}
