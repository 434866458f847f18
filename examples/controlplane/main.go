// Controlplane is an API server with one custom typed kind and nothing else: no controllers, no nodes, no built-in
// kinds. It serves on loopback until interrupted.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/authz/alwaysallow"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/storage/memory"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8001", "loopback address to serve on, without TLS and authentication")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *listen)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, listen string) error {
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return fmt.Errorf("cannot serve on %s, choose another address with -listen: %w", listen, err)
	}
	if !listener.Addr().(*net.TCPAddr).IP.IsLoopback() {
		return errors.Join(fmt.Errorf("%s is not a loopback address", listen), listener.Close())
	}
	fmt.Printf("try: curl http://%s/apis/shop.example.com/v1/namespaces/default/carts\n", listener.Addr())
	return serve(ctx, listener)
}

// serve assembles store, registry and API server, and runs them until the context ends.
func serve(ctx context.Context, listener net.Listener) (err error) {
	store := memory.New(memory.Options{})
	defer func() { err = errors.Join(err, store.Close()) }()
	reg, err := registry.New(store, []registry.Kind{Carts()}, registry.Options{})
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler:           apiserver.New(reg, apiserver.Options{Authorizer: alwaysallow.New()}),
		ReadHeaderTimeout: 10 * time.Second,
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	err = reg.Run(ctx)
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err = errors.Join(err, server.Shutdown(stopping))
	if serveErr := <-served; !errors.Is(serveErr, http.ErrServerClosed) {
		err = errors.Join(err, serveErr)
	}
	return err
}
