package fakeroot_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/keelson-dev/keelson/internal/fakeroot"
)

func TestMain(m *testing.M) { fakeroot.Main(m) }

// This test can mount under any user, if the kernel permits it.
func TestMounts(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("the kernel does not let this user have namespaces")
	}
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, ""); err != nil {
		t.Skipf("the kernel does not let this root mount: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Error(err)
	}
	if err := syscall.Unmount(dir, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "file")); err == nil {
		t.Error("it was not mounted")
	}
	// Files can be given to other users exactly if there are any.
	given := filepath.Join(dir, "given")
	if err := os.WriteFile(given, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := os.Chown(given, 4711, 4711) == nil; got != fakeroot.CanChown(t) {
		t.Errorf("files can be given to others: %v", got)
	}
}
