//go:build !linux

package fakeroot

import (
	"os"
	"testing"
)

// Main runs the tests of a package and exits, as its TestMain has to.
func Main(m *testing.M) { os.Exit(m.Run()) }

// Unprivileged calls f as somebody whom the permissions of files concern, which root is not here.
func Unprivileged(t testing.TB, f func()) {
	t.Helper()
	if os.Getuid() == 0 {
		t.Skip("root may do everything here")
	}
	f()
}

// CanChown says whether this process can give files of its own to others.
func CanChown(t testing.TB) bool {
	t.Helper()
	dir := t.TempDir()
	return os.Chown(dir, 4711, 4711) == nil
}
