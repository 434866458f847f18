//go:build !unix

// The linger option is only an optimization, and is set differently on other systems.

package prober

import "net"

func newDialer() *net.Dialer { return &net.Dialer{} }
