package linear_test

import (
	"context"
	"fmt"
	"net/http"

	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/authz/alwaysallow"
	"github.com/keelson-dev/keelson/internal/linear"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/storage/memory"
)

// A load can use any servers; the whole record is checked at the end.
func Example() {
	store := memory.New(memory.Options{})
	reg, err := registry.New(store, core.Kinds(core.Options{}), registry.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- reg.Run(ctx) }()
	transport := apiserver.NewTransport(apiserver.New(reg, apiserver.Options{Authorizer: alwaysallow.New()}), nil)
	servers := []http.RoundTripper{transport}

	load := linear.New(linear.Options{Seed: 1})
	if err := load.Begin(ctx, servers); err != nil {
		fmt.Println(err)
	}
	load.Run(ctx, servers, 20, false)
	if err := load.Settle(ctx, servers); err != nil {
		fmt.Println(err)
	}
	report, err := load.Check()
	fmt.Println(report.Operations > 120, report.Events > 0, err)

	transport.Close()
	stop()
	fmt.Println(<-ended, store.Close())
	// Output:
	// true true <nil>
	// <nil> <nil>
}
