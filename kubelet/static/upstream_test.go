package static_test

import (
	"encoding/json"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/kubelet/static"
)

// TestReferencesAsUpstream compares with what Kubernetes 1.36.1 (pkg/api/pod) refuses of random specs.
func TestReferencesAsUpstream(t *testing.T) {
	data, err := os.ReadFile("testdata/references.json")
	if err != nil {
		t.Fatal(err)
	}
	var facts []struct {
		Spec            corev1.PodSpec
		Resource, Error string
	}
	if err := json.Unmarshal(data, &facts); err != nil {
		t.Fatal(err)
	}
	for i, f := range facts {
		want := f.Error
		if f.Resource != "" {
			want = "static pods may not reference " + f.Resource
		}
		got := ""
		if err := static.CheckReferences(&corev1.Pod{Spec: f.Spec}); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%d: got %q, want %q", i, got, want)
		}
	}
}
