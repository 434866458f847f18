package volume_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/keelson-dev/keelson/kubelet/volume"
)

// FuzzSubPath requests any path in a volume full of links: the result is always in the volume.
func FuzzSubPath(f *testing.F) {
	for _, p := range []string{
		"a", "a/b", "in/b", "out", "out/secret", "a/../a", "loop", "up/secret", "deep/out", "deep/up/root/a", "/a", ".", "a//b", "new/x", "in/new", "..", "proc/self/root", "abs/a", "\x00", "dev",
	} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, sub string) {
		needMounts(t)
		v, dir := node(t, nil, volume.Options{Logger: quiet()})
		host := filepath.Join(dir, "host")
		root := filepath.Join(host, "root")
		write(t, "secret", host, "secret")
		write(t, "b", root, "a/b")
		for link, to := range map[string]string{
			"in": "a", "out": "..", "loop": "loop", "up": "../root/..", "deep": "a", "proc": "/proc", "abs": root, "a/out": "../../..", "a/up": "../..", "dev": "/dev",
		} {
			if err := os.Symlink(to, filepath.Join(root, link)); err != nil {
				t.Fatal(err)
			}
		}
		p := subPathPod(hostPathVolume("h", root), sub)
		list, err := v.Mounts(t.Context(), request(p))
		if err == nil {
			if got := inode(t, list[0].HostPath); !inodes(t, root)[got] {
				t.Errorf("%q shows what is not in the volume", sub)
			}
		}
		if entries, _ := os.ReadDir(host); len(entries) != 2 {
			t.Errorf("%q made something outside of the volume: %v", sub, entries)
		}
		if err := v.Release(t.Context(), p.UID); err != nil {
			t.Error(err)
		}
		if read(t, host, "secret") != "secret" || read(t, root, "a/b") != "b" {
			t.Error("data of the host is gone")
		}
	})
}

type file struct{ dev, ino uint64 }

func inode(t *testing.T, path string) file {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	st := info.Sys().(*syscall.Stat_t)
	return file{st.Dev, st.Ino}
}

func inodes(t *testing.T, root string) map[file]bool {
	t.Helper()
	all := map[file]bool{}
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type()&os.ModeSymlink == 0 {
			all[inode(t, path)] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
