// Controllers is a controller manager for any Kubernetes API server: it runs keelson's controllers, given only a
// kubeconfig. Copy it and change what you like: your own controller is one more component.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/keelson-dev/keelson/client/kubeconfig"
	"github.com/keelson-dev/keelson/component"
	"github.com/keelson-dev/keelson/component/controllermanager"
	"github.com/keelson-dev/keelson/component/remote"
)

const usage = `controllers runs the controllers of a cluster against its API server, as kube-controller-manager does.

  controllers --kubeconfig FILE [flags]

One of several processes works at a time: the one that holds the Lease kube-controller-manager in kube-system, which
upstream's program takes, too. The kubeconfig leads to the server as somebody who may do what all controllers may.

Ctrl-C and kill end it; the next one goes on.

Flags:
`

// settings are the values of the flags.
type settings struct {
	kubeconfig, rootCA string
	leave              []string
	elect, verbose     bool
	nodes              nodeNetworks
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stderr)
	stop()
	if err != nil && !errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "controllers:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	s, err := parse(args, out)
	if err != nil {
		return err
	}
	components, err := s.components()
	if err != nil {
		return err
	}
	access, err := kubeconfig.Load(kubeconfig.Options{Path: s.kubeconfig})
	if err != nil {
		return err
	}
	config := access.Config
	config.QPS, config.Burst = 20, 30 // upstream's limits, for each controller
	o := remote.Options{RootCA: config.CAData, Logger: s.logger(out)}
	if file := cmp.Or(s.rootCA, config.CAFile); file != "" {
		if o.RootCA, err = os.ReadFile(file); err != nil {
			return fmt.Errorf("the authority by which pods verify the API server: %w", err)
		}
	}
	if s.elect {
		hostname, err := os.Hostname()
		if err != nil {
			return err
		}
		o.Lease = &remote.Lease{
			Name:     types.NamespacedName{Namespace: "kube-system", Name: "kube-controller-manager"},
			Identity: hostname + "_" + string(uuid.NewUUID()),
		}
		o.Lease.Options.ReleaseOnCancel = true
	}
	m, err := remote.New(config, scheme.Scheme, components, o)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d controllers for %s\n", len(components), config.Host)
	return m.Run(ctx)
}

// components are the controllers to run.
func (s settings) components() ([]component.Component, error) {
	all := controllermanager.Components()
	if s.nodes.allocate {
		o, err := s.nodes.options()
		if err != nil {
			return nil, err
		}
		all = append(all, controllermanager.NodeIPAM(o))
	}
	all, err := component.Without(all, s.leave...)
	if err != nil {
		return nil, fmt.Errorf("--without: %w", err)
	}
	return all, nil
}

func (s settings) logger(out io.Writer) *slog.Logger {
	level := slog.LevelInfo
	if s.verbose {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: level}))
}

func parse(args []string, out io.Writer) (s settings, err error) {
	f := pflag.NewFlagSet("controllers", pflag.ContinueOnError)
	f.SortFlags = false
	f.StringVar(&s.kubeconfig, "kubeconfig", "", "file that leads to the API server (required)")
	f.StringSliceVar(&s.leave, "without", nil, "controllers to leave out; there are "+strings.Join(component.Names(controllermanager.Components()), ", "))
	f.BoolVar(&s.elect, "leader-elect", true, "run only while holding the Lease kube-controller-manager")
	f.StringVar(&s.rootCA, "root-ca-file", "", "authority by which pods verify the API server (default: the kubeconfig's)")
	s.nodes.addTo(f)
	f.BoolVarP(&s.verbose, "verbose", "v", false, "tell more")
	f.Usage = func() { fmt.Fprint(out, usage, f.FlagUsages()) }
	if err := f.Parse(args); err != nil {
		return s, err
	}
	switch {
	case f.NArg() > 0:
		return s, fmt.Errorf("%q is not a flag; see --help", f.Arg(0))
	case s.kubeconfig == "":
		return s, errors.New("--kubeconfig is required; see --help")
	}
	return s, nil
}
