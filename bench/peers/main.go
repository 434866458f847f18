// Peers compares examples/cluster with upstream's control plane: kube-apiserver, kube-controller-manager and
// kube-scheduler of the version that conformance/upstream pins, on the etcd of tools/etcd. Both run on this machine in
// the same run and are measured in turn, by the same client-go clients over TLS. It prints the figures and writes
// results/peers.json. Neither has an audit log; both store their state durably. Upstream's certificates exist before
// its clock starts, its components do not elect leaders, and all other flags have their defaults. There are no nodes,
// except for the rows about real containers: there each side has one, upstream's with upstream's kubelet.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/keelson-dev/keelson/internal/clusterprocess"
	"github.com/keelson-dev/keelson/internal/evidence"
	"github.com/keelson-dev/keelson/internal/kubectl"
)

// options are how much to measure.
type options struct {
	starts   int           // of each
	quiet    time.Duration // after the light use, before memory is measured
	rounds   int           // of everything else
	requests int           // of a kind in each round
	pods     int           // in the long list
	many     int           // definitions of custom kinds at once
	objects  int           // custom objects that are kept
	writes   int           // of the busy resource in each round
	watchers []int
	replicas int
	only     string // the parts to measure; empty means all
	progress io.Writer
}

func main() {
	o := options{
		starts: 5, quiet: time.Minute, rounds: 3, requests: 200, pods: 1000, many: 100, objects: 5000, writes: 300, watchers: []int{20, 100}, replicas: 100, progress: os.Stdout,
	}
	results := flag.String("results", "results", "directory to write peers.json to; empty writes nothing")
	programs := flag.String("programs", "", "directory with kube-apiserver, kube-controller-manager, kube-scheduler, kubelet and etcd (default: they are built)")
	flag.IntVar(&o.rounds, "rounds", o.rounds, "how often to measure each, in turn")
	flag.DurationVar(&o.quiet, "quiet", o.quiet, "how long after a little use memory is measured")
	flag.StringVar(&o.only, "only", "", "measure only these parts, separated by commas: memory, definitions, requests, objects, lists, watches, deployments, containers; writes no file")
	flag.Parse()
	if o.only != "" {
		*results = ""
	}
	if err := (&measurement{options: o}).checkParts(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := record(ctx, o, *programs, *results)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// record measures and writes the result.
func record(ctx context.Context, o options, programs, results string) error {
	begun, err := evidence.Begin(results, "peers")
	if err != nil {
		return err
	}
	result := evidence.Result{Note: note}
	result.Peers, result.Versions, err = prepared(ctx, o, programs)
	return begun.End(result, err)
}

const note = "Both ran in this one run and were measured in turn, without an audit log, and without nodes but for the rows on containerd, where each has one. " +
	"CPU is that of all processes of a side, less what they take when nobody asks them anything."

// prepared builds all programs and measures with them.
func prepared(ctx context.Context, o options, programs string) (rows []evidence.Peer, versions map[string]string, err error) {
	dir, err := os.MkdirTemp("", "keelson-peers-")
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	fmt.Fprintln(o.progress, "building the programs of both sides, which takes minutes the first time")
	theirs, err := newUpstream(ctx, programs)
	if err != nil {
		return nil, nil, err
	}
	program, err := clusterprocess.Build(ctx, dir)
	if err != nil {
		return nil, theirs.versions, err
	}
	kubectlPath, err := kubectl.Build(ctx)
	if err != nil {
		return nil, theirs.versions, err
	}
	nodes, err := newCrews(ctx, program, theirs, o.progress)
	if err != nil {
		return nil, theirs.versions, err
	}
	m := &measurement{options: o, dir: filepath.Join(dir, "runs"), use: hand{kubectlPath}.use, crews: nodes, sides: [2]side{
		{name: "keelson", peer: keelson{program}}, {name: "upstream", peer: theirs},
	}}
	fmt.Fprintf(o.progress, "%-80s %10s %10s\n", "what", "keelson", "upstream")
	rows, err = m.run(ctx)
	return rows, theirs.versions, err
}
