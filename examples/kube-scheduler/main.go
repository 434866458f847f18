// Kube-scheduler schedules the pods of any Kubernetes cluster: it runs keelson's scheduler, given only a kubeconfig.
// Copy it and change what you like: the profile is a value.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/keelson-dev/keelson/client/kubeconfig"
	"github.com/keelson-dev/keelson/component"
	"github.com/keelson-dev/keelson/component/kubescheduler"
	"github.com/keelson-dev/keelson/component/remote"
	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/devices/structured"
)

const usage = `kube-scheduler binds the pods of a cluster to nodes and says why.

  kube-scheduler --kubeconfig FILE [flags]

One of several processes works at a time: the one that holds the Lease kube-scheduler in kube-system, which upstream's
program takes, too. With --scheduler-name it has a Lease of that name and pods of its own, beside the cluster's scheduler.
The kubeconfig leads to the server as somebody with the role system:kube-scheduler.

Ctrl-C and kill end it; the next one goes on.

Flags:
`

// settings are the values of the flags.
type settings struct {
	kubeconfig, name        string
	elect, explain, verbose bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "kube-scheduler:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	s, err := parse(args, out)
	if err != nil {
		return err
	}
	access, err := kubeconfig.Load(kubeconfig.Options{Path: s.kubeconfig})
	if err != nil {
		return err
	}
	config := access.Config
	config.QPS, config.Burst = 50, 100 // upstream's limits
	o := remote.Options{Logger: s.logger(out)}
	if s.elect {
		lease := "kube-scheduler"
		if s.name != scheduler.DefaultSchedulerName {
			lease = s.name
		}
		hostname, err := os.Hostname()
		if err != nil {
			return err
		}
		o.Lease = &remote.Lease{
			Name:     types.NamespacedName{Namespace: "kube-system", Name: lease},
			Identity: hostname + "_" + string(uuid.NewUUID()),
		}
		o.Lease.Options.ReleaseOnCancel = true
	}
	m, err := remote.New(config, scheme.Scheme, []component.Component{kubescheduler.Component(s.options(out))}, o)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "scheduler %s for %s\n", s.name, config.Host)
	return m.Run(ctx)
}

// options returns those of the scheduler.
func (s settings) options(out io.Writer) kubescheduler.Options {
	o := kubescheduler.Options{Profile: kubescheduler.Profile(), Allocator: structured.New()}
	o.Profile.SchedulerName = s.name
	if s.explain {
		o.OnDecision = func(d scheduler.Decision) { fmt.Fprintln(out, d) }
	}
	return o
}

func (s settings) logger(out io.Writer) *slog.Logger {
	level := slog.LevelInfo
	if s.verbose {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: level}))
}

func parse(args []string, out io.Writer) (s settings, err error) {
	f := pflag.NewFlagSet("kube-scheduler", pflag.ContinueOnError)
	f.SortFlags = false
	f.StringVar(&s.kubeconfig, "kubeconfig", "", "file that leads to the API server (required)")
	f.StringVar(&s.name, "scheduler-name", scheduler.DefaultSchedulerName, "the spec.schedulerName of the pods to schedule")
	f.BoolVar(&s.elect, "leader-elect", true, "run only while holding the Lease")
	f.BoolVar(&s.explain, "explain", false, "print each decision with what every node was refused for, or its scores")
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
