// Storage backs up, restores, copies and compares the state of clusters: an embedded cluster's directory, an
// etcd, and snapshot files.
//
//	go run ./examples/storage snapshot wal:$HOME/.keelson/store backup.snapshot
//	go run ./examples/storage restore backup.snapshot etcd:http://127.0.0.1:2379
//	go run ./examples/storage --help
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	// The first Ctrl-C stops the command gracefully, the second one at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	interrupted := ctx.Err() != nil
	stop()
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
	case interrupted && errors.Is(err, context.Canceled):
		fmt.Fprintln(os.Stderr, "interrupted:", err)
		os.Exit(130)
	case errors.Is(err, errUsage):
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}
