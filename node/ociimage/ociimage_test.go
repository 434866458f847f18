package ociimage_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/keelson-dev/keelson/node/ociimage"
)

// recipe is of a small image; it counts how often it is followed.
func recipe(count *int) ociimage.Recipe {
	return ociimage.Recipe{
		Name: "small", Version: "1",
		Images: []ociimage.Image{
			{References: []string{"docker.io/library/small:latest", "example.com/small:1"}, Config: ociimage.Config{Cmd: []string{"/run"}}},
			{References: []string{"example.com/small:2"}, Config: ociimage.Config{Cmd: []string{"/run"}, Labels: map[string]string{"a": "b"}}, Extra: func(t *ociimage.Tree) error {
				t.File("extra", 0o644, nil)
				return nil
			}},
		},
		Fill: func(_ context.Context, scratch string, t *ociimage.Tree) error {
			*count++
			from := filepath.Join(scratch, "data")
			t.File("run", 0o755|fs.ModeSetuid, []byte("#!/bin/sh\n"))
			t.Link("bin/again", "run")
			t.Symlink("etc/run", "/run")
			t.Dir("tmp", 0o777|fs.ModeSticky)
			t.Copy("srv/data", 0o640, from)
			return os.WriteFile(from, []byte("data"), 0o600)
		},
	}
}

func build(t *testing.T, dir string, r ociimage.Recipe) string {
	t.Helper()
	path, err := ociimage.Build(t.Context(), dir, r, nil)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// unpack writes the files of an archive into a directory, and returns what the layer holds.
func unpack(t *testing.T, archive, dir string) (layer []byte) {
	t.Helper()
	file, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	for r := tar.NewReader(file); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return layer
		}
		if err != nil {
			t.Fatal(err)
		}
		at := filepath.Join(dir, filepath.FromSlash(h.Name))
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(at, 0o755)
		} else {
			var content []byte
			if content, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(at, content, 0o644)
			}
			if len(content) > len(layer) {
				layer = content
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestBuild: the archive is a valid OCI layout, has what was put into it, and comes out the same each time.
func TestBuild(t *testing.T) {
	count, dir := 0, t.TempDir()
	archive := build(t, dir, recipe(&count))
	unpacked := t.TempDir()
	layer := unpack(t, archive, unpacked)
	path, err := layout.FromPath(unpacked)
	if err != nil {
		t.Fatal(err)
	}
	index, err := path.ImageIndex()
	if err != nil {
		t.Fatal(err)
	}
	// Without Fast it expects layers to be compressed.
	if err := validate.Index(index, validate.Fast); err != nil {
		t.Error(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	digests := map[string]bool{}
	for i, m := range manifest.Manifests {
		image, err := index.Image(m.Digest)
		if err != nil {
			t.Fatal(err)
		}
		if layers, err := image.Layers(); err != nil || len(layers) != i/2+1 {
			t.Errorf("image %d has %d layers, %v", i, len(layers), err)
		}
		names = append(names, m.Annotations["io.containerd.image.name"]+" "+m.Annotations["org.opencontainers.image.ref.name"])
		digests[m.Digest.String()] = true
	}
	if want := []string{"docker.io/library/small:latest latest", "example.com/small:1 1", "example.com/small:2 2"}; !slices.Equal(names, want) {
		t.Errorf("names: %q, want %q", names, want)
	}
	if len(digests) != 2 {
		t.Errorf("two configurations have digests %v", digests)
	}
	var got []string
	for r := tar.NewReader(bytes.NewReader(layer)); ; {
		h, err := r.Next()
		if err != nil {
			break
		}
		got = append(got, fmt.Sprintf("%s %c %o %s %d:%d %d", h.Name, h.Typeflag, h.Mode, h.Linkname, h.Uid, h.Gid, h.Size))
	}
	want := []string{
		"bin/ 5 755  0:0 0", "etc/ 5 755  0:0 0", "etc/run 2 777 /run 0:0 0", "run 0 4755  0:0 10",
		"srv/ 5 755  0:0 0", "srv/data 0 640  0:0 4", "tmp/ 5 1777  0:0 0", "bin/again 1 4755 run 0:0 0",
	}
	if !slices.Equal(got, want) {
		t.Errorf("layer:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	again := build(t, t.TempDir(), recipe(&count))
	one, _ := os.ReadFile(archive)
	two, _ := os.ReadFile(again)
	if len(one) == 0 || !bytes.Equal(one, two) {
		t.Error("the same recipe made another archive")
	}
}

// TestCurrent: an archive is made once, and again when the recipe changes or the file was touched.
func TestCurrent(t *testing.T) {
	count, dir := 0, t.TempDir()
	var words strings.Builder
	for i, want := range []int{1, 1} {
		if _, err := ociimage.Build(t.Context(), dir, recipe(&count), &words); err != nil || count != want {
			t.Errorf("build %d: made %d times, %v", i, count, err)
		}
	}
	if strings.Count(words.String(), "docker.io/library/small:latest") != 1 {
		t.Errorf("told %q", words.String())
	}
	changed := recipe(&count)
	changed.Version = "2"
	path := build(t, dir, changed)
	if count != 2 {
		t.Errorf("another version: made %d times", count)
	}
	if err := os.Truncate(path, 100); err != nil {
		t.Fatal(err)
	}
	build(t, dir, changed)
	if count != 3 {
		t.Errorf("a damaged archive: made %d times", count)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if want := []string{".small.lock", ".small.stamp", "small.tar"}; !slices.Equal(names, want) {
		t.Errorf("left behind: %v, want %v", names, want)
	}
}

// TestLock: who finds the directory locked waits until the lock is free or the context ends.
func TestLock(t *testing.T) {
	count, dir := 0, t.TempDir()
	file, err := os.Create(filepath.Join(dir, ".small.lock"))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := ociimage.Build(ctx, dir, recipe(&count), nil); !errors.Is(err, context.Canceled) || count != 0 {
		t.Errorf("with another's lock: %v, made %d times", err, count)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	if build(t, dir, recipe(&count)); count != 1 {
		t.Errorf("made %d times", count)
	}
}

func TestRefused(t *testing.T) {
	count, broken := 0, errors.New("broken")
	for name, c := range map[string]struct {
		change func(*ociimage.Recipe)
		want   error
	}{
		"no name":                {func(r *ociimage.Recipe) { r.Name = "" }, ociimage.ErrRecipe},
		"a path":                 {func(r *ociimage.Recipe) { r.Name = "../x" }, ociimage.ErrRecipe},
		"no images":              {func(r *ociimage.Recipe) { r.Images = nil }, ociimage.ErrRecipe},
		"no reference":           {func(r *ociimage.Recipe) { r.Images[0].References = nil }, ociimage.ErrRecipe},
		"a short name":           {func(r *ociimage.Recipe) { r.Images[0].References = []string{"nginx:latest"} }, ociimage.ErrRecipe},
		"an extra fails":         {func(r *ociimage.Recipe) { r.Images[1].Extra = func(*ociimage.Tree) error { return broken } }, broken},
		"no tag":                 {func(r *ociimage.Recipe) { r.Images[0].References = []string{"docker.io/library/nginx"} }, ociimage.ErrRecipe},
		"nothing to fill":        {func(r *ociimage.Recipe) { r.Fill = nil }, ociimage.ErrRecipe},
		"filling fails":          {fill(func(*ociimage.Tree) error { return broken }), broken},
		"a path twice":           {fill(func(t *ociimage.Tree) error { t.File("a", 0, nil); t.Symlink("a", "b"); return nil }), ociimage.ErrTree},
		"below a file":           {fill(func(t *ociimage.Tree) error { t.File("a", 0, nil); t.File("a/b", 0, nil); return nil }), ociimage.ErrTree},
		"outside":                {fill(func(t *ociimage.Tree) error { t.File("../a", 0, nil); return nil }), ociimage.ErrTree},
		"absolute":               {fill(func(t *ociimage.Tree) error { t.File("/a", 0, nil); return nil }), ociimage.ErrTree},
		"a link to none":         {fill(func(t *ociimage.Tree) error { t.Link("a", "b"); return nil }), ociimage.ErrTree},
		"a link to a link":       {fill(func(t *ociimage.Tree) error { t.File("a", 0, nil); t.Link("b", "a"); t.Link("c", "b"); return nil }), ociimage.ErrTree},
		"a link to a directory":  {fill(func(t *ociimage.Tree) error { t.Dir("a", 0); t.Link("b", "a"); return nil }), ociimage.ErrTree},
		"a directory for a file": {fill(func(t *ociimage.Tree) error { t.File("a", 0, nil); t.Dir("a", 0); return nil }), ociimage.ErrTree},
		"a file for a directory": {fill(func(t *ociimage.Tree) error { t.Dir("a", 0); t.File("a", 0, nil); return nil }), ociimage.ErrTree},
		"a missing file":         {fill(func(t *ociimage.Tree) error { t.Copy("a", 0, "/does/not/exist"); return nil }), fs.ErrNotExist},
	} {
		t.Run(name, func(t *testing.T) {
			r, dir := recipe(&count), t.TempDir()
			c.change(&r)
			if path, err := ociimage.Build(t.Context(), dir, r, nil); !errors.Is(err, c.want) {
				t.Errorf("%s, %v; want %v", path, err, c.want)
			}
			left, err := os.ReadDir(dir)
			if err != nil || len(left) > 1 || len(left) == 1 && left[0].Name() != ".small.lock" {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

// TestDirectoryTwice: a directory may be added again, also one that had to be there for a file.
func TestDirectoryTwice(t *testing.T) {
	count := 0
	r := recipe(&count)
	fill(func(t *ociimage.Tree) error { t.File("a/b", 0, nil); t.Dir("a", 0o700); t.Dir("a", 0o755); return nil })(&r)
	if _, err := ociimage.Build(t.Context(), t.TempDir(), r, nil); err != nil {
		t.Error(err)
	}
}

func fill(f func(*ociimage.Tree) error) func(*ociimage.Recipe) {
	return func(r *ociimage.Recipe) {
		r.Fill = func(_ context.Context, _ string, t *ociimage.Tree) error { return f(t) }
	}
}
