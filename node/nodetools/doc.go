// Package nodetools builds, installs and finds what a node of real containers runs: containerd, its shim,
// ctr, runc and the reference CNI plugins, in the versions that are pinned here, and the few Debian packages
// behind them.
//
// Install builds them from source with the go command, which takes minutes and the network, and is done in a few
// milliseconds when everything is there and current. Find never builds. Supported tells why containers cannot run
// here, so that a caller may fall back to simulated ones.
//
// Several processes may install at once: one builds, the others wait for it.
package nodetools

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrUnsupported is wrapped by what Supported answers: real containers cannot run on this host.
	ErrUnsupported = errors.New("real containers cannot run here")
	// ErrMissing is wrapped when tools or the packages they need are not there.
	ErrMissing = errors.New("tools of a node are missing")
)

// MissingError says what a node lacks and what to do about it. It is ErrMissing.
type MissingError struct {
	What []string
	Next string
}

// Error names what is missing and the next step.
func (e *MissingError) Error() string {
	return fmt.Sprintf("%v: %s; %s", ErrMissing, strings.Join(e.What, ", "), e.Next)
}

// Is tells that this is ErrMissing.
func (e *MissingError) Is(target error) bool { return target == ErrMissing }

// Tools are the absolute paths of what is installed.
type Tools struct {
	Containerd, Shim, Ctr, Runc string
	// CNI is the directory of the CNI plugins.
	CNI string
	// Images is a directory for archives of images that are made once for all tests and demonstrations; it need
	// not exist.
	Images string
}

// At are the tools in a directory (Options.Dir), installed or not.
func At(dir string) Tools {
	return Tools{
		Containerd: dir + "/containerd",
		Shim:       dir + "/containerd-shim-runc-v2",
		Ctr:        dir + "/ctr",
		Runc:       dir + "/runc",
		CNI:        dir + "/cni",
		Images:     dir + "/images",
	}
}

// files are all programs of the tools.
func (t Tools) files() []string {
	all := []string{t.Containerd, t.Shim, t.Ctr, t.Runc}
	for _, name := range plugins() {
		all = append(all, t.CNI+"/"+name)
	}
	return all
}
