//go:build unix

package prober

import (
	"net"
	"syscall"
)

// newDialer makes connections that linger for one second after they are closed instead of the usual minute: otherwise
// many probes would use up the host's ports.
func newDialer() *net.Dialer {
	return &net.Dialer{Control: func(_, _ string, conn syscall.RawConn) error {
		return conn.Control(func(fd uintptr) {
			// A connection works without the option too.
			_ = syscall.SetsockoptLinger(int(fd), syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{Onoff: 1, Linger: 1})
		})
	}}
}
