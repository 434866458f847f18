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

	"github.com/keelson-dev/keelson/kubelet/volume/atomic"
)

// owned returns files with this user as their explicit owner.
func owned(pairs ...string) map[string]atomic.File {
	me := int64(os.Getuid())
	out := files(pairs...)
	for p, f := range out {
		f.Owner = &me
		out[p] = f
	}
	return out
}

var errDead = errors.New("dead")

// A write that fails at any change returns an error and leaves either all old or all new files, and nothing else after
// the next write.
func TestFailsAnywhere(t *testing.T) {
	old, updated := owned("a", "1", "d/b", "2", "gone", "3"), owned("a", "1", "d/b", "two", "new", "4", "e/f/g", "5")
	for total, n := 1, 0; n < total; n++ {
		dir := t.TempDir()
		if _, err := atomic.Write(dir, old, atomic.Options{}); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("of a dead write", filepath.Join(dir, "..data_tmp")); err != nil {
			t.Fatal(err)
		}
		before, _ := os.Readlink(filepath.Join(dir, "..data"))
		total = 0
		var failed string
		changed, err := atomic.Write(dir, updated, atomic.Options{Step: func(op, path string) error {
			if total++; total-1 == n {
				failed = op + " " + path
				return errDead
			}
			return nil
		}})
		if failed == "" {
			if err != nil || !changed || total < 10 {
				t.Errorf("%d changes, %v, %v", total, changed, err)
			}
			break
		}
		total = n + 2 // there may be more
		if !errors.Is(err, errDead) {
			t.Errorf("%s: %v", failed, err)
		}
		after, linkErr := os.Readlink(filepath.Join(dir, "..data"))
		got := seen(t, filepath.Join(dir, "..data"))
		switch {
		case linkErr != nil:
			t.Errorf("%s: %v", failed, linkErr)
		case before == after:
			own := hidden(t, dir)
			own = slices.DeleteFunc(own, func(n string) bool { return n == "..data_tmp" })
			if !maps.Equal(got, contents(old)) || !slices.Equal(own, []string{before, "..data"}) {
				t.Errorf("%s: %v in %v", failed, got, own)
			}
		default:
			if !maps.Equal(got, contents(updated)) {
				t.Errorf("%s: %v", failed, got)
			}
		}
		changed, err = atomic.Write(dir, updated, atomic.Options{})
		if err != nil || changed != (before == after) || !maps.Equal(seen(t, dir), contents(updated)) || len(hidden(t, dir)) != 2 {
			t.Errorf("%s: afterwards %v, %v: %v, %v", failed, changed, err, seen(t, dir), hidden(t, dir))
		}
	}
}

// The comparison is with the actual files, including changes by others.
func TestWhatOthersMadeOfIt(t *testing.T) {
	want := files("a", "1", "d/b", "2")
	for name, tt := range map[string]struct {
		change  func(dir, data string) error
		changed bool
		err     error
	}{
		"nothing":       {func(string, string) error { return nil }, false, nil},
		"another value": {func(_, data string) error { return os.WriteFile(filepath.Join(data, "a"), []byte("x"), 0o600) }, true, nil},
		"one more":      {func(_, data string) error { return os.WriteFile(filepath.Join(data, "c"), nil, 0o600) }, true, nil},
		"one less":      {func(_, data string) error { return os.Remove(filepath.Join(data, "a")) }, true, nil},
		"a directory":   {func(_, data string) error { return os.Mkdir(filepath.Join(data, "empty"), 0o755) }, false, nil},
		"a link instead": {func(_, data string) error {
			return errors.Join(os.Rename(filepath.Join(data, "a"), filepath.Join(filepath.Dir(data), "kept")), os.Symlink("../kept", filepath.Join(data, "a")))
		}, true, nil},
		"all gone":                   {func(_, data string) error { return os.RemoveAll(data) }, true, nil},
		"no name":                    {func(dir, _ string) error { return os.Remove(filepath.Join(dir, "a")) }, false, nil},
		"a file instead of the data": {func(_, data string) error { return errors.Join(os.RemoveAll(data), os.WriteFile(data, nil, 0o600)) }, true, nil},
		"no link":                    {func(dir, _ string) error { return os.Remove(filepath.Join(dir, "..data")) }, true, nil},
		"a directory link": {func(dir, _ string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "..data")), os.Mkdir(filepath.Join(dir, "..data"), 0o755))
		}, false, fs.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if _, err := atomic.Write(dir, want, atomic.Options{}); err != nil {
				t.Fatal(err)
			}
			data, err := filepath.EvalSymlinks(filepath.Join(dir, "..data"))
			if err != nil {
				t.Fatal(err)
			}
			if err := tt.change(dir, data); err != nil {
				t.Fatal(err)
			}
			changed, err := atomic.Write(dir, want, atomic.Options{})
			if changed != tt.changed || (err != nil) != (tt.err != nil) {
				t.Errorf("changed %v, %v", changed, err)
			}
			if err != nil {
				return
			}
			got := seen(t, dir)
			delete(got, "kept")
			if !maps.Equal(got, contents(want)) {
				t.Errorf("found %v", got)
			}
			for _, link := range []string{"a", "d"} {
				if to, err := os.Readlink(filepath.Join(dir, link)); err != nil || to != filepath.Join("..data", link) {
					t.Errorf("%s leads to %s, %v", link, to, err)
				}
			}
		})
	}
}

// Entries not made by a write stay: links to other places, files and directories.
func TestOthersStay(t *testing.T) {
	dir := t.TempDir()
	if _, err := atomic.Write(dir, files("a", "1"), atomic.Options{}); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"deeper": "..data/a/b", "elsewhere": "/etc", "beside": "a", "stale": "..data/stale"} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"file", "..old", "...dots"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if changed, err := atomic.Write(dir, files("a", "1"), atomic.Options{}); err != nil || changed {
		t.Fatalf("%v, %v", changed, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "..") {
			left = append(left, e.Name())
		}
	}
	if want := []string{"a", "beside", "deeper", "elsewhere", "file"}; !slices.Equal(left, want) || len(hidden(t, dir)) != 2 {
		t.Errorf("left %v and %v", left, hidden(t, dir))
	}
}

// A path may have up to 4096 bytes; errors say why a path is invalid.
func TestWhyPathsAreBad(t *testing.T) {
	long := strings.Repeat("a/", 2047) + "aa"
	for p, want := range map[string]string{
		long: "", long + "a": "must be less than or equal to 4096 characters", "": `must not be empty: ""`, "/a": "must be relative path: /a",
		"a\x00": `must not contain a zero byte: "a\x00"`, "./": `must name a file: "./"`, "a/../b": "must not contain '..': a/../b",
		"..a": "must not start with '..': ..a", "a/" + strings.Repeat("b", 256): "filenames must be less than or equal to 255 characters",
	} {
		err := atomic.CheckPath(p)
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasSuffix(err.Error(), ": "+want)) {
			t.Errorf("%.20q: %v", p, err)
		}
	}
}
