// Package nodetools builds, installs and finds the programs for a node of real containers: containerd, its shim, ctr,
// runc and the reference CNI plugins, in versions pinned here, and the few Debian packages they need.
//
// Install builds them from source with the go command, which takes minutes and the network, but only milliseconds if
// everything is current. Find never builds. Supported says why containers cannot run here, so that a caller may fall
// back to simulated ones.
//
// Several processes may call Install at once: one builds, the others wait for it. The program install below calls it.
package nodetools

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrUnsupported is wrapped by Supported's error: real containers cannot run on this host.
	ErrUnsupported = errors.New("real containers cannot run here")
	// ErrMissing is wrapped when tools or the packages they need are missing.
	ErrMissing = errors.New("tools of a node are missing")
)

// MissingError says what a node lacks and what to do about it. It is ErrMissing.
type MissingError struct {
	What []string // the missing things
	Next string   // what to do
}

// Error names what is missing and the next step.
func (e *MissingError) Error() string {
	return fmt.Sprintf("%v: %s; %s", ErrMissing, strings.Join(e.What, ", "), e.Next)
}

// Is makes errors.Is(err, ErrMissing) true.
func (e *MissingError) Is(target error) bool { return target == ErrMissing }

// Tools are the absolute paths of the programs.
type Tools struct {
	Containerd, Shim, Ctr, Runc string // the programs
	// CNI is the directory of the CNI plugins.
	CNI string
	// Images is a directory for archives of images that are built once for all tests and demonstrations; it need not
	// exist.
	Images string
}

// At returns the tools in a directory (Options.Dir), installed or not.
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
