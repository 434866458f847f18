package debian_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/keelson-dev/keelson/node/ociimage/debian"
)

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
		t.Fatal(err)
	}
}

// TestNeed: links are followed, what is not a program needs nothing, and all that is missing is told.
func TestNeed(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "bin/tool", "#!/bin/sh\n")
	write(t, dir, "usr/share/doc/tool", "")
	if err := os.Symlink("/bin/tool", filepath.Join(dir, "usr", "link")); err != nil {
		t.Fatal(err)
	}
	root, err := debian.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	files, err := root.Need("/usr/link")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range files {
		got = append(got, f.Path+" "+f.Target)
	}
	if want := []string{"usr/bin/tool ", "usr/link /bin/tool"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	_, err = root.Need("bin/tool", "bin/other", "etc/none")
	for _, w := range []string{"usr/bin/other", "etc/none"} {
		if !errors.Is(err, debian.ErrNotFound) || !strings.Contains(err.Error(), w) {
			t.Errorf("%v does not name %s", err, w)
		}
	}
	if below := root.Below("usr/share"); len(below) != 1 || below[0].Path != "usr/share/doc/tool" {
		t.Errorf("below usr/share: %v", below)
	}
}

// TestLibraries: what a program is linked with belongs to what it needs, and a library that no package has is named.
func TestLibraries(t *testing.T) {
	for _, program := range []string{"apt-get", "dpkg-deb"} {
		if _, err := exec.LookPath(program); err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatal(err)
			}
			t.Skip(err)
		}
	}
	with, err := debian.Unpack(t.Context(), t.TempDir(), "dash", "libc6")
	if err != nil {
		t.Fatal(err)
	}
	files, err := with.Need("bin/dash")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range files {
		names = append(names, filepath.Base(f.Path))
	}
	if !slices.Contains(names, "libc.so.6") || !slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, "ld-linux") }) {
		t.Errorf("dash needs %v", names)
	}
	alone, err := debian.Unpack(t.Context(), t.TempDir(), "dash")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := alone.Need("bin/dash"); !errors.Is(err, debian.ErrNotFound) || !strings.Contains(err.Error(), "libc.so.6, which usr/bin/dash needs") {
		t.Errorf("without its library: %v", err)
	}
}

// TestSource: a package's source is that of its authors.
func TestSource(t *testing.T) {
	for _, program := range []string{"apt-get", "tar"} {
		if _, err := exec.LookPath(program); err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatal(err)
			}
			t.Skip(err)
		}
	}
	source, err := debian.Source(t.Context(), t.TempDir(), "hello")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(source, "src", "hello.c")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(source, "debian")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("with Debian's changes: %v", err)
	}
}

func TestNoDebian(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := debian.Unpack(t.Context(), t.TempDir(), "dash"); !errors.Is(err, debian.ErrNoDebian) {
		t.Errorf("without apt-get: %v", err)
	}
	if _, err := debian.Source(t.Context(), t.TempDir(), "dash"); !errors.Is(err, debian.ErrNoDebian) {
		t.Errorf("without apt-get: %v", err)
	}
}

// A shell and the libraries it needs.
func Example() {
	dir, err := os.MkdirTemp("", "packages")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	packages, err := debian.Unpack(context.Background(), dir, "dash", "libc6")
	if err != nil {
		fmt.Println(err)
		return
	}
	files, err := packages.Need("bin/dash")
	for _, f := range files {
		fmt.Println(f.Path, f.Target)
	}
	fmt.Println(err)
}
