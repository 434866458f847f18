//go:build unix

package plugins

import (
	"os/exec"
	"syscall"
)

// inGroup gives the command a process group of its own, and has all of it killed when the
// command's context ends: plugins start others, for addresses say.
func inGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
