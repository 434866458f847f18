package containerd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// process identifies a process of this host, also by its start time, since numbers are reused.
type process struct {
	PID   int
	Start string // in ticks since the boot
	Boot  string // which boot
}

func identify(pid int) (process, error) {
	start, _, err := stat(pid)
	if err != nil {
		return process{}, err
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return process{}, fmt.Errorf("read which boot this is: %w", err)
	}
	return process{pid, start, strings.TrimSpace(string(boot))}, nil
}

// stat reads when a process started and whether it is a zombie. A process whose first thread alone has ended looks like
// a zombie, but its other threads keep their files open and mounts busy.
func stat(pid int) (start string, zombie bool, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", false, fmt.Errorf("look at process %d: %w", pid, err)
	}
	// The command in parentheses may contain anything.
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(fields) < 20 {
		return "", false, fmt.Errorf("look at process %d: %q is no line of stat", pid, b)
	}
	return fields[19], fields[0] == "X" || fields[0] == "Z" && (fields[17] == "1" || fields[17] == "0"), nil
}

// alive reports whether the process still runs. A zombie does not, and is reaped if it is our child.
func (p process) alive() bool {
	if p.PID <= 0 {
		return false
	}
	now, err := identify(p.PID)
	if err != nil || now != p {
		return false
	}
	if _, zombie, err := stat(p.PID); err == nil && !zombie {
		return true
	}
	_, _ = syscall.Wait4(p.PID, nil, syscall.WNOHANG, nil) // ECHILD: not our child
	return false
}

// otherBoot reports whether the process was started before the last boot.
func (p process) otherBoot() bool {
	self, err := identify(os.Getpid())
	return err == nil && p.Boot != "" && p.Boot != self.Boot
}

func (p process) signal(s syscall.Signal) error {
	if !p.alive() {
		return nil
	}
	if err := syscall.Kill(p.PID, s); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signal process %d: %w", p.PID, err)
	}
	return nil
}

func (p process) kill() error      { return p.signal(syscall.SIGKILL) }
func (p process) terminate() error { return p.signal(syscall.SIGTERM) }

// wait returns nil when the process has ended, and the context's error when that ends first.
func (p process) wait(ctx context.Context) error {
	if p.PID <= 0 {
		return nil
	}
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err != nil {
		if errors.Is(err, unix.ESRCH) {
			return nil
		}
		return fmt.Errorf("watch process %d: %w", p.PID, err)
	}
	defer func() { _ = unix.Close(fd) }() // only watched
	for p.alive() {
		// In slices, because a poll does not know contexts.
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 50)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("watch process %d: %w", p.PID, err)
		}
		if err := ctx.Err(); err != nil && p.alive() {
			return fmt.Errorf("wait for the end of process %d: %w", p.PID, err)
		}
	}
	return nil
}

// launch starts the daemon so that it survives this process and its terminal.
func (d *Daemon) launch() (process, error) {
	const most = 16 << 20 // it cannot be rotated while the daemon runs
	if info, err := os.Stat(d.paths.log()); err == nil && info.Size() > most {
		if err := os.Rename(d.paths.log(), d.paths.oldLog()); err != nil {
			return process{}, fmt.Errorf("put containerd's old log aside: %w", err)
		}
	}
	log, err := os.OpenFile(d.paths.log(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return process{}, fmt.Errorf("open containerd's log: %w", err)
	}
	defer func() { _ = log.Close() }() // the daemon has it
	cmd := exec.Command(d.tools.Containerd, "--config", d.paths.config())
	cmd.Dir = d.paths.dir
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = []string{"PATH=" + filepath.Dir(d.tools.Shim) + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "TMPDIR=/tmp"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return process{}, fmt.Errorf("start containerd: %w", err)
	}
	pid := cmd.Process.Pid
	p, err := identify(pid)
	if err != nil {
		return process{}, errors.Join(err, cmd.Process.Kill(), cmd.Wait())
	}
	// No wait here: alive reaps it when it has ended.
	if err := cmd.Process.Release(); err != nil {
		return process{}, fmt.Errorf("start containerd: %w", err)
	}
	return p, nil
}

// mayLowerOOM reports whether OOM scores below our own may be set.
func mayLowerOOM() bool {
	var data [2]unix.CapUserData
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if err := unix.Capget(&header, &data[0]); err != nil {
		return false
	}
	return data[0].Effective&(1<<unix.CAP_SYS_RESOURCE) != 0
}

// relatives returns the processes whose command line contains the arguments in sequence, optionally with all their
// descendants.
func relatives(descendants bool, args ...string) ([]process, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	needle := []byte("\x00" + strings.Join(args, "\x00") + "\x00")
	parents := map[int]int{}
	var found []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		line, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err != nil {
			continue // it has ended
		}
		if b, err := os.ReadFile(filepath.Join("/proc", e.Name(), "stat")); err == nil {
			if f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:])); len(f) > 1 {
				parents[pid], _ = strconv.Atoi(f[1]) // a number
			}
		}
		if bytes.Contains(line, needle) {
			found = append(found, pid)
		}
	}
	if !descendants {
		parents = nil
	}
	return closure(found, parents), nil
}

// closure adds the descendants and drops ended processes.
func closure(found []int, parents map[int]int) []process {
	in := map[int]bool{}
	for _, pid := range found {
		in[pid] = true
	}
	for grown := true; grown; {
		grown = false
		for pid, parent := range parents {
			if in[parent] && !in[pid] {
				in[pid], grown = true, true
			}
		}
	}
	var all []process
	for pid := range in {
		if p, err := identify(pid); err == nil && p.alive() {
			all = append(all, p)
		}
	}
	return all
}

// endAll kills the processes that find returns until it returns none.
func endAll(ctx context.Context, find func() ([]process, error)) error {
	for {
		all, err := find()
		if err != nil || len(all) == 0 {
			return err
		}
		for _, p := range all {
			if err := p.kill(); err != nil {
				return err
			}
		}
		for _, p := range all {
			one, cancel := context.WithTimeout(ctx, 5*time.Second)
			err := p.wait(one)
			cancel()
			if err != nil {
				return err
			}
		}
	}
}
