package announce

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/cni/bridge"
)

// sender is a packet socket. It receives nothing, and belongs to the network namespace in which it was opened. The kernel
// writes the Ethernet headers, with the device's own address as source: so the bridge does not learn a pod's at the wrong port.
type sender struct{ fd int }

func open() (sender, error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	return sender{fd}, err
}

// Close closes the socket.
func (s sender) Close() error { return unix.Close(s.fd) }

// send announces the endpoints out of a device.
func (s sender) send(device string, source func(netip.Addr) netip.Addr, endpoints []bridge.Endpoint) error {
	request, err := unix.NewIfreq(device)
	if err == nil {
		err = unix.IoctlIfreq(s.fd, unix.SIOCGIFINDEX, request) // in the socket's namespace
	}
	if err != nil {
		return fmt.Errorf("device %s: %w", device, err)
	}
	var errs []error
	for _, e := range endpoints {
		to, kind, payload := packet(source(e.Address), e)
		at := &unix.SockaddrLinklayer{Ifindex: int(request.Uint32()), Protocol: networkOrder(kind), Halen: 6}
		copy(at.Addr[:], to[:])
		errs = append(errs, unix.Sendto(s.fd, payload, 0, at))
	}
	return errors.Join(errs...)
}

func networkOrder(kind uint16) uint16 {
	return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, kind))
}
