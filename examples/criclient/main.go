// Criclient drives a container runtime with package cri alone: it pulls an image, runs a container in a sandbox, prints
// its log, runs a command in it and cleans up. It does not need Kubernetes.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/keelson-dev/keelson/cri/remote"
)

const usage = `criclient drives a container runtime through CRI.

  criclient [flags]                        shows it all: pulls, runs, execs, prints the log, removes
  criclient [flags] run [COMMAND...]       runs a container until "rm"; prints its sandbox and its own id
  criclient [flags] ps                     lists containers
  criclient [flags] exec ID COMMAND...     runs a command in a container
  criclient [flags] logs ID                prints a container's log
  criclient [flags] rm SANDBOX...          removes sandboxes with their containers

Flags:
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "criclient:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := pflag.NewFlagSet("criclient", pflag.ContinueOnError)
	flags.SetInterspersed(false)
	endpoint := flags.String("endpoint", remote.DefaultEndpoint, "socket of the runtime")
	image := flags.String("image", "docker.io/library/busybox:latest", "image to run; it needs a shell unless a command is given")
	logs := flags.String("log-directory", filepath.Join(os.TempDir(), "criclient"), "where the runtime writes logs")
	timeout := flags.Duration("timeout", 2*time.Minute, "how long it all may take")
	flags.Usage = func() { fmt.Fprint(out, usage, flags.FlagUsages()) }
	if err := flags.Parse(args); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, *timeout)
	defer cancel()
	runtime, err := remote.New(*endpoint, remote.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, runtime.Close()) }()
	c := client{runtime, out, *image, *logs}
	words := flags.Args()
	switch command := cmp.Or(strings.Join(words[:min(1, len(words))], ""), "show"); {
	case command == "show":
		return c.show(ctx)
	case command == "run":
		sandbox, container, err := c.start(ctx, words[1:])
		fmt.Fprintln(out, sandbox, container)
		return err
	case command == "ps" && len(words) == 1:
		return c.list(ctx)
	case command == "exec" && len(words) > 2:
		return c.exec(ctx, words[1], words[2:])
	case command == "logs" && len(words) == 2:
		return c.log(ctx, words[1])
	case command == "rm" && len(words) > 1:
		for _, sandbox := range words[1:] {
			err = errors.Join(err, c.RemovePodSandbox(ctx, sandbox))
		}
		return err
	}
	return fmt.Errorf("%q is not a command, or lacks something; see --help", strings.Join(words, " "))
}
