package controllers_test

import (
	"context"
	"fmt"

	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/lifecycle"
)

// greeter is a controller without informers: it enqueues one key and says hello to it.
type greeter struct{ done context.CancelFunc }

func (g greeter) Name() string { return "greeter" }

func (g greeter) Watch(q controllers.Queue) []controllers.Synced {
	q.Add(controllers.Key{Namespace: "default", Name: "world"})
	return nil
}

func (g greeter) Reconcile(_ context.Context, key controllers.Key) (controllers.Result, error) {
	fmt.Println("hello", key)
	g.done()
	return controllers.Result{}, nil
}

func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	loop := controllers.NewLoop(greeter{done: cancel}, controllers.Options{})
	fmt.Println(lifecycle.Group(loop).Run(ctx))
	// Output:
	// hello default/world
	// <nil>
}
