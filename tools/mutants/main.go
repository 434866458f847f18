// Mutants changes packages of the repository by typical mistakes and runs their tests against each change. A change
// that no test notices is a survivor. Mutants fails if a survivor is not listed with a reason in survivors.tsv, if the
// list names something that no longer survives, and if the tests of an area notice fewer than 95 of 100 sensible
// changes.
//
//	mutants                                       the packages that differ from the main branch, or from the last commit
//	mutants -changed v1.2.0                       those that differ from another one
//	mutants -packages ./authn/...,./authz/rbac    these
//	mutants -packages all -sample 30 -seed 2      a random sample of thirty mutants of each package of all areas
//
// It runs in the repository's root, and writes no file there except, with -results, results/mutants.json. If this runs
// as root, the changed code runs as a user of its own. Its memory, time and files are limited, and it leaves nothing
// behind.
//
// Known mutation testers for Go compile a package and link its tests for each mutant, which for a package whose tests
// run a whole API server takes ten times as long as the tests. Here all mutants are compiled in at once: see schemata.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/keelson-dev/keelson/internal/evidence"
)

type flags struct {
	changed, packages, results, list, settings string
	sample, jobs                               int
	seed                                       uint64
	all                                        bool
}

func main() {
	var f flags
	flag.StringVar(&f.changed, "changed", "", "a commit: try the packages that differ from it (default: the merge base with main, or the commit before)")
	flag.StringVar(&f.packages, "packages", "", "try these packages instead: patterns of the go command, separated by commas, or all")
	flag.IntVar(&f.sample, "sample", 0, "try at most so many mutants of a package, chosen by chance (default: all)")
	flag.Uint64Var(&f.seed, "seed", 1, "decides the chance")
	flag.IntVar(&f.jobs, "jobs", runtime.NumCPU(), "run so many test binaries at once")
	flag.StringVar(&f.results, "results", "", "write mutants.json into this directory")
	flag.StringVar(&f.list, "survivors", "tools/mutants/survivors.tsv", "the survivors with their reasons")
	flag.StringVar(&f.settings, "settings", "tools/mutants/packages.tsv", "what to know about single packages")
	flag.BoolVar(&f.all, "v", false, "print each mutant and what became of it")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, f)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, f flags) error {
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q: packages are named with -packages", flag.Arg(0))
	}
	if f.sample < 0 {
		return fmt.Errorf("-sample %d: it must not be negative", f.sample)
	}
	listed, err := readFile(f.list, parseSurvivors)
	if err != nil {
		return err
	}
	settings, err := readFile(f.settings, parseSettings)
	if err != nil {
		return err
	}
	patterns, err := patterns(ctx, f)
	if err != nil {
		return err
	}
	if len(patterns) == 0 {
		fmt.Println("no package of the areas has changed")
		return nil
	}
	measurement, err := evidence.Begin(f.results, "mutants")
	if err != nil {
		return err
	}
	start := time.Now()
	r := &runner{flags: f, settings: settings, listed: listed, out: os.Stdout}
	stopped := r.run(ctx, patterns)
	judged := judge(r.outcomes, listed)
	judged.print(os.Stdout)
	fmt.Printf("took %s\n", time.Since(start).Round(time.Second))
	return conclude(measurement, f, time.Since(start), judged, stopped)
}

// conclude records the result. It did not pass unless the whole run ended and nothing has to be done.
func conclude(measurement *evidence.Run, f flags, took time.Duration, judged *judgement, stopped error) error {
	if stopped != nil {
		stopped = fmt.Errorf("what was found before this ended early is above: %w", stopped)
	}
	which := "All of the sensible mutants"
	if f.sample > 0 {
		which = fmt.Sprintf("At most %d mutants of a package, by chance", f.sample)
	}
	result := evidence.Result{Seed: f.seed, Note: fmt.Sprintf("%s; took %s.", which, took.Round(time.Minute)), Mutants: judged.areas}
	return measurement.End(result, errors.Join(stopped, judged.err()))
}

// patterns returns those of the packages to try.
func patterns(ctx context.Context, f flags) ([]string, error) {
	switch {
	case f.packages == "all":
		var all []string
		for _, area := range areas() {
			all = append(all, "./"+area+"/...")
		}
		return all, nil
	case f.packages != "":
		return strings.Split(f.packages, ","), nil
	}
	return changed(ctx, ".", f.changed)
}

// areas are the directories whose packages must be well tested.
func areas() []string {
	return []string{"authn", "authz", "admission", "registry", "storage", "scheduler", "controllers", "kubelet", "podspec"}
}
