package tracing_test

import (
	"context"
	"fmt"
	"os/signal"
	"syscall"

	"github.com/keelson-dev/keelson/tracing"
)

// A program sends its spans to the collector of a file, until it is told to end.
func Example() {
	config, err := tracing.Open("tracing.yaml")
	if err != nil {
		fmt.Println(err)
		return
	}
	provider, err := tracing.New(config, tracing.Options{Service: "apiserver"})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := provider.Run(ctx); err != nil {
		fmt.Println(err)
	}
}
