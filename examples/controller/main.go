package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
)

// main runs the reconciler against the cluster of the current kubeconfig.
func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{Scheme: scheme.Scheme})
	if err != nil {
		return err
	}
	if err := (&Reconciler{}).SetUp(manager); err != nil {
		return err
	}
	return manager.Start(ctx)
}
