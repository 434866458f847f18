package disk_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/kubelet/volume/internal/disk"
)

func write(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("data"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func gone(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there: %v", path, err)
	}
}

func there(t *testing.T, path string) {
	t.Helper()
	if data, err := os.ReadFile(path); err != nil || string(data) != "data" {
		t.Errorf("%s: %q, %v", path, data, err)
	}
}

func TestRemoveTree(t *testing.T) {
	host := filepath.Join(t.TempDir(), "host")
	write(t, filepath.Join(host, "dir", "file"))
	tree := filepath.Join(t.TempDir(), "tree")
	for i := range 1000 {
		write(t, filepath.Join(tree, fmt.Sprint(i%7), fmt.Sprint(i)))
	}
	for _, link := range []struct{ to, at string }{{host, "link"}, {host + "/dir", "0/link"}, {"/nowhere", "dangling"}, {"..", "up"}} {
		if err := os.Symlink(link.to, filepath.Join(tree, link.at)); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(filepath.Join(tree, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	var d disk.Disk
	for range 2 { // the second time there is nothing
		if err := d.RemoveTree(tree); err != nil {
			t.Fatal(err)
		}
		gone(t, tree)
	}
	if err := d.RemoveTree(filepath.Join(tree, "not", "there")); err != nil {
		t.Error(err)
	}
	there(t, filepath.Join(host, "dir", "file"))
	link := filepath.Join(filepath.Dir(tree), "link")
	if err := os.Symlink(host, link); err != nil {
		t.Fatal(err)
	}
	if err := d.RemoveTree(link); err != nil {
		t.Error(err)
	}
	gone(t, link)
	there(t, filepath.Join(host, "dir", "file"))
}

// TestRemoveDeepTree removes a tree deeper than the process's limit of open files.
func TestRemoveDeepTree(t *testing.T) {
	const depth = 2000
	tree := filepath.Join(t.TempDir(), "tree")
	if err := os.Mkdir(tree, 0o755); err != nil {
		t.Fatal(err)
	}
	at, err := os.Open(tree)
	if err != nil {
		t.Fatal(err)
	}
	for range depth {
		if err := unix.Mkdirat(int(at.Fd()), "d", 0o755); err != nil {
			t.Fatal(err)
		}
		fd, err := unix.Openat(int(at.Fd()), "d", unix.O_DIRECTORY, 0)
		if err != nil {
			t.Fatal(err)
		}
		at.Close()
		at = os.NewFile(uintptr(fd), "d")
	}
	at.Close()
	most := 0
	d := disk.Disk{Step: func(string, string) error {
		if most%1000 == 0 {
			if open, err := os.ReadDir("/proc/self/fd"); err == nil && len(open) > 200 {
				t.Errorf("%d files are open", len(open))
			}
		}
		most++
		return nil
	}}
	if err := d.RemoveTree(tree); err != nil {
		t.Fatal(err)
	}
	gone(t, tree)
}

func TestRemoveTreeStopsAtMounts(t *testing.T) {
	if os.Getuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("needs root")
		}
		t.Skip("needs root")
	}
	host := t.TempDir()
	write(t, filepath.Join(host, "dir", "file"))
	write(t, filepath.Join(host, "file"))
	for name, source := range map[string]string{"dir": "", "file": "file", "below": "dir"} {
		t.Run(name, func(t *testing.T) {
			tree := filepath.Join(t.TempDir(), "tree")
			target := filepath.Join(tree, "a", "b")
			if name == "file" {
				write(t, target)
			} else if err := os.MkdirAll(target, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := unix.Mount(filepath.Join(host, source), target, "", unix.MS_BIND, ""); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = unix.Unmount(target, unix.MNT_DETACH) })
			var d disk.Disk
			if err := d.RemoveTree(tree); !errors.Is(err, disk.ErrCrosses) || !strings.Contains(err.Error(), target) {
				t.Errorf("got %v", err)
			}
			if err := d.RemoveTree(target); !errors.Is(err, disk.ErrCrosses) {
				t.Errorf("the mount itself: %v", err)
			}
			there(t, filepath.Join(host, "dir", "file"))
			there(t, filepath.Join(host, "file"))
			if err := unix.Unmount(target, 0); err != nil {
				t.Fatal(err)
			}
			if err := d.RemoveTree(tree); err != nil {
				t.Error(err)
			}
			gone(t, tree)
			there(t, filepath.Join(host, "dir", "file"))
		})
	}
}

func TestSteps(t *testing.T) {
	dead := errors.New("dead")
	for op, change := range map[string]func(d disk.Disk, dir string) error{
		"mkdir":   func(d disk.Disk, dir string) error { return d.MkdirAll(dir+"/x/y", 0o750) },
		"write":   func(d disk.Disk, dir string) error { return d.WriteFile(dir+"/x", nil, 0o640) },
		"symlink": func(d disk.Disk, dir string) error { return d.Symlink("a", dir+"/x") },
		"remove":  func(d disk.Disk, dir string) error { return d.Remove(dir + "/file") },
		"unlink":  func(d disk.Disk, dir string) error { return d.RemoveTree(dir + "/file") },
		"rename":  func(d disk.Disk, dir string) error { return d.Rename(dir+"/file", dir+"/x") },
		"chmod":   func(d disk.Disk, dir string) error { return d.Chmod(dir+"/file", 0o111) },
		"chown":   func(d disk.Disk, dir string) error { return d.Lchown(dir+"/file", -1, -1) },
	} {
		dir := t.TempDir()
		write(t, dir+"/file")
		told := ""
		err := change(disk.Disk{Step: func(op, _ string) error { told = op; return dead }}, dir)
		if !errors.Is(err, dead) || told != op {
			t.Errorf("%s: %v, told of %q", op, err, told)
		}
		if entries, _ := os.ReadDir(dir); len(entries) != 1 {
			t.Errorf("%s was done: %v", op, entries)
		}
		if err := change(disk.Disk{}, dir); err != nil {
			t.Errorf("%s: %v", op, err)
		}
	}
}

// TestModes: the process's umask does not matter.
func TestModes(t *testing.T) {
	old := unix.Umask(0o077)
	defer unix.Umask(old)
	dir := t.TempDir()
	var d disk.Disk
	if err := d.MkdirAll(dir+"/a/b", 0o777); err != nil {
		t.Fatal(err)
	}
	if err := d.WriteFile(dir+"/a/f", nil, 0o666|os.ModeSetgid); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]os.FileMode{"/a": 0o777 | os.ModeDir, "/a/b": 0o777 | os.ModeDir, "/a/f": 0o666 | os.ModeSetgid} {
		if info, err := os.Stat(dir + path); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	if err := d.MkdirAll(dir+"/a/f", 0o755); err == nil {
		t.Error("a file became a directory")
	}
}
