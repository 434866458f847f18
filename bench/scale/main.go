// Scale measures how the cost of the API grows with the number of pods: the same questions, with answers of the same
// size, go to servers with 1,000, 10,000 and 100,000 pods in turn. It also measures the memory of server and informers,
// the time to reopen a store, whether a thousand watchers delay the answer to a write, and what ten thousand idle
// watches cost. It prints the figures and writes results/scale.json.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"time"

	"github.com/keelson-dev/keelson/internal/evidence"
)

func main() {
	o := options{start: asProcess, changes: 1000, progress: os.Stdout}
	flag.StringVar(&o.results, "results", "results", "directory to write scale.json to; empty writes nothing")
	sizes := flag.String("pods", "1000,10000,100000", "how many pods to measure with, from few to many")
	flag.IntVar(&o.rounds, "rounds", 300, "how often to ask each question; the median counts")
	flag.StringVar(&o.watchers, "watchers", "100x10", "connections, and on each watches of one resource that is written")
	flag.StringVar(&o.idle, "idle", "100x100", "connections, and on each watches that wait")
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()), "of what is asked for")
	flag.StringVar(&o.profiles, "profiles", "", "directory for profiles of the server with idle watches")
	flag.StringVar(&o.note, "note", "", "what else is to be said of the results")
	only := flag.Bool("only-idle", false, "measure the idle watches alone, and write no results")
	isPart := flag.Bool("part", false, "be a part of the measurement, as the arguments say")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	var err error
	if *isPart {
		err = play(ctx, flag.Args(), os.Stdin, os.Stdout)
	} else if *only {
		err = o.onlyIdle(ctx)
	} else if o.pods, err = numbers(*sizes); err == nil {
		err = prove(ctx, o)
	}
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "seed %d: %v\n", o.seed, err)
		os.Exit(1)
	}
}

type options struct {
	results        string
	pods           []int
	rounds         int
	changes        int    // since the old state that is requested
	watchers, idle string // CONNECTIONSxWATCHES
	seed           uint64
	profiles       string
	note           string
	start          starter
	progress       io.Writer
}

func numbers(text string) ([]int, error) {
	var all []int
	for _, s := range strings.Split(text, ",") {
		n, err := strconv.Atoi(s)
		if err != nil || n < few*perNamespace || n%perNamespace != 0 {
			return nil, fmt.Errorf("-pods %q: must be multiples of %d, from %d on", text, perNamespace, few*perNamespace)
		}
		all = append(all, n)
	}
	return all, nil
}

func prove(ctx context.Context, o options) error {
	begun, err := evidence.Begin(o.results, "scale")
	if err != nil {
		return err
	}
	r, err := run(ctx, o)
	return begun.End(r, err)
}

// run measures everything.
func run(ctx context.Context, o options) (r evidence.Result, err error) {
	dir, err := os.MkdirTemp("", "keelson-scale-")
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	r = evidence.Result{Seed: o.seed, Note: o.note, Growth: &evidence.Growth{Of: "pods", Numbers: o.pods}}
	if r.Figures, err = crowds(ctx, o, dir); err != nil {
		return r, err
	}
	worlds := make([]*world, len(o.pods))
	for i, n := range o.pods {
		began := time.Now()
		if worlds[i], err = build(ctx, dir, n); err != nil {
			return r, err
		}
		fmt.Fprintf(o.progress, "%d pods written in %.0f s\n", n, time.Since(began).Seconds())
	}
	if r.Growth.Rows, err = o.ask(ctx, worlds); err != nil {
		return r, err
	}
	rest, err := o.weigh(ctx, worlds)
	r.Growth.Rows = append(r.Growth.Rows, rest...)
	return r, err
}

// crowds measures the cost of many watches.
func crowds(ctx context.Context, o options, dir string) ([]evidence.Figure, error) {
	alone, watched, err := answers(ctx, o.start, dir, o.watchers, min(o.rounds, 100))
	if err != nil {
		return nil, err
	}
	runs := len(alone.samples)
	ms := func(m measured) float64 { return float64(m.median().Microseconds()) / 1000 }
	waiting, err := o.idleWatches(ctx, dir)
	return append([]evidence.Figure{
		{What: "update of an object over TLS, durable, until its answer, nobody watching the resource", Of: "median", Value: ms(alone), Unit: "ms", Runs: runs},
		{What: "the same with " + o.watchers + " watches of the resource (connections × watches), in turn", Of: "median", Value: ms(watched), Unit: "ms", Runs: runs},
	}, waiting...), err
}

// idleWatches measures the cost of idle watches.
func (o options) idleWatches(ctx context.Context, dir string) ([]evidence.Figure, error) {
	var connections, each int
	if _, err := fmt.Sscanf(o.idle, "%dx%d", &connections, &each); err != nil {
		return nil, err
	}
	before, after, err := idle(ctx, o.start, dir, o.idle, o.profiles)
	if err != nil {
		return nil, err
	}
	watches := float64(connections * each)
	kb := func(n int64) float64 { return float64(n) / watches / 1000 }
	return []evidence.Figure{
		{What: "memory of the server for each of " + o.idle + " idle watches over TLS: heap and stacks in use after GC", Value: kb(after.total() - before.total()), Unit: "kB", Limit: 20},
		{What: "of this, live objects on the heap", Value: kb(after.live - before.live), Unit: "kB"},
		{What: "of this, stacks", Value: kb(after.stacks - before.stacks), Unit: "kB"},
		{What: "resident memory of the process for each of them", Value: kb(after.resident - before.resident), Unit: "kB"},
		{What: "goroutines for each of them", Value: float64(after.goroutines-before.goroutines) / watches},
	}, nil
}

// onlyIdle measures idle watches and prints their cost.
func (o options) onlyIdle(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "keelson-scale-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	figures, err := o.idleWatches(ctx, dir)
	for _, f := range figures {
		fmt.Fprintf(o.progress, "%-100s %8.2f %s\n", f.What, f.Value, f.Unit)
	}
	return errors.Join(err, evidence.Over(figures))
}

// ask asks all questions in all worlds.
func (o options) ask(ctx context.Context, worlds []*world) (rows []evidence.Growing, err error) {
	var all []*asking
	for _, w := range worlds {
		if err := w.open(ctx); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, w.close()) }()
		all = append(all, &asking{world: w, way: w.transport, base: "http://in.process", random: rand.New(rand.NewPCG(o.seed, uint64(w.pods)))})
	}
	for _, q := range questions() {
		m, err := measure(ctx, q, all, o.rounds)
		if err != nil {
			return nil, err
		}
		row := evidence.Growing{What: q.what, Unit: "µs"}
		if q.objects != nil {
			row.What += ", for each object"
		}
		for i := range m {
			row.Values = append(row.Values, float64(m[i].median().Nanoseconds())/1000)
		}
		fmt.Fprintf(o.progress, "%-75s %10.4g µs\n", row.What, row.Values)
		rows = append(rows, row)
	}
	old, err := o.past(ctx, all)
	return append(rows, old), err
}

// past requests pages of a state with many later changes.
func (o options) past(ctx context.Context, all []*asking) (evidence.Growing, error) {
	row := evidence.Growing{What: fmt.Sprintf("page of 500 of the state %d changes ago, for each object", o.changes), Unit: "µs"}
	q := question{what: row.What, objects: constant(500)}
	at := map[*asking]int64{}
	for _, a := range all {
		at[a] = a.registry.Revision()
		if err := a.churn(ctx, o.changes); err != nil {
			return row, err
		}
	}
	q.ask = func(ctx context.Context, a *asking) ([]byte, error) { return a.pageAt(ctx, at[a]) }
	m, err := measure(ctx, q, all, o.rounds)
	for i := range m {
		row.Values = append(row.Values, float64(m[i].median().Nanoseconds())/1000)
	}
	return row, err
}

// weigh measures memory and the time to open.
func (o options) weigh(ctx context.Context, worlds []*world) ([]evidence.Growing, error) {
	rows := []evidence.Growing{
		{What: "memory of server and store for each pod, nothing encoded yet", Unit: "kB"},
		{What: "of this, the store", Unit: "kB"},
		{What: "memory of an informer for each pod, in process", Unit: "kB"},
		{What: "memory of an informer for each pod, over the wire", Unit: "kB"},
		{What: "opening a durable store, for each pod", Unit: "µs"},
		{What: "opening store and server until it answers, for each pod", Unit: "µs"},
		{What: "start of a whole cluster on it until it is ready", Unit: "ms"},
	}
	for _, w := range worlds {
		s, err := w.memory(ctx)
		if err != nil {
			return nil, err
		}
		took, err := w.reopen(ctx)
		if err != nil {
			return nil, err
		}
		n := float64(w.pods)
		for i, v := range []float64{
			float64(s.server) / n / 1000, float64(s.store) / n / 1000, float64(s.inProcess) / n / 1000, float64(s.overWire) / n / 1000,
			float64(s.open.Nanoseconds()) / n / 1000, float64(s.load.Nanoseconds()) / n / 1000, float64(took.Microseconds()) / 1000,
		} {
			rows[i].Values = append(rows[i].Values, v)
		}
		fmt.Fprintf(o.progress, "%d pods weighed\n", w.pods)
	}
	return rows, nil
}
