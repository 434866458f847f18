package plugins

import (
	"os/exec"
	"runtime"
	"syscall"
)

// runInGroup runs the command in a process group of its own, and kills the group when the command's context ends:
// plugins start others, for addresses for example. The command is also killed when this process dies, so that it does
// not race with a successor.
func runInGroup(cmd *exec.Cmd) error {
	// The kernel takes the end of the thread that started the command for that of the process.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd.Run()
}
