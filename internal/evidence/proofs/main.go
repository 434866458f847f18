// Proofs runs what takes too long for every change: comparisons with upstream's own code, fuzzing, soak, kills,
// conformance, mutants. It goes on after a step that failed, and writes one page of what came of all of them,
// docs/proofs.md and results/proofs.json. It fails when a step failed or did not run.
//
//	go run ./internal/evidence/proofs                  # all steps, within three hours
//	go run ./internal/evidence/proofs -resume          # those that an earlier run of the same commit has not passed
//	go run ./internal/evidence/proofs -only 'soak|kills'
//
// Each step has a limit of its own, after which it is ended with all that it started, and a log in .cache/proofs. With
// -only or -skip the page is written there as well, since it proves less.
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
	resume := flag.Bool("resume", false, "leave standing what passed in the last run, if that was of the same commit")
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
		page: filepath.Join("docs", "proofs.md"), results: "results",
	}
	p.commit, p.dirty = evidence.Tree()
	if !c.all() {
		p.page, p.results = filepath.Join(kept, "proofs.md"), kept
	}
	return p.run(ctx, steps)
}

// mark says which steps are left out.
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
