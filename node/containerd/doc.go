// Package containerd runs one containerd for one node, in a directory of its own: configuration, content and log are
// there, and what must not survive a reboot is in a directory below /run that the first one's name decides, because
// paths of sockets are short. Several daemons on a host do not know of each other.
//
// The daemon outlives the process that started it, and its containers outlive the daemon. Whoever makes a Daemon of
// the same directory later finds it running. Stop ends the daemon and leaves the containers; Destroy leaves nothing.
//
// # Errors
//
// ErrNotRunning tells that the daemon is needed and does not answer. An error of Start ends with the last lines of
// the daemon's log.
//
// # Concurrency
//
// All methods may be called from several goroutines and processes; those that change what runs exclude each other by
// a lock on the directory.
package containerd

import "errors"

var (
	// ErrNotRunning is wrapped when the daemon is needed and does not answer.
	ErrNotRunning = errors.New("containerd is not running")
	// ErrConfig is wrapped by what New says about bad options.
	ErrConfig = errors.New("bad configuration of containerd")
	errEnded  = errors.New("it ended at once")
	// ErrLeft is wrapped by Destroy when something of the daemon is still there.
	ErrLeft = errors.New("something of the node is left")
)
