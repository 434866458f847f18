package pki_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/internal/fakeroot"
	"github.com/keelson-dev/keelson/pki"
)

func TestMain(m *testing.M) { fakeroot.Main(m) }

// TestFullDisk: what cannot be stored is not handed out, and once it can be everything goes on.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "nr_inodes=100"); errors.Is(err, unix.EPERM) && os.Getenv("CI") != "true" {
		t.Skip("the kernel lets nobody but root mount")
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	room := func(files int) { // in all, with the directory
		if err := unix.Mount("none", dir, "tmpfs", unix.MS_REMOUNT, fmt.Sprintf("nr_inodes=%d", files)); err != nil {
			t.Fatal(err)
		}
	}
	for _, more := range []int{0, 1} { // neither fits, the key does
		room(1 + more)
		if _, err := pki.Open(dir, "kubernetes"); !errors.Is(err, unix.ENOSPC) {
			t.Fatalf("an authority that is not stored: %v", err)
		}
	}
	room(5)
	a := open(t, dir)
	keep(t, a, pki.Subject{Name: "x"})
	for more, name := range []string{"y", "z"} {
		if err := errors.Join(os.Remove(filepath.Join(dir, "x.crt")), os.Remove(filepath.Join(dir, "x.key"))); err != nil {
			t.Fatal(err)
		}
		room(3 + more)
		if _, err := a.Keep("x", pki.Subject{Name: name}, year); !errors.Is(err, unix.ENOSPC) {
			t.Errorf("a pair that is not stored: %v", err)
		}
		room(5)
		if c := leaf(t, keep(t, open(t, dir), pki.Subject{Name: name}), nil); c.Subject.CommonName != name {
			t.Errorf("it is for %s", c.Subject.CommonName)
		}
	}
}
