package atomic_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/keelson-dev/keelson/kubelet/volume/atomic"
)

func Example() {
	dir, err := os.MkdirTemp("", "volume")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	for _, level := range []string{"info", "debug"} {
		files := map[string]atomic.File{"log/level": {Data: []byte(level), Mode: 0o644}}
		changed, err := atomic.Write(dir, files, atomic.Options{})
		data, _ := os.ReadFile(filepath.Join(dir, "log", "level"))
		fmt.Println(changed, err, string(data))
	}
	link, _ := os.Readlink(filepath.Join(dir, "log"))
	fmt.Println(link)
	// Output:
	// true <nil> info
	// true <nil> debug
	// ..data/log
}

func files(pairs ...string) map[string]atomic.File {
	m := map[string]atomic.File{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = atomic.File{Data: []byte(pairs[i+1]), Mode: 0o640}
	}
	return m
}

// seen returns what a reader finds through the public names.
func seen(t testing.TB, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	var walk func(rel string)
	walk = func(rel string) {
		entries, err := os.ReadDir(filepath.Join(dir, rel))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			at := path.Join(rel, e.Name())
			if strings.HasPrefix(at, "..") {
				continue
			}
			info, err := os.Stat(filepath.Join(dir, at))
			if err != nil {
				t.Fatal(err)
			}
			if info.IsDir() {
				walk(at)
				continue
			}
			data, err := os.ReadFile(filepath.Join(dir, at))
			if err != nil {
				t.Fatal(err)
			}
			found[at] = string(data)
		}
	}
	walk("")
	return found
}

func contents(m map[string]atomic.File) map[string]string {
	out := map[string]string{}
	for p, f := range m {
		out[path.Clean(p)] = string(f.Data)
	}
	return out
}

// hidden returns the writer's own entries.
func hidden(t testing.TB, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "..") {
			names = append(names, e.Name())
		}
	}
	return names
}

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	for i, step := range []struct {
		files   map[string]atomic.File
		changed bool
	}{
		{files("a", "1", "b", "2", "d/e/f", "3", "d/g", "4"), true},
		{files("a", "1", "b", "2", "d/e/f", "3", "d/g", "4"), false},
		{files("a", "1", "b", "two", "d/e/f", "3", "d/g", "4"), true},
		{files("a", "1", "d/g", "4"), true},
		{files("a", "1", "d/g", "4", "a..b", "x", ".dot", "y", "empty", ""), true},
		{files("./a", "1", "d//g", "4"), true},
		{files(), true},
		{files(), false},
		{files("a", "1"), true},
	} {
		before, _ := os.Readlink(filepath.Join(dir, "..data"))
		changed, err := atomic.Write(dir, step.files, atomic.Options{})
		if err != nil || changed != step.changed {
			t.Fatalf("step %d: %v, %v", i, changed, err)
		}
		if got := seen(t, dir); !maps.Equal(got, contents(step.files)) {
			t.Errorf("step %d: %v", i, got)
		}
		after, err := os.Readlink(filepath.Join(dir, "..data"))
		if err != nil || (before != after) != step.changed || filepath.Base(after) != after {
			t.Errorf("step %d: ..data went from %q to %q: %v", i, before, after, err)
		}
		if own := hidden(t, dir); !slices.Equal(own, []string{after, "..data"}) {
			t.Errorf("step %d: %v", i, own)
		}
	}
}

func TestModesAndOthersEntries(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "nested", "place"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("nested", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	m := map[string]atomic.File{"a": {Mode: 0o400}, "b": {Mode: 0o777 | fs.ModeSetuid}, "nested/c": {Mode: 0o644}}
	prepared := ""
	if _, err := atomic.Write(dir, m, atomic.Options{Prepare: func(d string) error {
		prepared = d
		if _, err := os.Lstat(filepath.Join(d, "..data")); !errors.Is(err, fs.ErrNotExist) {
			t.Error("readers saw files that were not prepared")
		}
		return nil
	}}); err != nil {
		t.Fatal(err)
	}
	if prepared != dir {
		t.Errorf("prepared %q", prepared)
	}
	for name, want := range map[string]fs.FileMode{"a": 0o400, "b": 0o777 | fs.ModeSetuid, "nested/place": fs.ModeDir | 0o755} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	if _, err := atomic.Write(dir, nil, atomic.Options{}); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 4 { // two of the writer, two of others
		t.Errorf("%v, %v", entries, err)
	}
	failed := errors.New("failed")
	if _, err := atomic.Write(dir, m, atomic.Options{Prepare: func(string) error { return failed }}); !errors.Is(err, failed) {
		t.Errorf("got %v", err)
	}
	if got := seen(t, dir); len(got) != 0 && got["a"] != "" {
		t.Errorf("a write that failed is seen: %v", got)
	}
	if _, err := atomic.Write(filepath.Join(dir, "no"), m, atomic.Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a directory: %v", err)
	}
}

// TestPaths has upstream's table of valid paths.
func TestPaths(t *testing.T) {
	for p, want := range map[string]bool{
		"i-am-well-behaved.txt": true, "this/is/deeply/nested": true, "a/..b": true, "a..": true, "..": false, "": false,
		"/dev/passwd": false, "../foo": false, "foo/../bar": false, "..foo": false, "..data": false, "./..foo": false, ".": false, "a\x00b": false,
		strings.Repeat("a", 256): false, strings.Repeat("a", 255): true, strings.Repeat("a/", 2100) + "a": false,
	} {
		if err := atomic.CheckPath(p); (err == nil) != want || err != nil && !errors.Is(err, atomic.ErrPath) {
			t.Errorf("%.40q: %v", p, err)
		}
	}
	dir := t.TempDir()
	if _, err := atomic.Write(dir, files("a", "1", "../x", "2"), atomic.Options{}); !errors.Is(err, atomic.ErrPath) {
		t.Errorf("got %v", err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) > 0 {
		t.Errorf("a bad path left %v", entries)
	}
	for range 20 { // whatever comes first, a file cannot be a directory as well
		if _, err := atomic.Write(t.TempDir(), files("a", "1", "a/b", "2"), atomic.Options{}); err == nil {
			t.Fatal("a file is a directory")
		}
	}
}

// TestReaders: readers never find files of two writes through one ..data.
func TestReaders(t *testing.T) {
	dir := t.TempDir()
	payload := func(n int) map[string]atomic.File {
		return files("a", fmt.Sprint(n), "b", fmt.Sprint(n), "c/d", fmt.Sprint(n))
	}
	if _, err := atomic.Write(dir, payload(0), atomic.Options{}); err != nil {
		t.Fatal(err)
	}
	var readers sync.WaitGroup
	stop := make(chan struct{})
	for range 3 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				root, err := os.OpenRoot(filepath.Join(dir, "..data"))
				if errors.Is(err, fs.ErrNotExist) {
					continue // replaced while it was opened
				}
				if err != nil {
					t.Error(err)
					return
				}
				a, errA := root.ReadFile("a")
				b, errB := root.ReadFile("b")
				d, errD := root.ReadFile("c/d")
				root.Close()
				if err := errors.Join(errA, errB, errD); errors.Is(err, fs.ErrNotExist) {
					continue // replaced, and removed since
				} else if err != nil {
					t.Error(err)
				}
				if string(a) != string(b) || string(a) != string(d) || len(a) == 0 {
					t.Errorf("found %q, %q and %q together", a, b, d)
				}
			}
		})
	}
	for n := 1; n < 200; n++ {
		if _, err := atomic.Write(dir, payload(n), atomic.Options{}); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	readers.Wait()
}

// FuzzHistories writes one set of files after the other, crashes in between, and always finds a complete set: the old
// one or the new one.
func FuzzHistories(f *testing.F) {
	for seed := range uint64(30) {
		f.Add(seed)
	}
	names := []string{"a", "b", "c", "d/a", "d/b", "d/e/a", "f/a"}
	f.Fuzz(func(t *testing.T, seed uint64) {
		random := rand.New(rand.NewPCG(seed, 1))
		dir := t.TempDir()
		dead := errors.New("dead")
		current := map[string]string{}
		for range 8 {
			want := map[string]atomic.File{}
			for _, n := range names {
				if random.IntN(2) == 0 {
					want[n] = atomic.File{Data: fmt.Append(nil, random.IntN(3)), Mode: 0o644}
				}
			}
			left := random.IntN(40)
			_, err := atomic.Write(dir, want, atomic.Options{Step: func(string, string) error {
				if left--; left < 0 {
					return dead
				}
				return nil
			}})
			if err != nil && !errors.Is(err, dead) {
				t.Fatal(err)
			}
			if err == nil {
				current = contents(want)
				if got := seen(t, dir); !maps.Equal(got, current) {
					t.Fatalf("found %v, want %v", got, current)
				}
				if own := hidden(t, dir); len(own) != 2 {
					t.Fatalf("left: %v", own)
				}
				continue
			}
			if _, err := os.Stat(filepath.Join(dir, "..data")); err != nil {
				if len(current) > 0 {
					t.Fatal(err)
				}
				continue
			}
			got := seen(t, filepath.Join(dir, "..data"))
			if !maps.Equal(got, current) && !maps.Equal(got, contents(want)) {
				t.Fatalf("found %v, neither %v nor %v", got, current, contents(want))
			}
			current = got
		}
	})
}

// FuzzPath writes to any accepted path; the file is always in the directory.
func FuzzPath(f *testing.F) {
	for _, p := range []string{"a", "../a", "a/../../b", "..data/x", "./a", "a/./b", "//a", "a\x00", "...", "a/.."} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, p string) {
		if atomic.CheckPath(p) != nil {
			return
		}
		outer := t.TempDir()
		dir := filepath.Join(outer, "dir")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if _, err := atomic.Write(dir, files(p, "data"), atomic.Options{}); err != nil {
			t.Fatalf("%q: %v", p, err)
		}
		if data, err := os.ReadFile(filepath.Join(dir, "..data", p)); err != nil || string(data) != "data" {
			t.Errorf("%q: %q, %v", p, data, err)
		}
		if entries, _ := os.ReadDir(outer); len(entries) != 1 {
			t.Errorf("%q left %v", p, entries)
		}
	})
}
