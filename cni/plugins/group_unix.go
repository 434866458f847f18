//go:build unix && !linux

package plugins

import (
	"os/exec"
	"syscall"
)

// runInGroup runs the command in a process group of its own, and kills the group when the command's context ends:
// plugins start others, for addresses for example.
func runInGroup(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd.Run()
}
