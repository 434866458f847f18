package localvolumes_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/keelson-dev/keelson/controllers/localprovisioner"
	"github.com/keelson-dev/keelson/node/localvolumes"
)

var _ localprovisioner.Directories = (*localvolumes.Directories)(nil)

func of(root string) *localvolumes.Directories {
	return localvolumes.New(func(node string) string {
		if node != "here" {
			return ""
		}
		return root
	})
}

func TestDirectories(t *testing.T) {
	root, ctx := filepath.Join(t.TempDir(), "volumes"), t.Context()
	d := of(root)
	if !d.Serves("here") || d.Serves("there") {
		t.Error("which nodes are here")
	}
	dir, err := d.Make(ctx, "here", "pvc-1")
	if err != nil || dir != filepath.Join(root, "pvc-1") {
		t.Fatal(dir, err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o777 {
		t.Errorf("%v, %v", info, err)
	}
	file := filepath.Join(dir, "sub", "file")
	if err := errors.Join(os.Mkdir(filepath.Dir(file), 0o700), os.WriteFile(file, []byte("1"), 0o400)); err != nil {
		t.Fatal(err)
	}
	// Making it again changes nothing, removing it leaves others, and may be repeated.
	if again, err := d.Make(ctx, "here", "pvc-1"); err != nil || again != dir {
		t.Error(again, err)
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != "1" {
		t.Error(string(data), err)
	}
	if _, err := d.Make(ctx, "here", "pvc-2"); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := d.Remove(ctx, "here", "pvc-1"); err != nil {
			t.Error(err)
		}
	}
	left, err := os.ReadDir(root)
	if err != nil || len(left) != 1 || left[0].Name() != "pvc-2" {
		t.Errorf("left %v, %v", left, err)
	}
}

func TestErrors(t *testing.T) {
	root, ctx := t.TempDir(), t.Context()
	d := of(root)
	for _, name := range []string{"", ".", "..", "a/b", "../x", "a\x00"} {
		if _, err := d.Make(ctx, "here", name); !errors.Is(err, localvolumes.ErrName) {
			t.Errorf("made %q: %v", name, err)
		}
		if err := d.Remove(ctx, "here", name); !errors.Is(err, localvolumes.ErrName) {
			t.Errorf("removed %q: %v", name, err)
		}
	}
	if _, err := d.Make(ctx, "there", "pvc-1"); err == nil || err.Error() != "node there has no volumes here" {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(root, "pvc-1"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Make(ctx, "here", "pvc-1"); err == nil {
		t.Error("a file was taken for a directory")
	}
}
