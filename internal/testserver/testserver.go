// Package testserver runs a real API server of the core kinds inside a test, in memory and without sockets, for tests
// of clients.
package testserver

import (
	"context"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/authz/alwaysallow"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/storage/memory"
)

// Start runs a server that allows everything until the test ends, and returns a configuration for clients and its
// registry. Its identifiers are the same in every run.
func Start(t testing.TB) (*rest.Config, *registry.Registry) {
	t.Helper()
	store := memory.New(memory.Options{})
	reg, err := registry.New(store, core.Kinds(core.Options{}), registry.Options{Identifiers: registry.Seeded(1)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- reg.Run(ctx) }()
	transport := apiserver.NewTransport(apiserver.New(reg, apiserver.Options{Authorizer: alwaysallow.New()}), nil)
	t.Cleanup(func() {
		transport.Close()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := reg.WaitSynced(ctx); err != nil {
		t.Fatal(err)
	}
	return &rest.Config{Host: "http://in.process", Transport: transport, QPS: -1}, reg
}
