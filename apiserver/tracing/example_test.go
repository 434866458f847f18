package tracing_test

import (
	"fmt"

	"go.opentelemetry.io/otel/trace/noop"

	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/apiserver/tracing"
	"github.com/keelson-dev/keelson/authz/alwaysallow"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/storage/memory"
	storetracing "github.com/keelson-dev/keelson/storage/tracing"
)

// Any provider of OpenTelemetry will do: that of package keelson/tracing sends spans to a collector.
func Example() {
	provider := noop.NewTracerProvider()
	store := storetracing.New(memory.New(memory.Options{}))
	kinds, err := registry.New(store, core.Kinds(core.Options{}), registry.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	server := apiserver.New(kinds, apiserver.Options{Authorizer: alwaysallow.New(), Tracer: tracing.New(provider)})
	fmt.Printf("%T\n", server)
	// Output: *apiserver.Server
}
