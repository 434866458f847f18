//go:build !unix

package plugins

import "os/exec"

// inGroup does nothing where there are no process groups: only the command itself is killed.
func inGroup(*exec.Cmd) {}
