package reconciler_test

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/reconciler"
)

// hello is a controller that greets.
type hello struct{}

func (hello) Name() string                                 { return "hello" }
func (hello) Watch(controllers.Queue) []controllers.Synced { return nil }
func (hello) Reconcile(_ context.Context, k controllers.Key) (controllers.Result, error) {
	fmt.Println("hello", k)
	return controllers.Result{}, nil
}

func ExampleNew() {
	r := reconciler.New(hello{})
	request := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "default", Name: "world"}}
	if _, err := r.Reconcile(context.Background(), request); err != nil {
		fmt.Println(err)
	}
	// Output: hello default/world
}
