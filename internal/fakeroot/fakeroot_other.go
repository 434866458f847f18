//go:build !linux

package fakeroot

import (
	"os"
	"testing"
)

// Main runs the tests of a package and exits, as its TestMain must.
func Main(m *testing.M) { os.Exit(m.Run()) }

// Unprivileged calls f subject to file permissions. On this system it skips the test if the user is root.
func Unprivileged(t testing.TB, f func()) {
	t.Helper()
	if os.Getuid() == 0 {
		t.Skip("root may do everything here")
	}
	f()
}

// CanChown reports whether this process can give its files to other users.
func CanChown(t testing.TB) bool {
	t.Helper()
	dir := t.TempDir()
	return os.Chown(dir, 4711, 4711) == nil
}
