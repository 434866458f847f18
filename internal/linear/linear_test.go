package linear_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/authz/alwaysallow"
	"github.com/keelson-dev/keelson/internal/linear"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/memory"
)

// serve starts API servers over one store, until the test ends.
func serve(t testing.TB, store storage.Store, count int) []http.RoundTripper {
	t.Helper()
	var servers []http.RoundTripper
	for range count {
		reg, err := registry.New(store, core.Kinds(core.Options{}), registry.Options{})
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
		})
		if err := reg.WaitSynced(ctx); err != nil {
			t.Fatal(err)
		}
		servers = append(servers, transport)
	}
	return servers
}

// play runs a whole load and checks it.
func play(t testing.TB, servers []http.RoundTripper, operations int, o linear.Options) (linear.Report, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	l := linear.New(o)
	if err := l.Begin(ctx, servers); err != nil {
		t.Fatal(err)
	}
	l.Run(ctx, servers, operations, false)
	if err := l.Settle(ctx, servers); err != nil {
		return linear.Report{}, err
	}
	return l.Check()
}

func TestOneServer(t *testing.T) {
	for _, resource := range []string{"configmaps", "pods"} {
		t.Run(resource, func(t *testing.T) {
			store := memory.New(memory.Options{})
			t.Cleanup(func() { _ = store.Close() })
			r, err := play(t, serve(t, store, 1), 300, linear.Options{Resource: resource, Seed: 1})
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%+v", r)
		})
	}
}

func TestTwoServers(t *testing.T) {
	store := memory.New(memory.Options{})
	t.Cleanup(func() { _ = store.Close() })
	r, err := play(t, serve(t, store, 2), 300, linear.Options{Seed: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", r)
}
