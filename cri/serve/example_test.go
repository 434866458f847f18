package serve_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/keelson-dev/keelson/cri/remote"
	"github.com/keelson-dev/keelson/cri/serve"
	"github.com/keelson-dev/keelson/cri/simulated"
)

// A simulated runtime behind a socket, and a client of it.
func Example() {
	dir, err := os.MkdirTemp("", "serve")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	runtime := simulated.New(simulated.Options{})
	defer runtime.Close()

	socket := filepath.Join(dir, "cri.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	served := make(chan error, 1)
	go func() { served <- serve.New(runtime).Run(ctx, listener) }()

	client, err := remote.New(socket, remote.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(client.Version(ctx))
	fmt.Println(client.Close())
	cancel()
	fmt.Println(<-served)
	// Output:
	// {simulated 1.0} <nil>
	// <nil>
	// <nil>
}
