package disk_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/keelson-dev/keelson/storage/internal/disk"
)

// put makes a file with some bytes in the directory.
func put(t *testing.T, d disk.OS, name, data string) {
	t.Helper()
	file, err := d.Create(name)
	if err == nil {
		_, err = io.WriteString(file, data)
	}
	if err == nil {
		err = file.Sync()
	}
	if err == nil {
		err = file.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

func content(t *testing.T, d disk.OS, name string) string {
	t.Helper()
	source, err := d.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	data, err := io.ReadAll(io.NewSectionReader(source, 0, source.Size()))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestFiles: appended bytes are read back, under the file's last name.
func TestFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "above", "here")
	d := disk.At(path)
	if names, err := d.Names(); err != nil || len(names) > 0 {
		t.Errorf("a directory that is not there: %q, %v", names, err)
	}
	lock, err := d.Lock()
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	want := []string{disk.LockName}
	for i := range 30 {
		name := fmt.Sprintf("file-%02d", i*7%30)
		put(t, d, name, name)
		want = append(want, name)
	}
	slices.Sort(want)
	if names, err := d.Names(); err != nil || !slices.Equal(names, want) {
		t.Errorf("names %q, %v; want %q", names, err, want)
	}
	file, err := d.Append("file-03")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(file, " and more"); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	if got := content(t, d, "file-03"); got != "file-03 and more" {
		t.Errorf("the file has %q", got)
	}
	if err := d.Rename("file-03", "file-04"); err != nil {
		t.Error(err)
	}
	if got := content(t, d, "file-04"); got != "file-03 and more" {
		t.Errorf("the renamed file has %q", got)
	}
	if err := d.Remove("file-05"); err != nil {
		t.Error(err)
	}
	want = slices.DeleteFunc(want, func(name string) bool { return name == "file-03" || name == "file-05" })
	if names, err := d.Names(); err != nil || !slices.Equal(names, want) {
		t.Errorf("names %q, %v; want %q", names, err, want)
	}
	if err := d.Sync(); err != nil {
		t.Error(err)
	}
	for _, each := range []string{path, filepath.Dir(path), filepath.Join(path, "file-04")} {
		if info, err := os.Stat(each); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v, %v; want it for its owner alone", each, info.Mode(), err)
		}
	}
}

// TestLocked: a directory has one user at a time.
func TestLocked(t *testing.T) {
	d := disk.At(t.TempDir())
	lock, err := d.Lock()
	if err != nil {
		t.Fatal(err)
	}
	if other, err := d.Lock(); !errors.Is(err, disk.ErrLocked) || other != nil || !strings.Contains(err.Error(), disk.LockName) {
		t.Errorf("a second user: %v, %v", other, err)
	}
	if err := lock.Close(); err != nil {
		t.Error(err)
	}
	again, err := d.Lock()
	if err != nil {
		t.Fatal(err)
	}
	_ = again.Close()
}

// TestErrors: failures are reported with their cause.
func TestErrors(t *testing.T) {
	dir := t.TempDir()
	d := disk.At(dir)
	put(t, d, "file", "")
	if err := os.Symlink("nowhere", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "taken", disk.LockName), 0o700); err != nil {
		t.Fatal(err)
	}
	at := func(path string) disk.OS { return disk.At(filepath.Join(dir, path)) }
	locked := func(path string) error {
		lock, err := at(path).Lock()
		if lock != nil {
			t.Errorf("%s is locked", path)
		}
		return err
	}
	of := func(_ any, err error) error { return err }
	for name, c := range map[string]struct {
		err  error
		want error  // nil: any
		says string // dir precedes each path
	}{
		"lock a file":                  {locked("file"), nil, "$/file is not a directory"},
		"lock below a file":            {locked("file/below"), nil, "stat $/file/below: "},
		"lock where a link leads":      {locked("link"), fs.ErrNotExist, "open $/link/LOCK: "},
		"lock below a broken link":     {locked("link/x"), fs.ErrNotExist, "mkdir $/link/x: "},
		"lock far below a broken link": {locked("link/x/y"), fs.ErrNotExist, "mkdir $/link/x: "},
		"no lock but a directory":      {locked("taken"), nil, "open $/taken/LOCK: "},
		"names of a file":              {of(at("file").Names()), nil, "$/file"},
		"names below a file":           {of(at("file/below").Names()), nil, "open $/file/below: "},
		"open what is not there":       {of(d.Open("none")), fs.ErrNotExist, "open $/none: "},
		"append to it":                 {of(d.Append("none")), fs.ErrNotExist, "open $/none: "},
		"create what is there":         {of(d.Create("file")), fs.ErrExist, "open $/file: "},
		"rename what is not there":     {d.Rename("none", "some"), fs.ErrNotExist, "rename $/none $/some: "},
		"remove it":                    {d.Remove("none"), fs.ErrNotExist, "remove $/none: "},
		"sync a missing directory":     {at("none").Sync(), fs.ErrNotExist, "open $/none: "},
		"sync what does not sync":      {disk.At(os.DevNull).Sync(), nil, "sync " + os.DevNull},
	} {
		if c.err == nil || c.want != nil && !errors.Is(c.err, c.want) || !strings.Contains(c.err.Error(), strings.ReplaceAll(c.says, "$", dir)) {
			t.Errorf("%s: %v, want %v: %s", name, c.err, c.want, c.says)
		}
	}
}
