// Assets writes programs into a directory that controller-runtime's envtest starts as its control plane: etcd and
// kube-apiserver. An operator's tests run on keelson without a change:
//
//	go run github.com/keelson-dev/keelson/examples/assets /tmp/assets
//	KUBEBUILDER_ASSETS=/tmp/assets go test ./...
//
// Both programs are copies of this one, which looks at its own name.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/pflag"
)

func main() {
	run := install
	switch filepath.Base(os.Args[0]) {
	case etcdName:
		run = runEtcd
	case apiServerName:
		run = runAPIServer
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the second signal ends the program at once
	err := run(ctx, os.Args[1:])
	stop()
	switch {
	case errors.Is(err, pflag.ErrHelp):
	case errors.Is(err, errUsage):
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// errUsage means that the command line is wrong.
var errUsage = errors.New("wrong command line; --help lists the flags")
