// Whatif answers what a scheduler would do if the cluster were another, without changing anything: how many more of a pod fit,
// what breaks if nodes go, and which shape of node is missing for the pods that are pending.
//
//	whatif [flags] fits POD.yaml
//	whatif [flags] without NODE...
//	whatif [flags] missing
//
// The cluster is that of a kubeconfig file, or what YAML files say (-f), as kubectl get -o yaml writes them. Pods with resource claims
// find no node: devices are not read.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/keelson-dev/keelson/client/kubeconfig"
	"github.com/keelson-dev/keelson/client/rest"
	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/plugins"
	"github.com/keelson-dev/keelson/scheduler/schedulerconfig"
	"github.com/keelson-dev/keelson/scheduler/whatif"
	"github.com/keelson-dev/keelson/scheduler/whatif/load"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "whatif:", err)
		os.Exit(1)
	}
}

type settings struct {
	files              []string
	kubeconfig, config string
	most               int
	args               []string
}

func parse(args []string, out io.Writer) (settings, error) {
	var s settings
	flags := pflag.NewFlagSet("whatif", pflag.ContinueOnError)
	flags.SetOutput(out)
	flags.Usage = func() {
		fmt.Fprint(out, "Usage:\n  whatif [flags] fits POD.yaml\n  whatif [flags] without NODE...\n  whatif [flags] missing\n\nFlags:\n"+flags.FlagUsages())
	}
	flags.StringArrayVarP(&s.files, "filename", "f", nil, "a YAML file with nodes, pods and what else scheduling depends on; may be repeated")
	flags.StringVar(&s.kubeconfig, "kubeconfig", "", "the kubeconfig file of the cluster, if there is no -f")
	flags.StringVar(&s.config, "config", "", "a file with a KubeSchedulerConfiguration; without it, the default profile is used")
	flags.IntVar(&s.most, "most", 1000, "how many pods or nodes are tried")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	s.args = flags.Args()
	return s, nil
}

func run(ctx context.Context, args []string, out io.Writer) error {
	s, err := parse(args, out)
	if err != nil {
		return err
	}
	if len(s.args) == 0 {
		return errors.New("what? fits POD.yaml, without NODE... or missing")
	}
	objects, err := s.read(ctx)
	if err != nil {
		return err
	}
	world, err := s.world(objects)
	if err != nil {
		return err
	}
	switch question, rest := s.args[0], s.args[1:]; {
	case question == "fits" && len(rest) == 1:
		return s.fits(world, rest[0], out)
	case question == "without" && len(rest) > 0:
		return without(ctx, world, rest, out)
	case question == "missing" && len(rest) == 0:
		s.missing(ctx, world, objects.Pending(), out)
		return nil
	}
	return fmt.Errorf("%q is no question: fits POD.yaml, without NODE... or missing", s.args)
}

// read reads the files, or the cluster.
func (s settings) read(ctx context.Context) (*load.Objects, error) {
	if len(s.files) == 0 {
		access, err := kubeconfig.Load(kubeconfig.Options{Path: s.kubeconfig})
		if err != nil {
			return nil, err
		}
		c, err := rest.New(access.Config, scheme.Scheme)
		if err != nil {
			return nil, err
		}
		return load.Read(ctx, c)
	}
	return decode(s.files...)
}

func decode(files ...string) (*load.Objects, error) {
	all := load.New()
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if err := all.Decode(bytes.NewReader(text)); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	return all, nil
}

func (s settings) world(objects *load.Objects) (*whatif.World, error) {
	profiles := []scheduler.Profile{{Plugins: plugins.Default()}}
	if s.config != "" {
		c, err := schedulerconfig.Open(s.config, schedulerconfig.Options{})
		if err != nil {
			return nil, err
		}
		profiles = c.Profiles
	}
	for i := range profiles {
		profiles[i].Plugins = objects.Plugins(profiles[i].Plugins)
	}
	return whatif.New(objects.Snapshot(), profiles...)
}

func (s settings) fits(w *whatif.World, file string, out io.Writer) error {
	only, err := decode(file)
	if err != nil {
		return err
	}
	pending := only.Pending()
	if len(pending) != 1 {
		return fmt.Errorf("%s: has %d pods without a node, not one", file, len(pending))
	}
	pod := pending[0]
	if pod.Namespace == "" {
		pod.Namespace = corev1.NamespaceDefault
	}
	fit := w.Fits(pod, s.most)
	fmt.Fprintf(out, "%d more of %s/%s fit\n", fit.Count, pod.Namespace, pod.Name)
	for _, n := range w.Snapshot().Nodes() {
		if fit.Nodes[n.Name] > 0 {
			fmt.Fprintf(out, "  %d on %s\n", fit.Nodes[n.Name], n.Name)
		}
	}
	if fit.Err != nil {
		fmt.Fprintf(out, "  then: %v\n", fit.Err)
	}
	return nil
}

func without(ctx context.Context, w *whatif.World, nodes []string, out io.Writer) error {
	loss, err := w.Without(ctx, nodes...)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "without %d nodes, %d pods move, %d find no node, %d go with their nodes\n",
		len(nodes), len(loss.Moved), len(loss.Pending), len(loss.Gone))
	for _, p := range loss.Moved {
		fmt.Fprintf(out, "  %s/%s moves from %s to %s\n", p.Pod.Namespace, p.Pod.Name, p.From, p.Node)
		for _, v := range p.Victims {
			fmt.Fprintf(out, "    and preempts %s/%s\n", v.Namespace, v.Name)
		}
	}
	for _, p := range loss.Pending {
		fmt.Fprintf(out, "  %s/%s from %s: %v\n", p.Pod.Namespace, p.Pod.Name, p.From, p.Err)
	}
	return nil
}

func (s settings) missing(ctx context.Context, w *whatif.World, pending []*corev1.Pod, out io.Writer) {
	fmt.Fprintf(out, "%d pods are pending\n", len(pending))
	for _, n := range w.Missing(ctx, pending, w.Shapes(), s.most) {
		a := n.Shape.Status.Allocatable
		fmt.Fprintf(out, "  %d nodes like %s (cpu %v, memory %v) leave %d pods pending\n", n.Nodes, n.Shape.Name, a.Cpu(), a.Memory(), len(n.Pending))
		for _, p := range n.Pending {
			fmt.Fprintf(out, "    %s/%s: %v\n", p.Pod.Namespace, p.Pod.Name, p.Err)
		}
	}
}
