// Package machine reads the capacity of the machine that a kubelet runs on (Reader.Read) and its current use
// (Reader.Usage, Disk). Everything comes from files of the kernel and the distribution, below a root that tests
// replace.
//
// Values that cannot be read are left zero, except those without which the rest is meaningless: memory and CPUs.
// Functions and methods are safe for concurrent use.
package machine

import "errors"

// ErrUnreadable means that the machine could not be read.
var ErrUnreadable = errors.New("the machine cannot be read")
