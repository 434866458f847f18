package ociimage_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/keelson-dev/keelson/node/ociimage"
)

// registry serves the archive of the small recipe.
func registry(t *testing.T) (r *ociimage.Registry, archive string) {
	t.Helper()
	count := 0
	archive = build(t, t.TempDir(), recipe(&count))
	r, err := ociimage.NewRegistry(archive)
	if err != nil {
		t.Fatal(err)
	}
	return r, archive
}

// TestPull: a client of others pulls from it, by tag and by digest.
func TestPull(t *testing.T) {
	r, archive := registry(t)
	server := httptest.NewServer(r)
	defer server.Close()
	digests, err := ociimage.Digests(archive)
	if err != nil {
		t.Fatal(err)
	}
	host := strings.TrimPrefix(server.URL, "http://")
	for reference, full := range map[string]string{
		"/library/small:latest": "docker.io/library/small:latest",
		"/small:2":              "example.com/small:2",
		"/small@" + digests["example.com/small:2"]: "example.com/small:2",
	} {
		ref, err := name.ParseReference(host + reference)
		if err != nil {
			t.Fatal(err)
		}
		image, err := remote.Image(ref, remote.WithContext(t.Context()))
		if err != nil {
			t.Errorf("%s: %v", reference, err)
			continue
		}
		if err := validate.Image(image, validate.Fast); err != nil {
			t.Errorf("%s: %v", reference, err)
		}
		if digest, err := image.Digest(); err != nil || digest.String() != digests[full] {
			t.Errorf("%s: %v, %v; want %s", reference, digest, err, digests[full])
		}
	}
}

// TestPrivate: without the right word nothing is pulled.
func TestPrivate(t *testing.T) {
	r, _ := registry(t)
	server := httptest.NewServer(ociimage.Private(r, "user", "word"))
	defer server.Close()
	ref, err := name.ParseReference(strings.TrimPrefix(server.URL, "http://") + "/library/small:latest")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		auth authn.Authenticator
		code int
	}{
		{authn.Anonymous, http.StatusUnauthorized},
		{&authn.Basic{Username: "user", Password: "wrong"}, http.StatusUnauthorized},
		{&authn.Basic{Username: "user", Password: "word"}, 0},
	} {
		_, err := remote.Image(ref, remote.WithContext(t.Context()), remote.WithAuth(c.auth))
		var failure *transport.Error
		switch {
		case errors.As(err, &failure) && failure.StatusCode != c.code:
			t.Errorf("%+v: %d, want %d", c.auth, failure.StatusCode, c.code)
		case failure == nil && (err != nil || c.code != 0):
			t.Errorf("%+v: %v, want %d", c.auth, err, c.code)
		}
	}
}

func TestRegistryAnswers(t *testing.T) {
	r, archive := registry(t)
	digests, err := ociimage.Digests(archive)
	if err != nil {
		t.Fatal(err)
	}
	digest := digests["example.com/small:1"]
	for _, c := range []struct {
		method, target string
		code           int
		body           string
	}{
		{"GET", "/v2/", 200, "{}"},
		{"GET", "/", 404, "NAME_UNKNOWN"},
		{"GET", "/v2/x", 404, "NAME_UNKNOWN"},
		{"GET", "/v2/small/manifests/1", 200, "schemaVersion"},
		{"HEAD", "/v2/small/manifests/1", 200, ""},
		{"GET", "/v2/small/manifests/1?ns=example.com", 200, "schemaVersion"},
		{"GET", "/v2/small/manifests/1?ns=docker.io", 404, "MANIFEST_UNKNOWN"},
		{"GET", "/v2/small/manifests/3", 404, "MANIFEST_UNKNOWN"},
		{"GET", "/v2/small/manifests/" + digest, 200, "schemaVersion"},
		{"GET", "/v2/small/blobs/" + digest, 200, "schemaVersion"},
		{"GET", "/v2/small/blobs/sha256:00", 404, "BLOB_UNKNOWN"},
		{"PUT", "/v2/small/manifests/1", 405, "UNSUPPORTED"},
	} {
		w := httptest.NewRecorder()
		r.ServeHTTP(w, httptest.NewRequest(c.method, c.target, nil))
		body, err := io.ReadAll(w.Result().Body)
		if err != nil || w.Code != c.code || !strings.Contains(string(body), c.body) || c.body == "" && len(body) > 0 {
			t.Errorf("%s %s: %d %q, %v; want %d %q", c.method, c.target, w.Code, body, err, c.code, c.body)
		}
	}
}

func TestBadArchive(t *testing.T) {
	for name, content := range map[string]string{"empty": "", "text": strings.Repeat("no archive\n", 100)} {
		path := filepath.Join(t.TempDir(), "x.tar")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ociimage.NewRegistry(path); !errors.Is(err, ociimage.ErrArchive) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := ociimage.Digests(filepath.Join(t.TempDir(), "missing")); !errors.Is(err, ociimage.ErrArchive) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

// FuzzRegistry: no file makes it panic, and what it takes it can serve.
func FuzzRegistry(f *testing.F) {
	count, dir := 0, f.TempDir()
	r := recipe(&count)
	archive, err := ociimage.Build(f.Context(), dir, r, nil)
	if err != nil {
		f.Fatal(err)
	}
	content, err := os.ReadFile(archive)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(content)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, content []byte) {
		path := filepath.Join(t.TempDir(), "x.tar")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := ociimage.NewRegistry(path)
		if err != nil {
			if !errors.Is(err, ociimage.ErrArchive) {
				t.Error(err)
			}
			return
		}
		w := httptest.NewRecorder()
		r.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v2/small/manifests/2", nil))
		if w.Code >= 500 {
			t.Error(w.Code)
		}
	})
}
