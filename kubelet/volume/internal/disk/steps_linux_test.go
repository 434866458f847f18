package disk_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/keelson-dev/keelson/kubelet/volume/internal/disk"
)

var errStep = errors.New("no further")

// Step is called before every change, which is not made if it fails.
func TestEveryStep(t *testing.T) {
	for name, tt := range map[string]struct {
		do   func(d disk.Disk, at func(string) string) error
		want []string
	}{
		"mkdir":        {func(d disk.Disk, at func(string) string) error { return d.MkdirAll(at("x/y"), 0o700) }, []string{"mkdir x", "mkdir x/y"}},
		"mkdir, mode":  {func(d disk.Disk, at func(string) string) error { return d.MkdirAll(at("x"), 0o777|fs.ModeSetgid) }, []string{"mkdir x", "chmod x"}},
		"mkdir, there": {func(d disk.Disk, at func(string) string) error { return d.MkdirAll(at("dir"), 0o700) }, nil},
		"chmod":        {func(d disk.Disk, at func(string) string) error { return d.Chmod(at("file"), 0o640) }, []string{"chmod file"}},
		"chmod, same":  {func(d disk.Disk, at func(string) string) error { return d.Chmod(at("file"), 0o600) }, nil},
		"chown":        {func(d disk.Disk, at func(string) string) error { return d.Lchown(at("file"), os.Getuid(), -1) }, []string{"chown file"}},
		"write":        {func(d disk.Disk, at func(string) string) error { return d.WriteFile(at("x"), []byte("y"), 0o600) }, []string{"write x"}},
		"write, mode":  {func(d disk.Disk, at func(string) string) error { return d.WriteFile(at("x"), []byte("y"), 0o666) }, []string{"write x", "chmod x"}},
		"symlink":      {func(d disk.Disk, at func(string) string) error { return d.Symlink("to", at("x")) }, []string{"symlink x"}},
		"rename":       {func(d disk.Disk, at func(string) string) error { return d.Rename(at("file"), at("x")) }, []string{"rename x"}},
		"remove":       {func(d disk.Disk, at func(string) string) error { return d.Remove(at("file")) }, []string{"remove file"}},
		"remove, none": {func(d disk.Disk, at func(string) string) error { return d.Remove(at("x")) }, []string{"remove x"}},
		"mkdirtemp": {func(d disk.Disk, at func(string) string) error {
			_, err := d.MkdirTemp(at(""), "tmp-", 0o700)
			return err
		}, []string{"mkdir tmp-"}},
		"tree":           {func(d disk.Disk, at func(string) string) error { return d.RemoveTree(at("dir")) }, []string{"unlink dir", "unlink dir/below", "unlink dir"}},
		"tree of a file": {func(d disk.Disk, at func(string) string) error { return d.RemoveTree(at("file")) }, []string{"unlink file"}},
		"tree of none":   {func(d disk.Disk, at func(string) string) error { return d.RemoveTree(at("x")) }, []string{"unlink x"}},
	} {
		t.Run(name, func(t *testing.T) {
			for failing := 0; failing <= len(tt.want); failing++ {
				dir := t.TempDir()
				write(t, filepath.Join(dir, "file"))
				write(t, filepath.Join(dir, "dir", "below"))
				var steps []string
				d := disk.Disk{Step: func(op, path string) error {
					rel, err := filepath.Rel(dir, path)
					if err != nil {
						t.Fatal(err)
					}
					steps = append(steps, op+" "+rel)
					if len(steps) == failing+1 {
						return errStep
					}
					return nil
				}}
				err := tt.do(d, func(name string) string { return filepath.Join(dir, name) })
				if failing < len(tt.want) != errors.Is(err, errStep) || failing == len(tt.want) && err != nil {
					t.Errorf("step %d: %v", failing, err)
				}
				if want := tt.want[:min(failing+1, len(tt.want))]; !slices.Equal(steps, want) {
					t.Errorf("step %d: %v, not %v", failing, steps, want)
				}
				if failing == 0 && len(tt.want) > 0 {
					entries, err := os.ReadDir(dir)
					if err != nil || len(entries) != 2 || entries[0].Name() != "dir" || entries[1].Name() != "file" {
						t.Errorf("changed: %v, %v", entries, err)
					}
					there(t, filepath.Join(dir, "file"))
					there(t, filepath.Join(dir, "dir", "below"))
				}
			}
		})
	}
}

func TestModesAreExact(t *testing.T) {
	dir := t.TempDir()
	var d disk.Disk
	at := func(name string) string { return filepath.Join(dir, name) }
	mode := func(name string, want fs.FileMode) {
		t.Helper()
		if info, err := os.Stat(at(name)); err != nil || info.Mode()&^fs.ModeDir != want {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(d.MkdirAll(at("a/b"), 0o777))
	mode("a", 0o777)
	mode("a/b", 0o777)
	must(d.MkdirAll(at("a/b/c"), 0o700))
	mode("a", 0o777) // was there before
	must(d.Chmod(at("a"), 0o777|fs.ModeSetgid|fs.ModeSticky|fs.ModeDir))
	mode("a", 0o777|fs.ModeSetgid|fs.ModeSticky)
	must(d.WriteFile(at("f"), []byte("long text"), 0o666))
	mode("f", 0o666)
	must(d.WriteFile(at("f"), []byte("short"), 0o400))
	mode("f", 0o400)
	if data, err := os.ReadFile(at("f")); err != nil || string(data) != "short" {
		t.Errorf("%q, %v", data, err)
	}
	made, err := d.MkdirTemp(dir, "tmp-", 0o755)
	must(err)
	if name := filepath.Base(made); !strings.HasPrefix(name, "tmp-") || name == "tmp-" {
		t.Errorf("made %s", made)
	} else {
		mode(name, 0o755)
	}
}

func TestWhatCannotBeDone(t *testing.T) {
	dir := t.TempDir()
	var d disk.Disk
	at := func(name string) string { return filepath.Join(dir, name) }
	write(t, at("file"))
	write(t, at("dir/below"))
	_, temp := d.MkdirTemp(at("missing"), "x", 0o700)
	for name, err := range map[string]error{
		"mkdir on a file":      d.MkdirAll(at("file"), 0o700),
		"mkdir below a file":   d.MkdirAll(at("file/a/b"), 0o700),
		"chmod":                d.Chmod(at("missing"), 0o700),
		"chown":                d.Lchown(at("missing"), -1, -1),
		"write to a directory": d.WriteFile(at("dir"), nil, 0o600),
		"write nowhere":        d.WriteFile(at("missing/x"), nil, 0o600),
		"symlink":              d.Symlink("x", at("file")),
		"rename":               d.Rename(at("missing"), at("x")),
		"remove":               d.Remove(at("dir")),
		"temporary":            temp,
		"tree below a file":    d.RemoveTree(at("file/x")),
	} {
		if err == nil {
			t.Errorf("%s: done", name)
		}
	}
	if err := d.MkdirAll(at("file"), 0o700); err.Error() != at("file")+" is not a directory" {
		t.Error(err)
	}
	there(t, at("file"))
	there(t, at("dir/below"))
	if _, err := os.Stat("/dev/full"); err == nil {
		if err := d.WriteFile("/dev/full", []byte("x"), 0o666); err == nil {
			t.Error("written to a full disk")
		}
	}
}
