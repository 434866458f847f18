// Command install installs the programs for a node of real containers into bin/node and prints their paths.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/keelson-dev/keelson/node/nodetools"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "install:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	tools, err := nodetools.Install(ctx, nodetools.Options{Progress: func(line string) { fmt.Fprintln(os.Stderr, line) }})
	if err != nil {
		return err
	}
	fmt.Println(tools.Containerd, tools.Shim, tools.Ctr, tools.Runc, tools.CNI)
	// The tools are useful elsewhere, too: for example for an image that is built here.
	if err := nodetools.Supported(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "note:", err)
	}
	return nil
}
