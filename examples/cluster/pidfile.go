package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/keelson-dev/keelson/node/filelock"
)

// errRuns means that a cluster is running on the data directory.
var errRuns = errors.New("another cluster runs on it: end it first, or choose another directory")

// hold ensures that only one process runs the nodes of a data directory, and records its identity for --down. The lock
// is released at the latest when the process ends.
func hold(ctx context.Context, dir string) (release func(), err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	unlock, err := filelock.Take(ctx, filepath.Join(dir, "cluster.lock"), func() { cancel(errRuns) })
	if err != nil {
		if errors.Is(context.Cause(ctx), errRuns) {
			err = errRuns
		}
		return nil, fmt.Errorf("--data-dir %s: %w", dir, err)
	}
	self := identity(os.Getpid())
	if err := os.WriteFile(filepath.Join(dir, "cluster.pid"), []byte(self), 0o600); err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}

// identity is a process's number and start time, which distinguishes it from a later process with the same number;
// empty if there is no such process.
func identity(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	// The name in parentheses may contain anything; the start time is the 20th field after it.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 20 {
		return ""
	}
	return fmt.Sprintf("%d %s", pid, fields[19])
}

// end stops the cluster that runs on the data directory, if there is one, and waits for it.
func end(ctx context.Context, dir string, say func(format string, args ...any)) (release func(), err error) {
	word, err := os.ReadFile(filepath.Join(dir, "cluster.pid"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var pid int
	if _, err := fmt.Sscan(string(word), &pid); err == nil && identity(pid) == string(word) {
		say("ending the cluster, process %d", pid)
		if err := syscall.Kill(pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
			return nil, fmt.Errorf("end process %d: %w", pid, err)
		}
	}
	return filelock.Take(ctx, filepath.Join(dir, "cluster.lock"), nil)
}
