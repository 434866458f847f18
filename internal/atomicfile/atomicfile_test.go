package atomicfile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/keelson-dev/keelson/internal/atomicfile"
)

// alone returns the content of a directory's only file.
func alone(t *testing.T, dir, name, content string, mode fs.FileMode) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != name {
		t.Fatalf("the directory has %v, %v", entries, err)
	}
	info, err := entries[0].Info()
	if err != nil || info.Mode() != mode {
		t.Errorf("mode %v, %v; want %v", info.Mode(), err, mode)
	}
	if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != content {
		t.Errorf("content %q, %v; want %q", got, err, content)
	}
}

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	for _, c := range []struct {
		content string
		mode    fs.FileMode
	}{{"a secret", 0o600}, {"for all", 0o666}, {"", 0o644}} {
		if err := atomicfile.Write(path, []byte(c.content), c.mode); err != nil {
			t.Fatal(err)
		}
		alone(t, dir, "file", c.content, c.mode)
	}
}

// TestFailures: a failed write leaves the old content, and nothing else.
func TestFailures(t *testing.T) {
	broken := errors.New("broken")
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	if err := atomicfile.Write(path, []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := atomicfile.Fill(path, 0o600, func(f *os.File) error {
		_, err := f.WriteString("half of")
		return errors.Join(err, broken)
	}); !errors.Is(err, broken) {
		t.Errorf("filling: %v", err)
	}
	alone(t, dir, "file", "before", 0o600)
	if err := atomicfile.Fill(path, 0o600, func(f *os.File) error { return f.Close() }); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a file that is closed: %v", err)
	}
	alone(t, dir, "file", "before", 0o600)
	if err := atomicfile.Write(filepath.Join(dir, "none", "file"), nil, 0o600); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
	taken := filepath.Join(t.TempDir(), "taken")
	if err := os.MkdirAll(filepath.Join(taken, "file", "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := atomicfile.Write(filepath.Join(taken, "file"), nil, 0o600); err == nil {
		t.Error("a directory was replaced")
	}
	if entries, err := os.ReadDir(taken); err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
	if err := atomicfile.SyncDir(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("sync of what is not there: %v", err)
	}
}

func TestSweep(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	var left string
	if err := atomicfile.Fill(path, 0o600, func(f *os.File) error {
		left = f.Name()
		return os.Link(left, left[:len(left)-len(".tmp")]+"2.tmp") // like an interrupted write
	}); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Fatalf("the directory has %v, %v", entries, err)
	}
	for range 2 {
		if err := atomicfile.Sweep(dir); err != nil {
			t.Error(err)
		}
		alone(t, dir, "file", "", 0o600)
	}
	if err := atomicfile.Sweep(filepath.Join(dir, "none")); err != nil {
		t.Error(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, ".file.3.tmp", "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := atomicfile.Sweep(dir); err == nil {
		t.Error("what cannot be removed is told")
	}
}
