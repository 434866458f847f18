// Package containerd runs one containerd for one node, in a directory of its own with its configuration, content and
// log. What must not survive a reboot is in a directory below /run, whose short name is derived from that of the first,
// because the paths of sockets must be short. Several daemons on a host are independent of each other.
//
// The daemon survives the process that started it, and its containers survive the daemon. A later Daemon of the same
// directory finds it running. Stop ends the daemon and leaves the containers; Destroy leaves nothing.
//
// Package containerdtest starts one for a test.
//
// # Errors
//
// ErrNotRunning says that the daemon is needed but does not answer. An error of Start ends with the last lines of the
// daemon's log.
//
// # Concurrency
//
// All methods may be called from several goroutines and processes; those that start or stop something exclude each
// other by a lock on the directory.
package containerd

import "errors"

var (
	// ErrNotRunning is wrapped when the daemon is needed but does not answer.
	ErrNotRunning = errors.New("containerd is not running")
	// ErrConfig is wrapped by New's errors about bad options.
	ErrConfig = errors.New("bad configuration of containerd")
	errEnded  = errors.New("it ended at once")
	// ErrLeft is wrapped by Destroy when something of the daemon still exists.
	ErrLeft = errors.New("the node was not removed completely")
)
