// Access says who may do what in a cluster, and why: which binding and which rule of RBAC allow a request, or which role would.
// It reads a cluster, by a kubeconfig, or manifests.
//
//	go run ./examples/access -f examples/access/testdata/shop.yaml who-can delete pods -n shop
//	go run ./examples/access explain ann get deployments.apps web -n shop
//	go run ./examples/access rules-for system:serviceaccount:shop:deployer -n shop
//
// It exits with 0; with 1 if the request that it explains is not allowed; and with 2 if it cannot tell.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"k8s.io/client-go/kubernetes"

	"github.com/keelson-dev/keelson/authz/rbac"
	"github.com/keelson-dev/keelson/client/kubeconfig"
)

const usage = `access says who may do what in a cluster, and why.

Usage:

  access [flags] who-can VERB RESOURCE [NAME]        who may do it
  access [flags] explain USER VERB RESOURCE [NAME]   whether USER may do it: by which binding and rule, or which roles
                                                     would allow it
  access [flags] rules-for USER                      everything that USER may do

RESOURCE is written as for kubectl: pods, pods/log, deployments.apps, or "*"; it may also be a path, such as /metrics. USER is
a name: ann, system:serviceaccount:NAMESPACE:NAME, system:node:NAME or system:anonymous. Only RBAC is asked: other
authorizers of a server may allow more, such as the one for nodes.

Flags, which may stand anywhere:

  -n NAMESPACE        the namespace of the request (default none: it is about all namespaces, or about what is in none)
  --group NAME        a group of USER, besides those that its name implies; may be repeated
  -f FILE             read manifests instead of a cluster; may be repeated
  --defaults          with -f: add upstream's default roles and bindings, such as the role view, unless the files have them
  --kubeconfig FILE   which cluster to read (default as kubectl's)
`

// errDenied means that the request is not allowed.
var errDenied = errors.New("denied")

func main() {
	switch err := run(context.Background(), os.Args[1:], os.Getenv, os.Stdout); {
	case err == nil, errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errDenied):
		os.Exit(1)
	default:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

// settings are the values of the flags.
type settings struct {
	namespace     string
	groups, files []string
	defaults      bool
	config        kubeconfig.Options
	words         []string // that are no flags
}

// parse reads the command line.
func parse(args []string, getenv func(string) string) (s settings, err error) {
	s.config = kubeconfig.Options{Environment: kubeconfig.EnvironmentOf(getenv), InCluster: true}
	f := flag.NewFlagSet("access", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	collect := func(into *[]string) func(string) error {
		return func(value string) error {
			*into = append(*into, value)
			return nil
		}
	}
	f.StringVar(&s.namespace, "n", "", "")
	f.StringVar(&s.namespace, "namespace", "", "")
	f.Func("group", "", collect(&s.groups))
	f.Func("f", "", collect(&s.files))
	f.BoolVar(&s.defaults, "defaults", false, "")
	f.StringVar(&s.config.Path, "kubeconfig", "", "")
	for {
		if err = f.Parse(args); errors.Is(err, flag.ErrHelp) {
			return s, err
		}
		if err != nil {
			return s, fmt.Errorf("%w; --help lists the flags", err)
		}
		if f.NArg() == 0 {
			break
		}
		s.words, args = append(s.words, f.Arg(0)), f.Args()[1:]
	}
	if s.defaults && len(s.files) == 0 {
		return s, errors.New("--defaults is for files: a cluster has its own roles")
	}
	return s, nil
}

// run answers one question.
func run(ctx context.Context, args []string, getenv func(string) string, out io.Writer) error {
	s, err := parse(args, getenv)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(out, usage)
	}
	if err != nil {
		return err
	}
	ask, err := questionOf(s)
	if err != nil {
		return err
	}
	policy, err := read(ctx, s)
	if err != nil {
		return err
	}
	return ask(ctx, policy, out)
}

// questionOf checks the words and returns what answers them.
func questionOf(s settings) (func(ctx context.Context, p rbac.Policy, out io.Writer) error, error) {
	if len(s.words) == 0 {
		return nil, errors.New("ask who-can, explain or rules-for; --help says how")
	}
	name, words := s.words[0], s.words[1:]
	switch {
	case name == "who-can" && (len(words) == 2 || len(words) == 3):
		a, err := request(s.namespace, words)
		return func(ctx context.Context, p rbac.Policy, out io.Writer) error { return whoCan(ctx, p, a, out) }, err
	case name == "explain" && (len(words) == 3 || len(words) == 4):
		a, err := request(s.namespace, words[1:])
		a.User = identity(words[0], s.groups)
		return func(ctx context.Context, p rbac.Policy, out io.Writer) error { return explain(ctx, p, a, out) }, err
	case name == "rules-for" && len(words) == 1:
		return func(_ context.Context, p rbac.Policy, out io.Writer) error {
			return rulesFor(p, identity(words[0], s.groups), s.namespace, out)
		}, nil
	}
	return nil, fmt.Errorf("cannot answer %q; ask who-can VERB RESOURCE [NAME], explain USER VERB RESOURCE [NAME] or rules-for USER", strings.Join(s.words, " "))
}

// read reads the files, or the cluster if there are none.
func read(ctx context.Context, s settings) (rbac.Policy, error) {
	if len(s.files) > 0 {
		return fromFiles(s.files, s.defaults)
	}
	access, err := kubeconfig.Load(s.config)
	if err != nil {
		return rbac.Policy{}, err
	}
	api, err := kubernetes.NewForConfig(access.Config)
	if err != nil {
		return rbac.Policy{}, err
	}
	return fromCluster(ctx, api)
}
