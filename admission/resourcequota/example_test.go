package resourcequota_test

import (
	"context"
	"fmt"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/resourcequota"
)

// A namespace may have one pod. Its quota is in memory.
func Example() {
	quotas := newShelf(quotaOf("small", "pods=1", "pods=0"))
	plugin := resourcequota.New(quotas, quotas, resourcequota.Options{})
	for range 2 {
		fmt.Println(plugin.Validate(context.Background(), request("pods", admission.Create, podOf("", ""), nil)))
	}
	// Output:
	// <nil>
	// pods "p" is forbidden: exceeded quota: small, requested: pods=1, used: pods=1, limited: pods=1
}
