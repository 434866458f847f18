//go:build !unix

package plugins

import "os/exec"

// runInGroup runs the command. Without process groups, only the command itself is killed when its context ends.
func runInGroup(cmd *exec.Cmd) error { return cmd.Run() }
