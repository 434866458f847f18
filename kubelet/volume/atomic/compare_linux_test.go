package atomic_test

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/keelson-dev/keelson/internal/fakeroot"
	"github.com/keelson-dev/keelson/kubelet/volume/atomic"
)

// TestChanged: a set counts as changed only if a path or content differs, even if the number of files is the same.
func TestChanged(t *testing.T) {
	for name, test := range map[string]struct {
		old, next []string
		want      bool
	}{
		"the same":                     {[]string{"a", "1", "d/b", "2"}, []string{"d/b", "2", "a", "1"}, false},
		"nothing":                      {nil, nil, false},
		"the first":                    {[]string{"a", "1", "b", "2"}, []string{"a", "x", "b", "2"}, true},
		"the last":                     {[]string{"a", "1", "b", "2"}, []string{"a", "1", "b", "x"}, true},
		"another name":                 {[]string{"a", "1", "b", "2"}, []string{"a", "1", "c", "2"}, true},
		"another name, both empty":     {[]string{"a", "1", "b", ""}, []string{"a", "1", "c", ""}, true},
		"an empty file for a full one": {[]string{"a", "1", "c", ""}, []string{"a", "1", "b", "2"}, true},
		"one more":                     {[]string{"a", "1"}, []string{"a", "1", "b", ""}, true},
		"one less":                     {[]string{"a", "1", "b", ""}, []string{"a", "1"}, true},
		"none left":                    {[]string{"a", ""}, nil, true},
		"a file that is a directory":   {[]string{"a", ""}, []string{"a/b", ""}, true},
		"a directory that is a file":   {[]string{"a/b", ""}, []string{"a", ""}, true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if _, err := atomic.Write(dir, files(test.old...), atomic.Options{}); err != nil {
				t.Fatal(err)
			}
			changed, err := atomic.Write(dir, files(test.next...), atomic.Options{})
			if err != nil || changed != test.want {
				t.Errorf("changed %t, %v", changed, err)
			}
			if got, want := seen(t, dir), contents(files(test.next...)); !maps.Equal(got, want) {
				t.Errorf("%v, not %v", got, want)
			}
		})
	}
}

// TestUnreadable: a file that cannot be compared is an error, and stays as it is.
func TestUnreadable(t *testing.T) {
	for name, path := range map[string]string{"a file": "..data/d/b", "a directory": "..data/d"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			wanted := files("a", "1", "d/b", "2")
			if _, err := atomic.Write(dir, wanted, atomic.Options{}); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(filepath.Join(dir, path), 0); err != nil {
				t.Fatal(err)
			}
			before := hidden(t, dir)
			fakeroot.Unprivileged(t, func() {
				if changed, err := atomic.Write(dir, wanted, atomic.Options{}); changed || !errors.Is(err, fs.ErrPermission) {
					t.Errorf("changed %t, %v", changed, err)
				}
			})
			if after := hidden(t, dir); !slices.Equal(before, after) {
				t.Errorf("%v became %v", before, after)
			}
			if err := os.Chmod(filepath.Join(dir, path), 0o755); err != nil {
				t.Fatal(err)
			}
		})
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o300); err != nil {
		t.Fatal(err)
	}
	fakeroot.Unprivileged(t, func() {
		if _, err := atomic.Write(dir, files("a", "1"), atomic.Options{}); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("links in a directory that cannot be read: %v", err)
		}
	})
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
}

// TestPrepareNothing: a failed write is not prepared, and readers do not see it.
func TestPrepareNothing(t *testing.T) {
	dir := t.TempDir()
	_, err := atomic.Write(dir, files("a", "1", "b", "2"), atomic.Options{
		Prepare: func(string) error { t.Error("half of the files are prepared"); return nil },
		Step: func(op, path string) error {
			if op == "write" && strings.HasSuffix(path, "/b") {
				return errDead
			}
			return nil
		},
	})
	if !errors.Is(err, errDead) || len(hidden(t, dir)) > 0 {
		t.Errorf("%v, with %v", err, hidden(t, dir))
	}
}
