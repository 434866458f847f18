package main

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/keelson-dev/keelson/tools/mutants/schemata"
	"github.com/keelson-dev/keelson/tools/mutants/trial"
)

// tried is the outcome of the mutants of one package.
type tried struct {
	path string // without the module
	// leftOut is the reason why none was tried.
	leftOut string
	// all are the sensible mutants, and results the outcomes of those that were tried.
	all     []schemata.Mutant
	results []trial.Result
	// failed is the reason why its tests could not be run.
	failed error
}

// runner tries the mutants of packages, two packages at a time: one compiles while the other's tests run.
type runner struct {
	flags    flags
	settings map[string]setting
	listed   map[identity]string
	out      io.Writer

	mu       sync.Mutex
	outcomes []*tried
	start    time.Time
	planned  int // mutants
	done     int
}

// job is a package with its chosen mutants.
type job struct {
	pkg    *schemata.Package
	chosen []schemata.Mutant
	tried  *tried
}

func (r *runner) run(ctx context.Context, patterns []string) (err error) {
	jobs, err := r.plan(patterns)
	if err != nil {
		return err
	}
	w, err := trial.Open(".", r.flags.jobs)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	r.start = time.Now()
	next := make(chan job)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for j := range next {
				if err := r.try(ctx, w, j); err != nil && ctx.Err() == nil {
					r.giveUp(j, err)
				}
			}
		})
	}
	for _, j := range jobs {
		if ctx.Err() != nil {
			break
		}
		next <- j
	}
	close(next)
	wg.Wait()
	return ctx.Err()
}

// giveUp records that a package's tests cannot be run, and continues.
func (r *runner) giveUp(j job, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	j.tried.failed = err
	r.planned -= len(j.chosen)
	fmt.Fprintf(r.out, "%-40s %v\n", j.tried.path, err)
}

// plan makes the mutants of all packages and chooses those to try.
func (r *runner) plan(patterns []string) ([]job, error) {
	source, err := schemata.List(".", patterns...)
	if err != nil {
		return nil, err
	}
	var jobs []job
	for _, name := range source.Packages() {
		t := &tried{path: strings.TrimPrefix(name, module)}
		r.outcomes = append(r.outcomes, t)
		s := r.settings[t.path]
		if t.leftOut = s.leftOut; t.leftOut == "" && path.Base(name) == path.Base(path.Dir(name))+"test" {
			t.leftOut = "a kit for tests, which has broken implementations to find"
		}
		if t.leftOut != "" {
			continue
		}
		p, err := source.Schemata(name)
		if err != nil {
			return nil, err
		}
		for _, m := range p.Mutants {
			if s.files[m.File] == "" {
				t.all = append(t.all, m)
			}
		}
		if chosen := sample(t.all, r.flags.sample, r.flags.seed); len(chosen) > 0 {
			jobs, r.planned = append(jobs, job{p, chosen, t}), r.planned+len(chosen)
		}
	}
	slices.SortFunc(r.outcomes, func(a, b *tried) int { return cmp.Compare(a.path, b.path) })
	return jobs, nil
}

// sample chooses n mutants at random, or all if n is 0. Small changes of the code change the choice little.
func sample(all []schemata.Mutant, n int, seed uint64) []schemata.Mutant {
	if n == 0 || len(all) <= n {
		return all
	}
	chance := func(m schemata.Mutant) uint64 {
		h := fnv.New64a()
		_ = binary.Write(h, binary.LittleEndian, seed)
		_, _ = io.WriteString(h, identityOf(m).String())
		// FNV's high bits depend little on the last character.
		x := h.Sum64()
		x = (x ^ x>>33) * 0xff51afd7ed558ccd
		return x ^ x>>33
	}
	chosen := slices.Clone(all)
	slices.SortFunc(chosen, func(a, b schemata.Mutant) int { return cmp.Compare(chance(a), chance(b)) })
	chosen = chosen[:n]
	slices.SortFunc(chosen, func(a, b schemata.Mutant) int { return cmp.Compare(a.ID, b.ID) })
	return chosen
}

// try tries one package and prints the outcome.
func (r *runner) try(ctx context.Context, w *trial.Workshop, j job) error {
	start := time.Now()
	s := r.settings[j.tried.path]
	report, err := w.Try(ctx, j.pkg, trial.Plan{Short: s.short, Skip: s.skip, Also: s.also, Mutants: j.chosen}, r.progress)
	if err != nil {
		return err
	}
	j.tried.results = report.Results
	n := map[trial.Verdict]int{}
	for _, result := range report.Results {
		n[result.Verdict]++
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	left := time.Duration(0)
	if r.done > 0 {
		left = time.Since(r.start) * time.Duration(r.planned-r.done) / time.Duration(r.done)
	}
	fmt.Fprintf(r.out, "%-40s %4d of %4d mutants: %4d killed, %2d timed out, %3d survived, %3d not reached; tests take %s; took %s; about %s left\n",
		j.tried.path, len(j.chosen), len(j.tried.all), n[trial.Killed], n[trial.TimedOut], n[trial.Survived], n[trial.NotReached],
		report.Usual.Round(time.Millisecond), time.Since(start).Round(time.Second), left.Round(time.Second))
	if len(report.Broken) > 0 {
		fmt.Fprintf(r.out, "%-40s without tests that fail without a mutant here: %s\n", j.tried.path, strings.Join(report.Broken, ", "))
	}
	return nil
}

func (r *runner) progress(result trial.Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done++
	if r.flags.all {
		fmt.Fprintf(r.out, "%s\t%s:%d\n", result.Verdict, identityOf(result.Mutant), result.Line)
	}
}
