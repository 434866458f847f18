// Node measures real containers: the time from the creation of a deployment of nginx until its pods are ready, and from
// its deletion until they are gone, for 3 and for 30 replicas. It runs examples/cluster with containerd, as root,
// prints the figures, writes results/node.json and fails if one exceeds its limit. The limits are the times of
// upstream's whole stack, as recorded by bench/peers in results/peers.json. If that run left out containers, there are
// no limits.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/keelson-dev/keelson/bench/containers"
	"github.com/keelson-dev/keelson/internal/clusterprocess"
	"github.com/keelson-dev/keelson/internal/evidence"
	"github.com/keelson-dev/keelson/node/nodetools"
	"github.com/keelson-dev/keelson/node/ociimage"
)

func main() {
	results := flag.String("results", "results", "directory to write node.json to")
	runs := flag.Int("runs", 10, "how often to measure; the median counts")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := record(ctx, *runs, *results)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// record measures and writes the result.
func record(ctx context.Context, runs int, results string) error {
	begun, err := evidence.Begin(results, "node")
	if err != nil {
		return err
	}
	peers, err := evidence.Read(results, "peers")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return begun.End(evidence.Result{}, err)
	}
	figures, err := measure(ctx, runs, sizes(peers))
	result := evidence.Result{Figures: figures}
	if sizes(peers)[0].ready == 0 {
		result.Note = "Without limits: upstream's figures of containers are not in results/peers.json."
	}
	return begun.End(result, err)
}

// size is a number of replicas to measure, with the limits in milliseconds; 0 means none.
type size struct {
	replicas    int32
	ready, gone float64
}

// sizes takes the limits from upstream's figures.
func sizes(peers evidence.Result) []size {
	all := []size{{replicas: 3}, {replicas: 30}}
	if !peers.Passed {
		return all
	}
	for _, p := range peers.Peers {
		for i := range all {
			switch p.Name {
			case fmt.Sprintf("containers-%d-ready", all[i].replicas):
				all[i].ready = p.Upstream
			case fmt.Sprintf("containers-%d-gone", all[i].replicas):
				all[i].gone = p.Upstream
			}
		}
	}
	return all
}

func measure(ctx context.Context, runs int, sizes []size) (figures []evidence.Figure, err error) {
	tools, err := nodetools.Install(ctx, nodetools.Options{Progress: func(line string) { fmt.Println(line) }})
	if err != nil {
		return nil, err
	}
	image, err := ociimage.Nginx(ctx, tools.Images, os.Stdout)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "keelson-node-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	program, err := clusterprocess.Build(ctx, dir)
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	flags := []string{"--runtime", "containerd", "--cluster-cidr", "10.68.0.0/16"}
	p, err := program.Start(ctx, data, append(flags, "--images", image)...)
	if err != nil {
		return nil, err
	}
	defer func() {
		err = errors.Join(err, p.Interrupt())
		if text, code, downErr := program.Fail(context.WithoutCancel(ctx), append(flags, "--data-dir", data, "--down")...); downErr != nil || code != 0 {
			err = errors.Join(err, downErr, fmt.Errorf("--down: exit code %d: %s", code, text))
		}
	}()
	config, err := p.Config()
	if err != nil {
		return nil, err
	}
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	for _, s := range sizes {
		more, err := rounds(ctx, api, s, runs)
		if err != nil {
			return figures, fmt.Errorf("%w\n%s", err, p.Output())
		}
		figures = append(figures, more...)
	}
	calls, err := runtimeCalls(ctx, api)
	return append(figures, calls...), err
}

// rounds measures one size, after a round that does not count: the first pod of a node waits for the node.
func rounds(ctx context.Context, api kubernetes.Interface, s size, runs int) ([]evidence.Figure, error) {
	var ready, gone []float64
	for i := range runs + 1 {
		r, g, err := containers.Round(ctx, api, s.replicas)
		if err != nil {
			return nil, err
		}
		fmt.Printf("%d replicas: ready in %d ms, gone in %d ms\n", s.replicas, r.Milliseconds(), g.Milliseconds())
		if i > 0 {
			ready, gone = append(ready, milliseconds(r)), append(gone, milliseconds(g))
		}
	}
	slices.Sort(ready)
	slices.Sort(gone)
	return []evidence.Figure{
		{What: fmt.Sprintf("deployment of nginx created to %d replicas ready", s.replicas), Of: "median", Value: ready[runs/2], Unit: "ms", Limit: s.ready, Runs: runs},
		{What: fmt.Sprintf("deployment deleted to %d pods gone", s.replicas), Of: "median", Value: gone[runs/2], Unit: "ms", Limit: s.gone, Runs: runs},
	}, nil
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
