package main

import (
	"os"
	"syscall"
)

// freely lets a socket have an address that the machine does not have yet.
func freely(_, _ string, c syscall.RawConn) error {
	var failed error
	err := c.Control(func(fd uintptr) {
		failed = os.NewSyscallError("setsockopt", syscall.SetsockoptInt(int(fd), syscall.IPPROTO_IP, syscall.IP_FREEBIND, 1))
	})
	if err != nil {
		return err
	}
	return failed
}
