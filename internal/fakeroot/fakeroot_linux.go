package fakeroot

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Main runs the tests of a package and exits, as its TestMain must. It does not require flags to be parsed.
func Main(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	fuzzes := slices.ContainsFunc(os.Args, func(a string) bool { return strings.Contains(a, "-test.fuzz") })
	if os.Getuid() == 0 || fuzzes { // fuzzing needs open files that another process would not have
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
	if err := cmd.Start(); err != nil { // the kernel may not permit it
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

// Unprivileged calls f subject to file permissions, even for root. Other goroutines that f starts keep root's rights.
func Unprivileged(t testing.TB, f func()) {
	t.Helper()
	runtime.LockOSThread() // rights are per thread
	defer runtime.UnlockOSThread()
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var all [2]unix.CapUserData // in two halves
	if err := unix.Capget(&header, &all[0]); err != nil {
		t.Fatal(err)
	}
	few := all
	few[0].Effective &^= 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_DAC_READ_SEARCH
	if err := unix.Capset(&header, &few[0]); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Capset(&header, &all[0]); err != nil {
			t.Error(err)
		}
	}()
	f()
}

// CanChown reports whether this process can give its files to other users.
func CanChown(t testing.TB) bool {
	t.Helper()
	dir := t.TempDir()
	return os.Chown(dir, 4711, 4711) == nil
}
