package etcdtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/keelson-dev/keelson/node/filelock"
)

// Binary returns the path of bin/etcd, which it builds if necessary. If that is impossible, it skips the test, or fails
// it with CI=true.
func Binary(t testing.TB) string {
	t.Helper()
	path, err := build(t.Context())
	switch {
	case err == nil:
	case os.Getenv("CI") == "true":
		t.Fatalf("etcd: %v", err)
	default:
		t.Skipf("etcd: %v", err)
	}
	return path
}

func build(ctx context.Context) (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	path := filepath.Join(root, "bin", "etcd")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", fmt.Errorf("build: %w", err)
	}
	unlock, err := filelock.Take(ctx, path+".lock", nil) // other packages' tests may build it too
	if err != nil {
		return "", fmt.Errorf("build: %w", err)
	}
	defer unlock()
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", path, ".")
	cmd.Dir = filepath.Join(root, "tools", "etcd")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return path, nil
}

// moduleRoot is the nearest parent of the working directory that has this module's go.mod: nested modules, such as
// conformance's, use this package too.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	for {
		mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && bytes.HasPrefix(mod, []byte("module github.com/keelson-dev/keelson\n")) {
			return dir, nil
		}
		if filepath.Dir(dir) == dir {
			return "", errors.New("find the module: the working directory is not in it")
		}
		dir = filepath.Dir(dir)
	}
}
