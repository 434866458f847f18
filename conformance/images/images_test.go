package images

import (
	"archive/tar"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/keelson-dev/keelson/node/ociimage"
)

// TestImages: the archives have upstream's names, the two versions of agnhost can be distinguished, and files are where
// the suite looks for them. Upstream's programs and pages, which take minutes to build, are replaced.
func TestImages(t *testing.T) {
	for _, program := range []string{"apt-get", "dpkg-deb"} {
		if _, err := exec.LookPath(program); err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatal(err)
			}
			t.Skip(err)
		}
	}
	b := built{version: "v1", source: t.TempDir(), agnhostPath: "/bin/true", noNewPrivsPath: "/bin/true", sampleAPIServerPath: "/bin/true", etcdPath: "/bin/true"}
	for _, name := range []string{"agnhost/porter/localhost.crt", "agnhost/porter/localhost.key", "nautilus/html/data.json", "kitten/html/data.json"} {
		path := filepath.Join(b.source, "test", "images", name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(name), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	agnhost, err := b.agnhost(t.Context(), dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	noNewPrivs, err := b.noNewPrivs(t.Context(), dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	sample, err := b.sampleAPIServer(t.Context(), dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	etcd, err := b.etcd(t.Context(), dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]string{}
	for _, path := range []string{agnhost, noNewPrivs, sample, etcd} {
		digests, err := ociimage.Digests(path)
		if err != nil {
			t.Fatal(err)
		}
		maps.Copy(have, digests)
	}
	for _, name := range []string{"agnhost:2.66.1", "agnhost:2.55", "glibc-dns-testing:2.1.1", "kitten:1.8", "nautilus:1.8", "nonewprivs:1.4", "sample-apiserver:1.29.2"} {
		if have[registry+name] == "" {
			t.Errorf("no %s among %v", name, slices.Sorted(maps.Keys(have)))
		}
	}
	if have["registry.k8s.io/etcd:3.7.0-0"] == "" {
		t.Errorf("no etcd among %v", slices.Sorted(maps.Keys(have)))
	}
	if have[registry+"agnhost:2.66.1"] == have[registry+"agnhost:2.55"] {
		t.Error("the two versions of agnhost have one digest")
	}
	for archive, names := range map[string][]string{
		agnhost:    {"agnhost", "agnhost-2", "localhost.crt", "usr/bin/curl", "usr/bin/nc", "usr/bin/dig", "usr/bin/sh", "uploads/"},
		noNewPrivs: {"usr/local/bin/nnp"},
		sample:     {"sample-apiserver"},
		etcd:       {"usr/local/bin/etcd"},
	} {
		layer := largestLayer(t, archive)
		for _, name := range names {
			if _, ok := layer[name]; !ok {
				t.Errorf("%s has no %s", archive, name)
			}
		}
		if h := layer["usr/local/bin/nnp"]; h != nil && h.Mode != 0o6755 {
			t.Errorf("nnp has mode %o", h.Mode)
		}
	}
}

// largestLayer returns the content of an archive's largest layer.
func largestLayer(t *testing.T, archive string) map[string]*tar.Header {
	t.Helper()
	file, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	layer := map[string]*tar.Header{}
	for r, most := tar.NewReader(file), int64(0); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return layer
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Size <= most {
			continue
		}
		most = h.Size
		for inner := tar.NewReader(r); ; {
			h, err := inner.Next()
			if err != nil {
				break
			}
			layer[h.Name] = h
		}
	}
}
