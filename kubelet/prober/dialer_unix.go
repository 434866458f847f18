//go:build unix

package prober

import (
	"net"
	"syscall"
)

// newDialer makes connections that linger for a second after they are closed, instead of the
// minute that is usual: many probes would otherwise use up a host's ports.
func newDialer() *net.Dialer {
	return &net.Dialer{Control: func(_, _ string, conn syscall.RawConn) error {
		return conn.Control(func(fd uintptr) {
			// A connection that cannot be told so works all the same.
			_ = syscall.SetsockoptLinger(int(fd), syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{Onoff: 1, Linger: 1})
		})
	}}
}
