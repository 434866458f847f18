// Package machine reads what the machine that a kubelet runs on has (Read), and what of it is used
// (Reader.Usage, Disk). Everything comes from the files of the kernel and of the distribution, below
// a root that tests replace.
//
// What cannot be read is left at its zero value unless without it the rest means nothing: memory and
// CPUs. Functions and methods may be called from many goroutines.
package machine

import "errors"

// ErrUnreadable: what the machine has could not be found out.
var ErrUnreadable = errors.New("the machine cannot be read")
