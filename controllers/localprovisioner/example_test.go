package localprovisioner_test

import (
	"context"
	"fmt"

	"github.com/keelson-dev/keelson/controllers/localprovisioner"
)

// Directories of simulated nodes exist in name only.
func ExampleNames() {
	ctx := context.Background()
	var names localprovisioner.Names
	path, err := names.Make(ctx, "node-0", "pvc-1")
	fmt.Println(path, err, names.Has("node-0", "pvc-1"), names.Has("node-1", "pvc-1"))
	fmt.Println(names.Remove(ctx, "node-0", "pvc-1"), names.Has("node-0", "pvc-1"))
	// Output:
	// /var/lib/keelson/volumes/pvc-1 <nil> true false
	// <nil> false
}
