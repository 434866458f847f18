// Kills checks that nothing acknowledged is lost: it runs examples/cluster on durable storage, puts load on its API,
// kills it with SIGKILL at random moments and starts it again. After each start it checks that every acknowledged write
// is there and that every watch continued without gaps or duplicates. It writes results/kills.json with the number of
// violations, and stops at the first check that finds one.
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
	begun, err := evidence.Begin(results, "kills")
	if err != nil {
		return err
	}
	count, err := run(ctx, dir, kills, seed, os.Stdout)
	return begun.End(evidence.Result{Seed: seed, Figures: count.figures(err)}, err)
}

// counts records what happened in a run.
type counts struct {
	kills, acknowledged, compared, uncertain, landed, events, resumed, relisted int
}

// violations counts the violations in an error.
func violations(err error) int {
	return evidence.Count(err, func(e error) int {
		if e == errViolated { //nolint:errorlint // Count unwraps
			return 1
		}
		return 0
	})
}

// figures returns those of a run that ended with err or nil.
func (c counts) figures(err error) []evidence.Figure {
	figure := func(what string, n int) evidence.Figure {
		return evidence.Figure{What: what, Value: float64(n)}
	}
	return []evidence.Figure{
		figure("SIGKILLs under load, each followed by a restart and a check", c.kills),
		figure("violations: writes lost or changed, events missed, doubled or out of order, refusals", violations(err)),
		figure("acknowledged writes", c.acknowledged),
		figure("objects held to the last acknowledged write after a restart", c.compared),
		figure("writes cut off without an answer", c.uncertain),
		figure("of these, done all the same", c.landed),
		figure("watch events seen, each held to what the watcher knew", c.events),
		figure("watches resumed after a restart", c.resumed),
		figure("watches that got 410 and listed again", c.relisted),
	}
}

// run kills the cluster that many times. Writers and watchers run all the time. Events are counted even if it returns
// an error.
func run(ctx context.Context, dir string, kills int, seed uint64, progress io.Writer) (counts, error) {
	program, err := clusterprocess.Build(ctx, dir)
	if err != nil {
		return counts{}, err
	}
	address, err := freeAddress()
	if err != nil {
		return counts{}, err
	}
	v := victim{start: func() (*clusterprocess.Process, error) {
		return program.Start(ctx, dir+"/data", "--nodes", "3", "--listen", address)
	}}
	if v.process, err = v.start(); err != nil {
		return counts{}, err
	}
	defer func() { _ = v.process.Kill() }() // the last process
	config, err := v.process.Config()
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
	done, err := l.survive(ctx, &v, kills, rand.New(rand.NewPCG(seed, 0)), progress)
	err = errors.Join(err, l.close()) // what the workers noticed last counts, too
	count := l.total()
	count.kills = done
	if err != nil {
		return count, err
	}
	return count, v.process.Interrupt()
}

// victim is the process to kill.
type victim struct {
	start   func() (*clusterprocess.Process, error)
	process *clusterprocess.Process
}

// kill kills the process and starts it again when all clients have stopped using it.
func (v *victim) kill(quiet func()) error {
	err := v.process.Kill()
	quiet()
	if err != nil {
		return err
	}
	next, err := v.start()
	if err != nil {
		return fmt.Errorf("%w: it does not start again: %w", errViolated, err)
	}
	v.process = next
	return nil
}

// survive runs the load while the cluster is killed that many times, and returns how many kills were checked.
func (l *load) survive(ctx context.Context, v *victim, kills int, random *rand.Rand, progress io.Writer) (done int, err error) {
	began := time.Now()
	for i := range kills {
		l.resume()
		select {
		case <-time.After(time.Duration(20+random.IntN(480)) * time.Millisecond):
		case <-l.failed:
			return i, fmt.Errorf("before kill %d: %w", i+1, errWorker)
		case <-ctx.Done():
			return i, ctx.Err()
		}
		if err := v.kill(l.pause); err != nil {
			return i, fmt.Errorf("kill %d: %w", i+1, err)
		}
		if err := l.check(ctx); err != nil {
			return i, errors.Join(fmt.Errorf("after kill %d: %w", i+1, err), fmt.Errorf("the cluster said:\n%s", v.process.Output()))
		}
		if (i+1)%10 == 0 || i+1 == kills {
			fmt.Fprintf(progress, "%4d kills in %3.0f s: %d acknowledged writes\n", i+1, time.Since(began).Seconds(), l.total().acknowledged)
		}
	}
	if err := l.settle(ctx); err != nil {
		return kills, fmt.Errorf("at the end: %w", err)
	}
	return kills, nil
}

// freeAddress finds a port that the cluster can use at every start.
func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	port := listener.Addr().(*net.TCPAddr).Port
	return "127.0.0.1:" + strconv.Itoa(port), listener.Close()
}

// errViolated means that a guarantee was violated.
var errViolated = errors.New("violated")
