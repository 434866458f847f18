package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"github.com/keelson-dev/keelson/client/generate"
	"github.com/keelson-dev/keelson/client/kubeconfig"
)

const usage = `run creates what kubectl run and kubectl create deployment create, on keelson's client packages.

Usage:

  run run NAME --image=IMAGE [flags] [-- ARGUMENT...]
  run create deployment NAME --image=IMAGE [flags] [-- COMMAND...]

run makes a Deployment, or with --restart=OnFailure a Job, or with --restart=Never a Pod; and a Service too
with --port and --expose. It asks the server which versions it serves, and keeps the answer for six hours in
~/.kube/cache, as kubectl does. What is wrong with a name, an image or a flag is told before anything is sent.

Flags:

%s
Examples:

  run create deployment nginx --image=nginx --replicas=3
  run run nginx --image=nginx --port=80 --expose                 a Deployment, and a Service before it
  run run sum --image=busybox --restart=OnFailure -- expr 6 + 7  a Job, which is tried again until it succeeds
  run run nginx --image=nginx --dry-run=client -o yaml           shows it and sends nothing; needs no server
  run run nginx --image=nginx --dry-run=server -o yaml           shows what the server would store

What to do next:

  kubectl get deployments,pods,services                          what became of it
`

// command is a parsed command line.
type command struct {
	line, words []string // the whole line; the words of the command
	name        string
	images      []string
	run         generate.RunOptions
	kubeconfig  kubeconfig.Options

	dryRun, output string
	record         bool
}

// flags returns the flags of both commands; replicas is set if the flag is given.
func (c *command) flags(replicas *int32) *pflag.FlagSet {
	f := pflag.NewFlagSet("run", pflag.ContinueOnError)
	f.SortFlags = false
	container, overrides := &c.run.Container, &c.kubeconfig.Overrides
	f.StringSliceVar(&c.images, "image", nil, "image of the container; create deployment takes several")
	f.Int32Var(replicas, "replicas", 1, "how many pods a Deployment has")
	f.Int32Var(&container.Port, "port", 0, "port that the container listens on")
	f.BoolVar(&c.run.Expose, "expose", false, "make a Service of the port, too")
	f.StringVar(&c.run.Restart, "restart", "Always", "Always, OnFailure or Never: decides what run makes")
	f.StringVar(&c.run.Generator, "generator", "", "makes what is named whatever the restart policy: deployment/apps.v1,\njob/v1, run-pod/v1, run/v1")
	f.StringArrayVar(&container.Env, "env", nil, "NAME=value for the container's environment")
	f.StringVarP(&c.run.Labels, "labels", "l", "", "labels of what run makes: app=web,tier=front (default run=NAME)")
	f.BoolVar(&container.Command, "command", false, "what stands behind -- replaces the image's command, not its arguments")
	f.BoolVar(&c.record, "record", false, "keep this command line as the cause of the change")
	f.StringVar(&c.dryRun, "dry-run", "none", "none, client or server")
	f.StringVarP(&c.output, "output", "o", "", "name, json, yaml, jsonpath=…, go-template=…")
	f.StringVar(&c.kubeconfig.Path, "kubeconfig", "", "credentials (default $KUBECONFIG, then ~/.kube/config)")
	f.StringVar(&overrides.CurrentContext, "context", "", "context of the kubeconfig")
	f.StringVarP(&overrides.Context.Namespace, "namespace", "n", "", "where to create (default that of the context)")
	return f
}

// parse reads a command line; --help prints to out and returns pflag.ErrHelp.
func parse(args []string, out io.Writer) (*command, error) {
	c := &command{line: args}
	replicas := new(int32)
	f := c.flags(replicas)
	f.Usage = func() { fmt.Fprintf(out, usage, f.FlagUsages()) }
	if err := f.Parse(args[1:]); err != nil {
		return nil, err
	}
	words, rest := f.Args(), []string(nil)
	if dash := f.ArgsLenAtDash(); dash >= 0 {
		words, rest = words[:dash], words[dash:]
	}
	n := 1 // words of the command
	if strings.HasPrefix(strings.Join(words, " "), "create deployment") {
		n = 2
	} else if len(words) == 0 || words[0] != "run" {
		return nil, errors.New("unknown command: want run or create deployment; see --help")
	}
	if len(words) != n+1 {
		return nil, fmt.Errorf("exactly one NAME is required, got %d; see --help", len(words)-n)
	}
	c.words, c.name, c.run.Container.Args = words[:n], words[n], rest
	if f.Changed("replicas") {
		c.run.Replicas = replicas
	}
	var misplaced error
	f.Visit(func(flag *pflag.Flag) {
		switch flag.Name {
		case "expose", "restart", "generator", "env", "labels", "command":
			if n == 2 {
				misplaced = fmt.Errorf("create deployment has no flag --%s; run has", flag.Name)
			}
		}
	})
	if misplaced != nil {
		return nil, misplaced
	}
	if c.words[0] == "run" {
		if len(c.images) > 1 {
			return nil, errors.New("run takes one --image; create deployment takes several")
		}
		c.run.Container.Image = strings.Join(c.images, "")
	}
	switch c.dryRun {
	case "none", "client", "server":
		return c, nil
	}
	return nil, fmt.Errorf("invalid dry-run value (%v): must be none, server or client", c.dryRun)
}
