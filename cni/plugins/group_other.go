//go:build !unix

package plugins

import "os/exec"

// runInGroup runs the command, and where there are no process groups only itself is killed when
// its context ends.
func runInGroup(cmd *exec.Cmd) error { return cmd.Run() }
