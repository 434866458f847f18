package disk_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/internal/fakeroot"
	"github.com/keelson-dev/keelson/kubelet/volume/internal/disk"
)

// deep makes a tree deeper than maxDepth.
func deep(t *testing.T) string {
	t.Helper()
	tree := filepath.Join(t.TempDir(), "tree")
	write(t, filepath.Join(tree, strings.Repeat("d/", 70), "file"))
	return tree
}

// TestDeepTreeThatStays: a directory that cannot be moved up is an error, and its contents stay.
func TestDeepTreeThatStays(t *testing.T) {
	for name, test := range map[string]struct {
		before func(t *testing.T, tree, path string) error // the move
		want   error
		op     string
	}{
		"the step fails": {func(*testing.T, string, string) error { return errStep }, errStep, ""},
		"the tree is not writable": {func(t *testing.T, tree, _ string) error {
			t.Cleanup(func() { _ = os.Chmod(tree, 0o755) })
			return os.Chmod(tree, 0o500)
		}, fs.ErrPermission, "rename"},
		"something is mounted in between": {func(t *testing.T, _, path string) error {
			if os.Getuid() != 0 {
				if os.Getenv("CI") == "true" {
					t.Fatal("needs root")
				}
				t.Skip("needs root")
			}
			t.Cleanup(func() { _ = unix.Unmount(path, unix.MNT_DETACH) })
			return unix.Mount("none", path, "tmpfs", 0, "")
		}, disk.ErrCrosses, ""},
	} {
		t.Run(name, func(t *testing.T) {
			tree := deep(t)
			d := disk.Disk{Step: func(op, path string) error {
				if op != "rename" {
					return nil
				}
				return test.before(t, tree, path)
			}}
			remove := func() {
				err := d.RemoveTree(tree)
				var failed *fs.PathError
				if !errors.Is(err, test.want) || test.op != "" && (!errors.As(err, &failed) || failed.Op != test.op) {
					t.Errorf("got %v", err)
				}
			}
			if test.op == "" {
				remove()
			} else {
				fakeroot.Unprivileged(t, remove)
			}
			if _, err := os.Stat(filepath.Join(tree, strings.Repeat("d/", 60))); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestFilesAreClosed: removing trees leaks no file descriptors, whether it succeeds or not.
func TestFilesAreClosed(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // which would close them, too
	open := func() int {
		t.Helper()
		files, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(files)
	}
	dir := t.TempDir()
	before := open()
	for range 50 {
		write(t, filepath.Join(dir, "tree", "a", "b"))
		stubborn := disk.Disk{Step: func(_, path string) error {
			if filepath.Base(path) == "b" {
				return errStep
			}
			return nil
		}}
		if err := stubborn.RemoveTree(filepath.Join(dir, "tree")); !errors.Is(err, errStep) {
			t.Fatal(err)
		}
		if err := (disk.Disk{}).RemoveTree(filepath.Join(dir, "tree")); err != nil {
			t.Fatal(err)
		}
	}
	if after := open(); after > before+20 {
		t.Errorf("%d files are open, %d were", after, before)
	}
}
