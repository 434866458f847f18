package stats

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// fill writes a file with its directories.
func fill(t *testing.T, file string, bytes int) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, make([]byte, bytes), 0o600); err != nil {
		t.Fatal(err)
	}
}

// taken returns the space that these files take, according to the system.
func taken(t *testing.T, files ...string) size {
	t.Helper()
	var out size
	for _, file := range files {
		var stat unix.Stat_t
		if err := unix.Lstat(file, &stat); err != nil {
			t.Fatal(err)
		}
		out.bytes += uint64(stat.Blocks) * 512
		out.inodes++
	}
	return out
}

func newTrees() *trees { return &trees{age: time.Minute, known: map[string]measured{}} }

// Every file counts once, directories among them.
func TestWalk(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	fill(t, at("sub/large"), 1<<20)
	fill(t, at("sub/deeper/small"), 1)
	for _, name := range []string{"again", "sub/once more"} {
		if err := os.Link(at("sub/large"), at(name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/", at("link")); err != nil {
		t.Fatal(err)
	}
	want := taken(t, dir, at("sub"), at("sub/large"), at("sub/deeper"), at("sub/deeper/small"), at("link"))
	if got, ok := newTrees().measure(t.Context(), dir, time.Now()); !ok || got != want || got.inodes != 6 || got.bytes < 1<<20 {
		t.Errorf("%+v, not %+v; %v", got, want, ok)
	}
}

// Files and directories mounted below a directory do not count.
func TestWalkStaysOnTheFilesystem(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to mount")
	}
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	fill(t, at("a"), 1)
	fill(t, at("mounted/z"), 1)
	fill(t, at("z"), 1)
	if err := unix.Mount("none", at("mounted"), "tmpfs", 0, ""); err != nil {
		t.Skipf("cannot mount: %v", err)
	}
	unmount := func(name string) {
		if err := unix.Unmount(at(name), unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}
	defer unmount("mounted")
	fill(t, at("mounted/large"), 1<<20)
	fill(t, at("file"), 1)
	if err := unix.Mount(at("mounted/large"), at("file"), "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	defer unmount("file")
	want := taken(t, dir, at("a"), at("z"))
	if got, ok := newTrees().measure(t.Context(), dir, time.Now()); !ok || got != want {
		t.Errorf("%+v, not %+v; %v", got, want, ok)
	}
}

// A size is reused while it is recent enough, and older ones or those of missing directories are dropped.
func TestMeasuredOnce(t *testing.T) {
	dir := t.TempDir()
	fill(t, filepath.Join(dir, "a"), 1)
	trees, now := newTrees(), time.Now()
	inodes := func(after time.Duration) uint64 {
		t.Helper()
		got, ok := trees.measure(t.Context(), dir, now.Add(after))
		if !ok {
			t.Fatal("cannot measure")
		}
		return got.inodes
	}
	if got := inodes(0); got != 2 {
		t.Errorf("%d inodes", got)
	}
	fill(t, filepath.Join(dir, "b"), 1)
	if got := inodes(time.Minute - 1); got != 2 {
		t.Errorf("measured again: %d inodes", got)
	}
	if got := inodes(time.Minute); got != 3 {
		t.Errorf("not measured again: %d inodes", got)
	}
	trees.forget(now.Add(2*time.Minute - 1))
	if len(trees.known) != 1 {
		t.Error("what is good is forgotten")
	}
	trees.forget(now.Add(2 * time.Minute))
	if len(trees.known) != 0 {
		t.Error("what is too old is kept")
	}
	inodes(3 * time.Minute)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if _, ok := trees.measure(t.Context(), dir, now.Add(time.Hour)); ok || len(trees.known) != 0 {
		t.Errorf("what is gone: %v, %d known", ok, len(trees.known))
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, ok := trees.measure(over, t.TempDir(), now); ok {
		t.Error("measured for nobody")
	}
}
