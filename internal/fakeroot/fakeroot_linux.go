package fakeroot

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// Main runs the tests of a package and exits, as its TestMain has to. It needs no flags to be parsed.
func Main(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	fuzzes := slices.ContainsFunc(os.Args, func(a string) bool { return strings.Contains(a, "-test.fuzz") })
	if os.Getuid() == 0 || fuzzes { // those who fuzz have files open that another process would not have
		return m.Run()
	}
	self, err := os.Executable()
	if err != nil {
		return m.Run()
	}
	cmd := exec.Command(self, os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	if err := cmd.Start(); err != nil { // the kernel does not let everybody
		return m.Run()
	}
	err = cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return max(exit.ExitCode(), 1)
	}
	if err != nil {
		return 1
	}
	return 0
}

// CanChown says whether this process can give files of its own to others.
func CanChown(t testing.TB) bool {
	t.Helper()
	dir := t.TempDir()
	return os.Chown(dir, 4711, 4711) == nil
}
