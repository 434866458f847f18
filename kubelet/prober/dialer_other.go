//go:build !unix

// Sockets are told to linger in another way elsewhere, and it is only thrift.

package prober

import "net"

func newDialer() *net.Dialer { return &net.Dialer{} }
