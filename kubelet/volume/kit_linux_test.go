package volume_test

import (
	"os"
	"syscall"
	"testing"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

func mountsBelow(t testing.TB, dir string) []string {
	t.Helper()
	list, err := mountinfo.GetMounts(mountinfo.PrefixFilter(dir))
	if err != nil {
		t.Fatal(err)
	}
	var points []string
	for _, m := range list {
		points = append(points, m.Mountpoint)
	}
	return points
}

func detach(path string) { _ = unix.Unmount(path, unix.MNT_DETACH) }

func owner(t testing.TB, path string) (uid, gid int) {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	st := info.Sys().(*syscall.Stat_t)
	return int(st.Uid), int(st.Gid)
}

func makePipe(path string) error { return unix.Mkfifo(path, 0o600) }
