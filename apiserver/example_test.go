package apiserver_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/authz/alwaysallow"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/storage/memory"
)

// A server is a handler over a registry. Here an ordinary http.Client calls it in process.
func Example() {
	store := memory.New(memory.Options{})
	reg, err := registry.New(store, core.Kinds(core.Options{}), registry.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	ended := make(chan error)
	go func() { ended <- reg.Run(ctx) }()
	if err := reg.WaitSynced(ctx); err != nil {
		fmt.Println(err)
	}

	transport := apiserver.NewTransport(apiserver.New(reg, apiserver.Options{Authorizer: alwaysallow.New()}), nil)
	client := &http.Client{Transport: transport}
	show := func(r *http.Response, err error) {
		if err != nil {
			fmt.Println(err)
			return
		}
		defer r.Body.Close()
		body, err := io.ReadAll(r.Body)
		fmt.Println(r.Status, err)
		for _, part := range []string{`"kind":"Namespace"`, `"phase":"Active"`, `"reason":"AlreadyExists"`} {
			if strings.Contains(string(body), part) {
				fmt.Println(" ", part)
			}
		}
	}
	const namespaces = "http://keelson/api/v1/namespaces"
	show(client.Post(namespaces, "application/json", strings.NewReader(`{"metadata":{"name":"shop"}}`)))
	show(client.Post(namespaces, "application/json", strings.NewReader(`{"metadata":{"name":"shop"}}`)))
	show(client.Get(namespaces + "/shop"))

	transport.Close()
	stop()
	fmt.Println(<-ended, store.Close())
	// Output:
	// 201 Created <nil>
	//   "kind":"Namespace"
	//   "phase":"Active"
	// 409 Conflict <nil>
	//   "reason":"AlreadyExists"
	// 200 OK <nil>
	//   "kind":"Namespace"
	//   "phase":"Active"
	// <nil> <nil>
}
