package machine_test

import (
	"math"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/kubelet/machine"
)

func TestDisk(t *testing.T) {
	dir := t.TempDir()
	got, err := machine.Disk(dir)
	if err != nil {
		t.Fatal(err)
	}
	var fs unix.Statfs_t
	var file unix.Stat_t
	if err := unix.Statfs(dir, &fs); err != nil {
		t.Fatal(err)
	}
	if err := unix.Stat(dir, &file); err != nil {
		t.Fatal(err)
	}
	if got.Capacity != fs.Blocks*uint64(fs.Bsize) || got.Inodes != fs.Files || got.ID != file.Dev {
		t.Errorf("%+v", got)
	}
	// Other processes write at the same time, but the values must still be consistent.
	if got.InodesUsed+got.InodesFree != got.Inodes {
		t.Errorf("%d inodes used, %d free, of %d", got.InodesUsed, got.InodesFree, got.Inodes)
	}
	if math.Abs(float64(got.Used)-float64((fs.Blocks-fs.Bfree)*uint64(fs.Bsize))) > float64(got.Capacity)/2 {
		t.Errorf("%d of %d used", got.Used, got.Capacity)
	}
	if _, err := machine.Disk(filepath.Join(dir, "missing")); err == nil {
		t.Errorf("a missing directory: %v", err)
	}
}
