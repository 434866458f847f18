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

	"github.com/keelson-dev/keelson/internal/nodetools"
)

// checkout is a copy of what Install reads of the repository.
func checkout(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for _, name := range []string{"go.mod", "tools/node/go.mod", "tools/node/go.sum"} {
		b, err := os.ReadFile(filepath.Join("../..", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// installs runs Install and returns what it told.
func installs(t *testing.T, root string) (nodetools.Tools, []string) {
	t.Helper()
	var lines []string
	tools, err := nodetools.Install(t.Context(), nodetools.Options{Root: root, Progress: func(l string) { lines = append(lines, l) }})
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
	root := checkout(t)
	if _, err := nodetools.Find(nodetools.Options{Root: root}); !errors.Is(err, nodetools.ErrMissing) || !strings.Contains(err.Error(), "make node-tools") {
		t.Fatalf("found before they were installed: %v", err)
	}
	// Two at once: one builds.
	var wg sync.WaitGroup
	var told [2][]string
	for i := range told {
		wg.Go(func() { _, told[i] = installs(t, root) })
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
	tools, lines := installs(t, root)
	if len(lines) > 0 {
		t.Errorf("the next call did something: %q", lines)
	}
	if found, err := nodetools.Find(nodetools.Options{Root: root}); err != nil || found != tools {
		t.Errorf("found %v, %v; installed %v", found, err, tools)
	}
	// What was damaged is built anew, and nothing but it changes names.
	if err := os.Truncate(tools.CNI+"/bridge", 100); err != nil {
		t.Fatal(err)
	}
	if _, err := nodetools.Find(nodetools.Options{Root: root}); err == nil || !strings.Contains(err.Error(), "cni/bridge") {
		t.Errorf("damaged, and found: %v", err)
	}
	if _, lines := installs(t, root); len(lines) == 0 {
		t.Error("damaged, and left so")
	}
	// Other versions are other programs.
	sums := filepath.Join(root, "tools/node/go.sum")
	b, err := os.ReadFile(sums)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(sums, append(b, b[:strings.Index(string(b), "\n")+1]...), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := nodetools.Find(nodetools.Options{Root: root}); err == nil || !strings.Contains(err.Error(), "versions") {
		t.Errorf("of other versions, and found: %v", err)
	}
}

func TestInstallEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := nodetools.Install(ctx, nodetools.Options{Root: checkout(t)}); err == nil {
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
	fmt.Println(nodetools.At("/checkout").Containerd)
	_, err := nodetools.Find(nodetools.Options{Root: "/nowhere"})
	fmt.Println(err != nil)
	// Output:
	// /checkout/bin/node/containerd
	// true
}
