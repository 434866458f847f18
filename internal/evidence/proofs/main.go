// Proofs runs what takes too long for every change: comparisons with upstream's own code, fuzzing, soak, kills,
// conformance, mutants. It continues after a failed step, and writes the outcomes to docs/proofs.md and
// results/proofs.json. It fails if a step failed or did not run.
//
//	go run ./internal/evidence/proofs                  # all steps, within three hours
//	go run ./internal/evidence/proofs -resume          # those that have not passed since what they are about changed
//	go run ./internal/evidence/proofs -only 'soak|kills'
//
// Each step has a time limit, after which it is stopped with everything it started, and a log in .cache/proofs. With
// -only or -skip the page is written there too, since it proves less.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
	"time"

	"github.com/keelson-dev/keelson/internal/evidence"
)

func main() {
	only := flag.String("only", "", "run the steps whose names this regular expression matches")
	skip := flag.String("skip", "", "leave out the steps whose names this regular expression matches")
	limit := flag.Duration("limit", 3*time.Hour, "for all steps together; those that are left then do not run")
	fuzz := flag.Duration("fuzztime", 20*time.Second, "for each fuzz target")
	resume := flag.Bool("resume", false, "leave standing what passed before, with -only or -skip as well, if nothing that it is about has changed since")
	list := flag.Bool("list", false, "list the steps and run none")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends this program at once
	err := run(ctx, choice{*only, *skip, *list, *resume}, *limit, *fuzz)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// choice is which steps to run.
type choice struct {
	only, skip   string
	list, resume bool
}

func (c choice) all() bool { return c.only == "" && c.skip == "" }

func run(ctx context.Context, c choice, limit, fuzz time.Duration) error {
	steps, err := steps(".", fuzz)
	if err != nil {
		return err
	}
	if err := c.mark(steps); err != nil {
		return err
	}
	if c.list {
		for _, s := range steps {
			fmt.Printf("%-28s at most %-8v %s\n", s.name, s.limit, s.words())
		}
		return nil
	}
	kept := filepath.Join(".cache", "proofs")
	p := &proofs{
		root: ".", logs: kept, limit: limit, grace: 30 * time.Second, out: os.Stdout, resume: c.resume,
		page: filepath.Join("docs", "proofs.md"), results: "results", former: []string{kept, "results"},
	}
	p.commit, p.dirty = evidence.Tree()
	p.changed = func(commit string, s step) ([]string, error) {
		return evidence.Changed(p.root, commit, s.counts, s.about...)
	}
	if !c.all() {
		p.page, p.results = filepath.Join(kept, "proofs.md"), kept
	}
	return p.run(ctx, steps)
}

// mark marks the steps that are left out.
func (c choice) mark(steps []step) error {
	only, err := regexp.Compile(c.only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	skip, err := regexp.Compile(c.skip)
	if err != nil {
		return fmt.Errorf("-skip: %w", err)
	}
	chosen := 0
	for i := range steps {
		switch s := &steps[i]; {
		case !only.MatchString(s.name):
			s.leftOut = "not chosen by -only " + c.only
		case c.skip != "" && skip.MatchString(s.name):
			s.leftOut = "chosen by -skip " + c.skip
		default:
			chosen++
		}
	}
	if chosen == 0 {
		return fmt.Errorf("no step is chosen by -only %q -skip %q: -list lists them", c.only, c.skip)
	}
	return nil
}
