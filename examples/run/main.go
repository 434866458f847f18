// Run is kubectl run and kubectl create deployment, built on the packages below client: it reads a kubeconfig,
// generates the objects, asks the server which version to create them in, creates them and prints the result.
//
//	go run ./examples/run create deployment nginx --image=nginx --replicas=3
//	go run ./examples/run run nginx --image=nginx --port=80 --expose --dry-run=client -o yaml
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/keelson-dev/keelson/client/discovery"
	"github.com/keelson-dev/keelson/client/generate"
	"github.com/keelson-dev/keelson/client/kubeconfig"
	"github.com/keelson-dev/keelson/client/message"
	"github.com/keelson-dev/keelson/client/printer"
	"github.com/keelson-dev/keelson/client/rest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args, os.Getenv, os.Stdout)
	stop()
	if err != nil && !errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintln(os.Stderr, message.Of(err))
		os.Exit(1)
	}
}

// run executes the command line.
func run(ctx context.Context, args []string, getenv func(string) string, out io.Writer) error {
	c, err := parse(args, out)
	if err != nil {
		return err
	}
	objects, err := c.generate()
	if err != nil {
		return err
	}
	operation := "created" + map[string]string{"client": " (dry run)", "server": " (server dry run)"}[c.dryRun]
	printed, err := printer.New(c.output, printer.Options{Operation: operation, Kinds: scheme.Scheme})
	if err != nil {
		return err
	}
	if c.dryRun == "client" { // nothing is sent: no server is needed
		return show(objects, printed, out)
	}
	c.kubeconfig.Environment, c.kubeconfig.InCluster = kubeconfig.EnvironmentOf(getenv), true
	access, err := kubeconfig.Load(c.kubeconfig)
	if err != nil {
		return err
	}
	served, err := discovery.New(access.Config, discovery.Options{CacheDir: c.kubeconfig.Environment.CacheDir()})
	if err != nil {
		return err
	}
	server, err := rest.New(access.Config, scheme.Scheme)
	if err != nil {
		return err
	}
	options := metav1.CreateOptions{FieldManager: "kubectl-" + c.words[0], FieldValidation: metav1.FieldValidationStrict}
	if c.dryRun == "server" {
		options.DryRun = []string{metav1.DryRunAll}
	}
	for i, obj := range objects {
		target, err := served.TargetOf(ctx, obj, access.Namespace)
		if err != nil {
			return err
		}
		if objects[i], err = server.Create(ctx, target, obj, options); err != nil {
			return errors.Join(show(objects[:i], printed, out), err)
		}
	}
	return show(objects, printed, out)
}

// generate makes the objects, in the requested namespace.
func (c *command) generate() (objects []runtime.Object, err error) {
	if c.words[0] == "run" {
		objects, err = generate.Run(c.name, c.run)
	} else {
		container := c.run.Container
		objects = make([]runtime.Object, 1)
		objects[0], err = generate.Deployment(c.name, generate.DeploymentOptions{
			Images: c.images, Replicas: c.run.Replicas, Port: container.Port, Command: container.Args,
		})
	}
	if err != nil {
		return nil, err
	}
	for _, obj := range objects {
		if m, err := meta.Accessor(obj); err == nil {
			m.SetNamespace(c.kubeconfig.Overrides.Context.Namespace)
		}
	}
	if c.record {
		return objects, generate.Record(strings.Join(append([]string{"run"}, c.line[1:]...), " "), objects...)
	}
	return objects, nil
}

func show(objects []runtime.Object, p printer.Printer, out io.Writer) error {
	for _, obj := range objects {
		if err := p.Print(out, obj); err != nil {
			return err
		}
	}
	return nil
}
