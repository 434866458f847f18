package customresources_test

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/cluster/customresources"
)

// A cluster that serves definitions.
func Example() {
	c, err := cluster.Start(context.Background(), cluster.Options{
		Extensions: []cluster.Extension{customresources.Extension(customresources.Options{})},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, ok := c.Registry().Resource(schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"})
	fmt.Println(ok, c.Close())
	// Output: true <nil>
}
