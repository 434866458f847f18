package main

import (
	"os"
	"strings"
	"testing"

	"github.com/keelson-dev/keelson/node/nodetools"
)

// TestDemo plays the whole demo on a cluster of its own, with real containers where they can run.
func TestDemo(t *testing.T) {
	cause := nodetools.Supported(t.Context())
	if cause != nil && os.Getenv("CI") == "true" {
		t.Fatal(cause)
	}
	var out strings.Builder
	if err := run(t.Context(), "", t.TempDir(), &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	want := []string{"starting one", "deployment.apps/nginx-demo created", "successfully rolled out", "scaled", "condition met", "done"}
	if cause == nil {
		want = append(want, "Welcome to nginx!", "nginx version", "GET / HTTP")
	} else {
		want = append(want, "in name only")
	}
	for _, text := range want {
		if !strings.Contains(out.String(), text) {
			t.Errorf("the demo does not say %q:\n%s", text, out.String())
		}
	}
}

// TestNoCluster: a named cluster that does not exist is an error, not a reason to start another.
func TestNoCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("builds kubectl")
	}
	var out strings.Builder
	if err := run(t.Context(), "/nowhere", t.TempDir(), &out); err == nil {
		t.Errorf("it played on nothing:\n%s", out.String())
	}
}
