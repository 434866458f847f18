// Kube-scheduler schedules the pods of any Kubernetes cluster: it runs keelson's scheduler, given only a kubeconfig.
// Copy it and change what you like: the profile is a value.
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
	"github.com/keelson-dev/keelson/component/kubescheduler"
	"github.com/keelson-dev/keelson/component/remote"
	"github.com/keelson-dev/keelson/controllers/leaderelection"
	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/devices/structured"
	"github.com/keelson-dev/keelson/scheduler/schedulerconfig"
)

const usage = `kube-scheduler binds the pods of a cluster to nodes and says why.

  kube-scheduler --kubeconfig FILE [flags]

One of several processes works at a time: the one that holds the Lease kube-scheduler in kube-system, which upstream's
program takes, too. With --scheduler-name it has a Lease of that name and pods of its own, beside the cluster's scheduler.
The kubeconfig leads to the server as somebody with the role system:kube-scheduler.

--config reads a KubeSchedulerConfiguration, the file of upstream's program: profiles, plugins and their arguments,
extenders, back-off, the lease and the connection; --policy-config-file reads the older Policy. What a file asks for and
this scheduler does not do is refused, with file, line and field.

Ctrl-C and kill end it; the next one goes on.

Flags:
`

// settings are the values of the flags.
type settings struct {
	kubeconfig, name        string
	config, policy          string
	elect, explain, verbose bool

	file *schedulerconfig.Config // what one of the files says
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
	config.QPS, config.Burst = s.file.Client.QPS, s.file.Client.Burst
	o := remote.Options{Logger: s.logger(out)}
	if e := s.file.Election; e.Enabled {
		hostname, err := os.Hostname()
		if err != nil {
			return err
		}
		o.Lease = &remote.Lease{
			Name:     types.NamespacedName{Namespace: e.Namespace, Name: e.Name},
			Identity: hostname + "_" + string(uuid.NewUUID()),
			Options: leaderelection.Options{
				LeaseDuration: e.LeaseDuration, RenewDeadline: e.RenewDeadline, RetryPeriod: e.RetryPeriod, ReleaseOnCancel: true,
			},
		}
	}
	m, err := remote.New(config, scheme.Scheme, []component.Component{kubescheduler.Component(s.options(out))}, o)
	if err != nil {
		return err
	}
	var names []string
	for _, p := range s.file.Profiles {
		names = append(names, p.SchedulerName)
	}
	fmt.Fprintf(out, "scheduler %s for %s\n", strings.Join(names, ", "), config.Host)
	return m.Run(ctx)
}

// options returns those of the scheduler.
func (s settings) options(out io.Writer) kubescheduler.Options {
	f := s.file
	o := kubescheduler.Options{
		Profile: f.Profiles[0], More: f.Profiles[1:], InitialBackoff: f.InitialBackoff, MaxBackoff: f.MaxBackoff,
		Writes: f.Writes, BindTimeout: f.BindTimeout, Allocator: structured.New(),
		DeviceFindTimeout: f.DeviceFindTimeout, DeviceBindTimeout: f.DeviceBindTimeout,
	}
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
	f.StringVar(&s.kubeconfig, "kubeconfig", "", "file that leads to the API server (required, unless the configuration names it)")
	f.StringVar(&s.config, "config", "", "a KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1)")
	f.StringVar(&s.policy, "policy-config-file", "", "a Policy (v1) of older schedulers: predicates, priorities, extenders")
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
	case s.config != "" && s.policy != "":
		return s, errors.New("--config and --policy-config-file exclude each other")
	case s.config != "" && (f.Changed("scheduler-name") || f.Changed("leader-elect")):
		return s, errors.New("--scheduler-name and --leader-elect are for the --config file to say")
	}
	if s.file, err = s.read(); err != nil {
		return s, err
	}
	if s.kubeconfig = cmp.Or(s.kubeconfig, s.file.Client.Kubeconfig); s.kubeconfig == "" {
		return s, errors.New("--kubeconfig is required; see --help")
	}
	return s, nil
}

// read returns what the files and flags say of the scheduler.
func (s settings) read() (*schedulerconfig.Config, error) {
	if s.config != "" {
		return schedulerconfig.Open(s.config, schedulerconfig.Options{})
	}
	c := schedulerconfig.Default()
	if s.policy != "" {
		var err error
		if c, err = schedulerconfig.OpenPolicy(s.policy, schedulerconfig.Options{}); err != nil {
			return nil, err
		}
	}
	c.Profiles[0].SchedulerName, c.Election.Enabled = s.name, s.elect
	if s.name != scheduler.DefaultSchedulerName {
		c.Election.Name = s.name
	}
	return c, nil
}
