package admittest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/keelson-dev/keelson/cluster/admit"
	"github.com/keelson-dev/keelson/cluster/admit/admittest"
)

// TestFiles: a case without want is written, and then passes.
func TestFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.yaml")
	const text = "name: a config map\ncreate: {apiVersion: v1, kind: ConfigMap, metadata: {name: settings}}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	admittest.Files(t, path, true, admit.Options{})
	written, err := os.ReadFile(path)
	if err != nil || !strings.HasPrefix(string(written), text+"want:\n") {
		t.Fatalf("%s %v", written, err)
	}
	admittest.Files(t, filepath.Join(filepath.Dir(path), "*.yaml"), false, admit.Options{})
	again, err := os.ReadFile(path)
	if err != nil || string(again) != string(written) {
		t.Errorf("%s %v", again, err)
	}
}

func Example() {
	// In a test:
	var t *testing.T
	_ = func() { admittest.Files(t, "testdata/*.yaml", false, admit.Options{}) }
}
