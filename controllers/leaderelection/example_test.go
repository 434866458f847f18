package leaderelection_test

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/leaderelection"
	"github.com/keelson-dev/keelson/lifecycle"
)

func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	work := lifecycle.Func(func(ctx context.Context) error {
		fmt.Println("leading")
		cancel()
		<-ctx.Done()
		return nil
	})
	name := types.NamespacedName{Namespace: "kube-system", Name: "my-controllers"}
	api, err := controllerstest.New(controllerstest.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	elector, err := leaderelection.New(name, "host-1", api, work, leaderelection.Options{ReleaseOnCancel: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(lifecycle.Group(api, elector).Run(ctx))
	// Output:
	// leading
	// <nil>
}
