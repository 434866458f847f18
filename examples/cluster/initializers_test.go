package main

import (
	"path/filepath"
	"testing"

	"github.com/keelson-dev/keelson/internal/kubectl"
)

// TestInitializers plays a script, as TestKubectl does, on a cluster with initializers.
func TestInitializers(t *testing.T) {
	t.Parallel()
	path, err := kubectl.Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s, err := readScript("testdata/initializers/initializers.txt")
	if err != nil {
		t.Fatal(err)
	}
	process := started(t, program(t), filepath.Join(t.TempDir(), "data"), "--storage", "memory", "--enable-admission-plugins", "Initializers")
	play(t, s, path, process)
	if err := process.Interrupt(); err != nil {
		t.Error(err)
	}
}
