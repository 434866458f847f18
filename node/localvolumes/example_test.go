package localvolumes_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/keelson-dev/keelson/node/localvolumes"
)

// The volumes of a node are directories below its own.
func Example() {
	dir, err := os.MkdirTemp("", "nodes")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	d := localvolumes.New(func(node string) string { return filepath.Join(dir, node, "volumes") })
	path, err := d.Make(context.Background(), "node-0", "pvc-1")
	rel, _ := filepath.Rel(dir, path)
	fmt.Println(rel, err)
	// Output: node-0/volumes/pvc-1 <nil>
}
