// Kills proves that nothing acknowledged is lost: it runs examples/cluster on durable storage, loads it
// through the API, kills it with SIGKILL at random moments, starts it again, and checks after each start that
// every acknowledged write is there and that every watch went on without a gap or a duplicate.
// It writes results/kills.json and fails at the first violation.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/signal"
	"strconv"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/keelson-dev/keelson/internal/clusterprocess"
	"github.com/keelson-dev/keelson/internal/evidence"
)

func main() {
	results := flag.String("results", "results", "directory to write kills.json to; empty writes nothing")
	kills := flag.Int("kills", 200, "how often to kill the cluster")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "of the load and of the moments")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := prove(ctx, *kills, *seed, *results)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "seed %d: %v\n", *seed, err)
		os.Exit(1)
	}
}

func prove(ctx context.Context, kills int, seed uint64, results string) error {
	dir, err := os.MkdirTemp("", "keelson-kills-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	count, err := run(ctx, dir, kills, seed, os.Stdout)
	if err != nil || results == "" {
		return err
	}
	return evidence.Write(results, evidence.Result{Name: "kills", Seed: seed, Figures: count.figures(kills)})
}

// counts are what happened in a run.
type counts struct {
	acknowledged, uncertain, landed, events, resumed, relisted int
}

func (c counts) figures(kills int) []evidence.Figure {
	figure := func(what string, n int) evidence.Figure {
		return evidence.Figure{What: what, Value: float64(n)}
	}
	return []evidence.Figure{
		figure("SIGKILLs under load, each followed by a restart and a check", kills),
		figure("acknowledged writes, all of them there", c.acknowledged),
		figure("writes cut off without an answer", c.uncertain),
		figure("of these, done all the same", c.landed),
		figure("watch events seen, no gap, no duplicate", c.events),
		figure("watches resumed after a restart", c.resumed),
		figure("watches that got 410 and listed again", c.relisted),
	}
}

// run kills the cluster that many times. Writers and watchers live through all of it.
func run(ctx context.Context, dir string, kills int, seed uint64, progress io.Writer) (counts, error) {
	program, err := clusterprocess.Build(ctx, dir)
	if err != nil {
		return counts{}, err
	}
	random := rand.New(rand.NewPCG(seed, 0))
	address, err := freeAddress()
	if err != nil {
		return counts{}, err
	}
	start := func() (*clusterprocess.Process, error) {
		return program.Start(ctx, dir+"/data", "--nodes", "3", "--listen", address)
	}
	process, err := start()
	if err != nil {
		return counts{}, err
	}
	defer func() { _ = process.Kill() }() // the last one, where no error came between
	config, err := process.Config()
	if err != nil {
		return counts{}, err
	}
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		return counts{}, err
	}
	l, err := newLoad(ctx, api, seed)
	if err != nil {
		return counts{}, err
	}
	defer l.close()
	began := time.Now()
	for i := range kills {
		l.resume()
		select {
		case <-time.After(time.Duration(20+random.IntN(480)) * time.Millisecond):
		case err := <-l.failed:
			return counts{}, fmt.Errorf("before kill %d: %w", i+1, err)
		case <-ctx.Done():
			return counts{}, ctx.Err()
		}
		err := process.Kill()
		l.pause()
		if err != nil {
			return counts{}, err
		}
		if process, err = start(); err != nil {
			return counts{}, fmt.Errorf("after kill %d: %w", i+1, err)
		}
		if err := l.check(ctx); err != nil {
			return counts{}, fmt.Errorf("after kill %d: %w\nthe cluster said:\n%s", i+1, err, process.Output())
		}
		if (i+1)%10 == 0 || i+1 == kills {
			fmt.Fprintf(progress, "%4d kills in %3.0f s: %d acknowledged writes\n", i+1, time.Since(began).Seconds(), l.total().acknowledged)
		}
	}
	if err := l.settle(ctx); err != nil {
		return counts{}, fmt.Errorf("at the end: %w", err)
	}
	return l.total(), process.Interrupt()
}

// freeAddress finds a port that the cluster can have at every start.
func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	port := listener.Addr().(*net.TCPAddr).Port
	return "127.0.0.1:" + strconv.Itoa(port), listener.Close()
}

// errViolated: a promise was broken.
var errViolated = errors.New("violated")
