// Cluster is a Kubernetes cluster in one process: API server over TLS, durable storage, controllers,
// scheduler and simulated nodes. kubectl and every other client of Kubernetes work with it.
//
//	go run ./examples/cluster
//	kubectl --kubeconfig ~/.keelson/kubeconfig create deployment nginx --image=nginx --replicas=3
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	began := time.Now()
	if len(os.Args) == 2 && os.Args[1] == hostCommand {
		os.Exit(hostMain(context.Background()))
	}
	s, err := parse(os.Args[1:], os.Getenv, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(2)
	}
	// The first Ctrl-C stops the cluster gracefully, the second one at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	err = run(ctx, s, began, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}
