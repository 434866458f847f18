//go:build !linux

// Other systems do not end a child with its parent, so a killed test leaves its members behind.

package etcdtest

import "syscall"

func attributes() *syscall.SysProcAttr { return nil }
