package ociimage_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/keelson-dev/keelson/node/ociimage"
)

// An image of one file, and its name in the archive.
func Example() {
	dir, err := os.MkdirTemp("", "images")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path, err := ociimage.Build(context.Background(), dir, ociimage.Recipe{
		Name:   "hello",
		Images: []ociimage.Image{{References: []string{"example.com/hello:v1"}}},
		Fill: func(_ context.Context, _ string, t *ociimage.Tree) error {
			t.File("etc/hello", 0o644, []byte("hello\n"))
			return nil
		},
	}, os.Stderr)
	if err != nil {
		fmt.Println(err)
		return
	}
	digests, err := ociimage.Digests(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	for name := range digests {
		fmt.Println(filepath.Base(path), "holds", name)
	}
	// Output: hello.tar holds example.com/hello:v1
}
