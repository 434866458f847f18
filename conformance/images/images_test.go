package images_test

import (
	"maps"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/keelson-dev/keelson/conformance/images"
	"github.com/keelson-dev/keelson/internal/ociimage"
	"github.com/keelson-dev/keelson/internal/upstream"
)

// TestBuild makes the stand-ins, once into the repository's bin directory, and finds upstream's names in them.
func TestBuild(t *testing.T) {
	for _, program := range []string{"apt-get", "dpkg-deb", "gcc"} {
		if _, err := exec.LookPath(program); err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatal(err)
			}
			t.Skip(err)
		}
	}
	kubernetes, err := upstream.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	paths, err := images.Build(t.Context(), kubernetes, images.Dir(kubernetes), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]string{}
	for _, path := range paths {
		digests, err := ociimage.Digests(path)
		if err != nil {
			t.Fatal(err)
		}
		maps.Copy(have, digests)
	}
	const tests = "registry.k8s.io/e2e-test-images/"
	for _, name := range []string{
		tests + "agnhost:2.63.0", tests + "agnhost:2.55", tests + "busybox:1.37.0-1", tests + "glibc-dns-testing:2.0.0", tests + "kitten:1.8",
		tests + "nautilus:1.8", tests + "nginx:1.15-4", tests + "nginx:1.27-0", tests + "nonewprivs:1.4", "registry.k8s.io/pause:3.10.2",
	} {
		if have[name] == "" {
			t.Errorf("no %s among %v", name, slices.Sorted(maps.Keys(have)))
		}
	}
	if have[tests+"agnhost:2.63.0"] == have[tests+"agnhost:2.55"] {
		t.Error("the two versions of agnhost cannot be told apart")
	}
}
