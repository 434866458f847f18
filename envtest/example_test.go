package envtest_test

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keelson-dev/keelson/envtest"
)

// A suite: the definitions of a directory are installed, and a client works with their objects.
func Example() {
	env := &envtest.Environment{CRDDirectoryPaths: []string{"testdata/crds"}}
	config, err := env.Start()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() {
		if err := env.Stop(); err != nil {
			fmt.Println(err)
		}
	}()
	api, err := client.New(config, client.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	book := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Guestbook", "metadata": map[string]any{"name": "visitors", "namespace": "default"},
		"spec": map[string]any{"title": "Visitors"},
	}}
	if err := api.Create(context.Background(), book); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(book.Object["spec"])
	// Output: map[pages:10 title:Visitors]
}
