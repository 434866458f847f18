package serving_test

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/keelson-dev/keelson/apiserver/serving"
	"github.com/keelson-dev/keelson/pki"
)

// A handler is served until the context ends.
func Example() {
	authority, err := pki.New("kubernetes")
	if err != nil {
		fmt.Println(err)
		return
	}
	pair, err := authority.Issue(pki.Subject{Name: "apiserver", Hosts: []string{"127.0.0.1"}}, 24*time.Hour)
	if err != nil {
		fmt.Println(err)
		return
	}
	certificate, err := pair.TLS()
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	listener, err := serving.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	server := serving.New(listener, certificate, http.NotFoundHandler(), serving.Options{})
	stop() // at once, so that the example ends
	fmt.Println(server.Run(ctx))
	// Output: <nil>
}
