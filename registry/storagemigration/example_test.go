package storagemigration_test

import (
	"fmt"

	"github.com/keelson-dev/keelson/registry/storagemigration"
)

// The kinds are for a registry.Registry.
func Example() {
	for _, k := range storagemigration.Kinds() {
		fmt.Println(k.GroupResource(), k.GroupVersion.Version)
	}
	// Output:
	// storageversionmigrations.storagemigration.k8s.io v1
}
