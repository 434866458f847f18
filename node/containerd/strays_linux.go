package containerd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Strays returns what is left on the machine of sandboxes and containers that known does not report: their IDs, and the
// paths of unused pinned network namespaces. They are left when a call was abandoned, or the daemon was killed, at the
// wrong moment: then neither the daemon nor its client knows of them. They include what is just being created.
func (d *Daemon) Strays(known func(id string) bool) ([]string, error) {
	shims, err := relatives(false, "-address", d.Socket())
	if err != nil {
		return nil, err
	}
	ids := map[string]bool{}
	for _, p := range shims {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID)) // it may have ended
		_, after, _ := bytes.Cut(line, []byte("\x00-id\x00"))
		id, _, _ := bytes.Cut(after, []byte{0})
		ids[string(id)] = true
	}
	mounts, err := mountsBelow(d.paths.run)
	if err != nil {
		return nil, err
	}
	for _, path := range append(mounts, d.bundles()...) {
		for name := range strings.SplitSeq(strings.TrimPrefix(path, d.paths.run), "/") {
			ids[name] = true
		}
	}
	attachments, err := d.attachments()
	if err != nil {
		return nil, err
	}
	attached := map[string]bool{}
	for _, a := range attachments {
		ids[a.ContainerID], attached[a.NetNS] = true, true
	}
	maps.DeleteFunc(ids, func(id string, _ bool) bool { return !isID(id) || known(id) })
	list := slices.Sorted(maps.Keys(ids))
	return append(list, d.unusedNamespaces(attached)...), nil
}

// Tasks returns the IDs of the sandboxes and containers that have tasks, running or not.
func (d *Daemon) Tasks() (map[string]bool, error) {
	found, err := filepath.Glob(filepath.Join(d.paths.state(), "io.containerd.runtime.v2.task", "*", "*"))
	ids := map[string]bool{}
	for _, path := range found {
		ids[filepath.Base(path)] = true
	}
	return ids, err
}

// EndTasks ends all tasks of a sandbox with their shim, which the daemon then notices. It is for a sandbox that cannot
// be removed: if a start is abandoned at the wrong moment, the daemon no longer associates the task with its container,
// and refuses to remove the container because of it.
func (d *Daemon) EndTasks(ctx context.Context, sandbox string) error {
	if !isID(sandbox) {
		return fmt.Errorf("%q is not the ID of a sandbox", sandbox)
	}
	return endAll(ctx, func() ([]process, error) { return relatives(true, "-id", sandbox, "-address", d.Socket()) })
}

// bundles are the directories of running containers, and runc's state of them.
func (d *Daemon) bundles() []string {
	shim, _ := filepath.Glob(filepath.Join(d.paths.state(), "io.containerd.runtime.v2.task", "*", "*")) // the patterns are good
	runc, _ := filepath.Glob(filepath.Join(d.paths.runc(), "*", "*"))
	return append(shim, runc...)
}

// isID reports whether a name has the form of containerd's sandbox and container IDs.
func isID(name string) bool {
	return len(name) == 64 && strings.Trim(name, "0123456789abcdef") == ""
}

// unusedNamespaces returns pinned network namespaces without a process and without an attachment.
func (d *Daemon) unusedNamespaces(attached map[string]bool) []string {
	pinned, _ := filepath.Glob(filepath.Join(d.paths.state(), "io.containerd.grpc.v1.cri", "netns", "*"))
	pinned = slices.DeleteFunc(pinned, func(path string) bool { return attached[path] })
	if len(pinned) == 0 {
		return nil
	}
	used := map[uint64]bool{}
	processes, _ := filepath.Glob("/proc/[0-9]*/ns/net")
	for _, path := range processes {
		var s unix.Stat_t
		if unix.Stat(path, &s) == nil {
			used[s.Ino] = true
		}
	}
	return slices.DeleteFunc(pinned, func(path string) bool {
		var s unix.Stat_t
		return unix.Stat(path, &s) != nil || used[s.Ino]
	})
}

// Clear removes what is left of a stray returned by Strays: its processes, its network attachment, its mounts and
// runc's state.
func (d *Daemon) Clear(ctx context.Context, stray string) error {
	if filepath.IsAbs(stray) {
		return unpin(stray)
	}
	if !isID(stray) {
		return fmt.Errorf("%q is not the ID of a sandbox or container", stray)
	}
	if err := endAll(ctx, func() ([]process, error) { return relatives(true, "-id", stray, "-address", d.Socket()) }); err != nil {
		return err
	}
	failed := []error{d.forget(ctx, stray), d.disconnect(ctx, stray)}
	mounts, err := mountsBelow(d.paths.run)
	failed = append(failed, err)
	for _, m := range mounts {
		if strings.Contains(m+"/", "/"+stray+"/") {
			failed = append(failed, unmountBelow(m))
		}
	}
	for _, dir := range d.bundles() {
		if filepath.Base(dir) == stray {
			failed = append(failed, os.RemoveAll(dir))
		}
	}
	return errors.Join(failed...)
}

// forget deletes a container in runc.
func (d *Daemon) forget(ctx context.Context, id string) error {
	dirs, err := filepath.Glob(filepath.Join(d.paths.runc(), "*", id))
	for _, dir := range dirs {
		out, err := exec.CommandContext(ctx, d.tools.Runc, "--root", filepath.Dir(dir), "delete", "--force", id).CombinedOutput()
		if err != nil {
			return fmt.Errorf("delete container %s: %w: %s", id, err, bytes.TrimSpace(out))
		}
	}
	return err
}

// disconnect ends the plugins that work on a sandbox and removes its attachments.
func (d *Daemon) disconnect(ctx context.Context, id string) error {
	err := endAll(ctx, func() (all []process, err error) {
		plugins, err := d.plugins()
		for _, p := range plugins {
			if p.sandbox == id {
				all = append(all, p.process)
			}
		}
		return all, err
	})
	if err != nil {
		return err
	}
	attachments, err := d.attachments()
	failed := []error{err}
	for _, a := range attachments {
		if a.ContainerID == id {
			failed = append(failed, d.detach(ctx, a), unpin(a.NetNS))
		}
	}
	return errors.Join(failed...)
}

// unpin unpins a network namespace, which ends with its last process.
func unpin(path string) error {
	if err := unmountBelow(path); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("unpin network namespace: %w", err)
	}
	return nil
}
