package containerd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/keelson-dev/keelson/internal/pause"
)

// side is how many containers or networks are removed in parallel.
const side = 4

// Destroy removes the daemon and everything it created: containers and their processes, shims, network attachments with
// their addresses, network namespaces, mounts, cgroups and files. It needs no working daemon, touches only what belongs
// to this directory, and may be called again, also after a failure; the error then says what is left.
func (d *Daemon) Destroy(ctx context.Context) error {
	unlock, err := d.exclude(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	sandboxes := d.sandboxes(ctx)
	plugins, err := d.plugins()
	if err != nil {
		return err
	}
	for _, p := range plugins {
		sandboxes = append(sandboxes, p.sandbox)
	}
	if err := endAll(ctx, d.family); err != nil {
		return err
	}
	err = errors.Join(
		endAll(ctx, d.shims), // first: runc forgets ended containers at once, but takes 0.1 s to end one
		d.deleteContainers(ctx),
		d.detachNetworks(ctx, sandboxes),
		unmountBelow(d.paths.run, d.paths.root()),
		d.removeCgroups(ctx),
	)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrLeft, err)
	}
	left, err := d.Leftovers(ctx)
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return fmt.Errorf("%w: %s", ErrLeft, strings.Join(left, "; "))
	}
	return d.removeFiles()
}

// Leftovers lists everything outside its directory that the daemon created: processes, mounts including pinned network
// namespaces, cgroups below CgroupRoot, network attachments. It is empty after Destroy.
func (d *Daemon) Leftovers(context.Context) ([]string, error) {
	var left []string
	for what, find := range map[string]func() ([]process, error){"process": d.shims, "containerd": d.family} {
		all, err := find()
		if err != nil {
			return nil, err
		}
		for _, p := range all {
			line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID)) // it may have ended
			left = append(left, fmt.Sprintf("%s %d (%s)", what, p.PID, bytes.ReplaceAll(bytes.TrimRight(line, "\x00"), []byte{0}, []byte(" "))))
		}
	}
	mounts, err := mountsBelow(d.paths.run, d.paths.root())
	if err != nil {
		return nil, err
	}
	for _, m := range mounts {
		left = append(left, "mount "+m)
	}
	attachments, err := d.attachments()
	if err != nil {
		return nil, err
	}
	for _, a := range attachments {
		left = append(left, fmt.Sprintf("attachment of %s to network %s", a.ContainerID, a.Network))
	}
	for _, dir := range d.cgroups() {
		left = append(left, "cgroup "+dir)
	}
	return left, nil
}

// daemons are the processes with our configuration: at most one, unless a record was lost.
func (d *Daemon) daemons() ([]process, error) { return relatives(false, "--config", d.paths.config()) }

// shims are those of this daemon, with all processes of their containers.
func (d *Daemon) shims() ([]process, error) { return relatives(true, "-address", d.Socket()) }

// deleteContainers makes runc delete every container, running or not.
func (d *Daemon) deleteContainers(ctx context.Context) error {
	dirs, err := filepath.Glob(filepath.Join(d.paths.runc(), "*", "*"))
	if err != nil {
		return fmt.Errorf("list containers: %w", err)
	}
	return each(dirs, func(dir string) error {
		remove := []string{"--root", filepath.Dir(dir), "delete", filepath.Base(dir)}
		if exec.CommandContext(ctx, d.tools.Runc, remove...).Run() == nil {
			return nil
		}
		// Its shim was lost, and it runs or is partly there.
		out, err := exec.CommandContext(ctx, d.tools.Runc, append(remove, "--force")...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("delete container %s: %w: %s", filepath.Base(dir), err, bytes.TrimSpace(out))
		}
		return nil
	})
}

// cgroups are the directories of CgroupRoot, one for each hierarchy of version 1, or one.
func (d *Daemon) cgroups() []string {
	if d.options.CgroupRoot == "" {
		return nil
	}
	tops := []string{"/sys/fs/cgroup"}
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err != nil { // version 1
		tops, _ = filepath.Glob("/sys/fs/cgroup/*") // the pattern is good
	}
	var found []string
	for _, top := range tops {
		dir := filepath.Join(top, d.options.CgroupRoot)
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			found = append(found, dir)
		}
	}
	return found
}

// removeCgroups kills what is below CgroupRoot and removes the groups.
func (d *Daemon) removeCgroups(ctx context.Context) error {
	var failed []error
	for _, top := range d.cgroups() {
		for tries := 0; ; tries++ {
			err := removeCgroup(top)
			if err == nil || ctx.Err() != nil || tries == 100 {
				failed = append(failed, err)
				break
			}
			_ = pause.For(ctx, 10*time.Millisecond) // killed processes leave their groups a moment later; the loop checks ctx
		}
	}
	return errors.Join(failed...)
}

func removeCgroup(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list cgroup: %w", err)
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeCgroup(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	procs, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs")) // it may be gone by now
	for pid := range strings.FieldsSeq(string(procs)) {
		var n int
		if _, err := fmt.Sscan(pid, &n); err == nil && n > 1 {
			_ = syscall.Kill(n, syscall.SIGKILL) // or it has ended by itself
		}
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove cgroup: %w", err)
	}
	return nil
}

// removeFiles removes the daemon's files, and its directory if it is then empty.
func (d *Daemon) removeFiles() error {
	for _, path := range []string{d.paths.run, d.paths.root(), d.paths.registries(), d.paths.config(), d.paths.log(), d.paths.oldLog(), d.paths.record(), d.paths.sandbox()} {
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("%w: %w", ErrLeft, err)
		}
	}
	_ = os.Remove(d.paths.lock())
	_ = os.Remove(filepath.Join(d.paths.dir, "net.d")) // unless it contains a foreign configuration
	_ = os.Remove(d.paths.dir)                         // likewise
	return nil
}

// each applies the same function to all, several in parallel, and joins the errors.
func each[T any](all []T, do func(T) error) error {
	var wg sync.WaitGroup
	turns := make(chan struct{}, side)
	failed := make([]error, len(all))
	for i, one := range all {
		turns <- struct{}{}
		wg.Go(func() {
			defer func() { <-turns }()
			failed[i] = do(one)
		})
	}
	wg.Wait()
	return errors.Join(failed...)
}
