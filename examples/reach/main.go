// Reach says whether one pod reaches another, or an address, as far as network policies are concerned, and which rule
// decides. It reads a cluster, by a kubeconfig, or manifests.
//
//	go run ./examples/reach -f examples/reach/testdata/shop.yaml shop/web shop/db 5432
//	go run ./examples/reach shop/web 192.0.2.7 53/UDP
//
// It exits with 0 if the connection is allowed, with 1 if not, and with 2 if it cannot tell.
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

	"github.com/keelson-dev/keelson/client/kubeconfig"
	"github.com/keelson-dev/keelson/networkpolicy"
)

const usage = `reach says whether a pod reaches another, or an address, and which rule of a network policy decides.

Usage:

  reach [flags] FROM TO PORT

FROM and TO are NAMESPACE/POD, POD in the namespace default, or an IP address. PORT is a number or the name of a port of
TO, followed by /UDP or /SCTP unless it is of TCP.

Flags:

  -f FILE             read manifests instead of a cluster; may be repeated. The pods of Deployments and the like are
                      named after these. Those without an address are in no block of addresses but 0.0.0.0/0
  --kubeconfig FILE   which cluster to read (default as kubectl's)
`

// errDenied means that the connection is not allowed.
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

// run answers one question.
func run(ctx context.Context, args []string, getenv func(string) string, out io.Writer) error {
	var files []string
	config := kubeconfig.Options{Environment: kubeconfig.EnvironmentOf(getenv), InCluster: true}
	f := flag.NewFlagSet("reach", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.Func("f", "", func(name string) error {
		files = append(files, name)
		return nil
	})
	f.StringVar(&config.Path, "kubeconfig", "", "")
	switch err := f.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(out, usage)
		return err
	case err != nil:
		return fmt.Errorf("%w; --help lists the flags", err)
	case f.NArg() != 3:
		return errors.New("name who connects, to whom and to which port, as in: reach shop/web shop/db 5432")
	}
	c, err := read(ctx, files, config)
	if err != nil {
		return err
	}
	return answer(c, f.Arg(0), f.Arg(1), f.Arg(2), out)
}

// read reads the files, or the cluster if there are none.
func read(ctx context.Context, files []string, config kubeconfig.Options) (networkpolicy.Cluster, error) {
	if len(files) > 0 {
		return fromFiles(files)
	}
	access, err := kubeconfig.Load(config)
	if err != nil {
		return networkpolicy.Cluster{}, err
	}
	api, err := kubernetes.NewForConfig(access.Config)
	if err != nil {
		return networkpolicy.Cluster{}, err
	}
	return fromCluster(ctx, api)
}

// answer writes what the policies of a cluster say.
func answer(c networkpolicy.Cluster, from, to, port string, out io.Writer) error {
	client, err := find(c, from)
	if err != nil {
		return err
	}
	server, err := find(c, to)
	if err != nil {
		return err
	}
	number, protocol, err := server.port(port)
	if err != nil {
		return err
	}
	tables, err := networkpolicy.Compile(c, nil)
	if err != nil {
		fmt.Fprintf(out, "warning: %v\n", err)
	}
	packets, err := between(client, server, number, protocol)
	if err != nil {
		return err
	}
	denied := false
	for _, p := range packets {
		d := tables.Decide(p)
		fmt.Fprintf(out, "%s to %s, %s/%s: %s\n", client.label(p.From), server.label(p.To.Addr()), shown(number, port), protocol, word(d.Allowed()))
		explain(out, "leaving "+from, "egress", d.Egress, c)
		explain(out, "arriving at "+to, "ingress", d.Ingress, c)
		denied = denied || !d.Allowed()
	}
	if denied {
		return errDenied
	}
	return nil
}

func word(allowed bool) string {
	if allowed {
		return "allowed"
	}
	return "denied"
}

// shown is the port's number, with its name if that is how it was given.
func shown(number uint16, given string) string {
	name, _, _ := strings.Cut(given, "/")
	if text := fmt.Sprint(number); text != name {
		return fmt.Sprintf("%s (%s)", text, name)
	}
	return name
}
