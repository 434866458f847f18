package nodetools_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/keelson-dev/keelson/node/nodetools"
)

// TestPins: what is built is what tools/node pins.
func TestPins(t *testing.T) {
	for _, name := range []string{"mod", "sum"} {
		want, err := os.ReadFile("../../tools/node/go." + name)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile("pinned." + name); err != nil || string(got) != string(want) {
			t.Errorf("pinned.%s differs from tools/node/go.%s, %v: go generate ./node/nodetools", name, name, err)
		}
	}
}

// installs runs Install and returns what it told.
func installs(t *testing.T, dir string) (nodetools.Tools, []string) {
	t.Helper()
	var lines []string
	tools, err := nodetools.Install(t.Context(), nodetools.Options{Dir: dir, Progress: func(l string) { lines = append(lines, l) }})
	if err != nil {
		t.Fatal(err)
	}
	return tools, lines
}

func TestInstall(t *testing.T) {
	if testing.Short() {
		t.Skip("builds everything")
	}
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("CI runs as root on Linux")
		}
		t.Skip("needs root on Linux")
	}
	dir := filepath.Join(t.TempDir(), "tools")
	if _, err := nodetools.Find(nodetools.Options{Dir: dir}); !errors.Is(err, nodetools.ErrMissing) || !strings.Contains(err.Error(), "install them into "+dir) {
		t.Fatalf("found before they were installed: %v", err)
	}
	// Two at once: one builds.
	var wg sync.WaitGroup
	var told [2][]string
	for i := range told {
		wg.Go(func() { _, told[i] = installs(t, dir) })
	}
	wg.Wait()
	builds := 0
	for _, line := range slices.Concat(told[0], told[1]) {
		if strings.HasPrefix(line, "built ") {
			builds++
		}
	}
	if builds != 4 {
		t.Errorf("%d builds, want 4: %q", builds, told)
	}
	tools, lines := installs(t, dir)
	if len(lines) > 0 {
		t.Errorf("the next call did something: %q", lines)
	}
	if found, err := nodetools.Find(nodetools.Options{Dir: dir}); err != nil || found != tools {
		t.Errorf("found %v, %v; installed %v", found, err, tools)
	}
	// What was damaged is built anew, and nothing but it changes names.
	if err := os.Truncate(tools.CNI+"/bridge", 100); err != nil {
		t.Fatal(err)
	}
	if _, err := nodetools.Find(nodetools.Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), "cni/bridge") {
		t.Errorf("damaged, and found: %v", err)
	}
	if _, lines := installs(t, dir); len(lines) == 0 {
		t.Error("damaged, and left so")
	}
	// Other versions are other programs.
	stamp := filepath.Join(dir, "stamp.json")
	b, err := os.ReadFile(stamp)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(stamp, []byte(strings.Replace(string(b), `"Source": "`, `"Source": "0`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if names, err := filepath.Glob(filepath.Join(dir, ".module-*")); err != nil || len(names) > 0 {
		t.Errorf("left behind: %v, %v", names, err)
	}
	if _, err := nodetools.Find(nodetools.Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), "versions") {
		t.Errorf("of other versions, and found: %v", err)
	}
}

func TestInstallEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := nodetools.Install(ctx, nodetools.Options{Dir: t.TempDir()}); err == nil {
		t.Error("installed after the end")
	}
}

func TestNoCheckout(t *testing.T) {
	t.Chdir(t.TempDir())
	if _, err := nodetools.Find(nodetools.Options{}); !errors.Is(err, nodetools.ErrMissing) {
		t.Error(err)
	}
	if _, err := nodetools.Install(t.Context(), nodetools.Options{}); !errors.Is(err, nodetools.ErrMissing) {
		t.Error(err)
	}
}

func TestSupported(t *testing.T) {
	err := nodetools.Supported(t.Context())
	if os.Getenv("CI") == "true" && err != nil {
		t.Fatal(err)
	}
	if err != nil && !errors.Is(err, nodetools.ErrUnsupported) {
		t.Errorf("not ErrUnsupported: %v", err)
	}
}

func Example() {
	fmt.Println(nodetools.At("/opt/node").Containerd)
	_, err := nodetools.Find(nodetools.Options{Dir: "/nowhere"})
	fmt.Println(err != nil)
	// Output:
	// /opt/node/containerd
	// true
}
