// Package trial runs the tests of packages against their mutants.
package trial

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/keelson-dev/keelson/tools/mutants/schemata"
)

// Verdict is the outcome of a mutant.
type Verdict string

// The verdicts. A test that takes several times its usual time has noticed the mutant, too.
const (
	Killed     Verdict = "killed"
	TimedOut   Verdict = "timed out"
	Survived   Verdict = "survived"
	NotReached Verdict = "not reached"
)

// Plan says how a package's mutants are tried.
type Plan struct {
	// Short runs the tests with -short.
	Short bool
	// Skip is a regular expression of tests that are not run, or empty.
	Skip string
	// Also are further packages whose tests are run against mutants that the package's own tests let survive.
	Also []string
	// Mutants are those of the package to try.
	Mutants []schemata.Mutant
}

// Result is the outcome of one mutant, and the package whose tests noticed it.
type Result struct {
	schemata.Mutant
	Verdict Verdict
}

// Report is the outcome of the mutants of one package.
type Report struct {
	Results []Result
	// Broken are tests that fail even without a mutant: as another user, without the go command or network, or for
	// reasons of their own.
	Broken []string
	// Usual is the time that the tests take without a mutant.
	Usual time.Duration
}

// Workshop builds and runs test binaries. It is safe for concurrent use.
type Workshop struct {
	module   string
	dir      string
	slots    chan struct{}
	base     time.Duration // of limits
	binaries atomic.Int64
}

// Open makes a workshop for the packages of the module in a directory; at most jobs test binaries run at once. Its
// files are in a temporary directory, which Close removes.
func Open(module string, jobs int) (*Workshop, error) {
	if jobs < 1 {
		return nil, fmt.Errorf("%d jobs: at least 1 is needed", jobs)
	}
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return nil, err
	}
	// Users other than root have to be able to read the binaries.
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, err
	}
	return &Workshop{module: module, dir: dir, slots: make(chan struct{}, jobs), base: 5 * time.Second}, nil
}

// Close removes everything that the workshop wrote.
func (w *Workshop) Close() error { return os.RemoveAll(w.dir) }

// Try tries the plan's mutants. Results are passed to progress as soon as they are known, one at a time.
func (w *Workshop) Try(ctx context.Context, p *schemata.Package, plan Plan, progress func(Result)) (report *Report, err error) {
	dir, err := os.MkdirTemp(w.dir, "package")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, err
	}
	overlay, err := p.WriteOverlay(dir)
	if err != nil {
		return nil, err
	}
	t := &try{w: w, p: p, plan: plan, overlay: overlay, dir: dir, progress: progress, report: &Report{}}
	left := plan.Mutants
	reached := map[int]bool{}
	packages := plan.Also
	if p.Tests {
		packages = slices.Concat([]string{p.Path}, plan.Also)
	}
	for _, pkg := range packages {
		if left, err = t.with(ctx, pkg, left, reached); err != nil {
			return nil, err
		}
	}
	for _, m := range left {
		verdict := NotReached
		if reached[m.ID] {
			verdict = Survived
		}
		t.done(m, verdict)
	}
	slices.SortFunc(t.report.Results, func(a, b Result) int { return cmp.Compare(a.ID, b.ID) })
	return t.report, nil
}

// try is the state of one Try.
type try struct {
	w        *Workshop
	p        *schemata.Package
	plan     Plan
	overlay  string
	dir      string
	progress func(Result)

	mu     sync.Mutex
	report *Report
}

func (t *try) done(m schemata.Mutant, v Verdict) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := Result{m, v}
	t.report.Results = append(t.report.Results, r)
	t.progress(r)
}

// with tries mutants on the tests of one package, and returns the survivors.
func (t *try) with(ctx context.Context, pkg string, mutants []schemata.Mutant, reached map[int]bool) ([]schemata.Mutant, error) {
	if len(mutants) == 0 {
		return nil, nil
	}
	suite, err := t.prepare(ctx, pkg)
	if err != nil {
		return nil, err
	}
	t.report.Broken = append(t.report.Broken, suite.broken...)
	t.report.Usual += suite.took()
	var wg sync.WaitGroup
	lived := make([]bool, len(mutants))
	failures := make([]error, len(mutants))
	for i, m := range mutants {
		groups := suite.reaching(m.ID)
		if len(groups) == 0 {
			lived[i] = true
			continue
		}
		reached[m.ID] = true
		wg.Go(func() {
			verdict, err := suite.attack(ctx, m.ID, groups)
			failures[i], lived[i] = err, verdict == Survived
			if err == nil && !lived[i] {
				t.done(m, verdict)
			}
		})
	}
	wg.Wait()
	var left []schemata.Mutant
	for i, m := range mutants {
		if failures[i] != nil {
			return nil, failures[i]
		}
		if lived[i] {
			left = append(left, m)
		}
	}
	return left, nil
}

// suite holds the tests of a package in groups that run together, the quickest first.
type suite struct {
	t      *try
	binary string
	dir    string
	args   []string
	groups []group
	broken []string
}

type group struct {
	tests   []string
	took    time.Duration
	reached map[int]bool
}

func (s *suite) took() time.Duration {
	var sum time.Duration
	for _, g := range s.groups {
		sum += g.took
	}
	return sum
}

func (s *suite) reaching(id int) []group {
	var groups []group
	for _, g := range s.groups {
		if g.reached[id] {
			groups = append(groups, g)
		}
	}
	return groups
}

// attack runs groups until one fails.
func (s *suite) attack(ctx context.Context, id int, groups []group) (Verdict, error) {
	for _, g := range groups {
		o, err := s.run(ctx, g.tests, command{active: id, limit: s.t.w.limit(g.took)}, "-test.failfast")
		if err != nil {
			return "", err
		}
		switch {
		case o.timedOut:
			return TimedOut, nil
		case !o.passed:
			return Killed, nil
		}
	}
	return Survived, nil
}

// run runs tests when a slot is free.
func (s *suite) run(ctx context.Context, tests []string, c command, flags ...string) (outcome, error) {
	select {
	case s.t.w.slots <- struct{}{}:
		defer func() { <-s.t.w.slots }()
	case <-ctx.Done():
		return outcome{}, ctx.Err()
	}
	c.binary, c.dir = s.binary, s.dir
	c.args = slices.Concat(s.args, flags, []string{"-test.run", "^(" + strings.Join(tests, "|") + ")$"})
	return s.t.w.run(ctx, c)
}

// Durations that decide how tests are grouped.
const (
	longest   = 10 * time.Minute       // limit of a suite without mutants
	quick     = 100 * time.Millisecond // tests that take less run together
	wholesome = 2 * time.Second        // a suite that takes less is not divided
)

// prepare compiles the tests of a package, and finds out which pass, how long they take and which mutants they reach.
func (t *try) prepare(ctx context.Context, pkg string) (*suite, error) {
	binary, err := t.w.compile(ctx, pkg, t.overlay, t.dir)
	if err != nil {
		return nil, err
	}
	dir, err := t.w.directory(ctx, pkg)
	if err != nil {
		return nil, err
	}
	s := &suite{t: t, binary: binary, dir: dir, args: []string{"-test.timeout=0", "-test.count=1", "-test.paniconexit0"}}
	if t.plan.Short {
		s.args = append(s.args, "-test.short")
	}
	all, err := s.list(ctx)
	if err != nil {
		return nil, err
	}
	whole, times, err := s.passing(ctx, pkg, all)
	if err != nil {
		return nil, err
	}
	s.groups = grouped(whole.tests, times)
	if whole.took < wholesome || len(s.groups) == 1 {
		s.groups = []group{whole}
		return s, nil
	}
	for i := range s.groups {
		m, err := s.measure(ctx, s.groups[i].tests)
		if err != nil {
			return nil, err
		}
		s.groups[i] = m.group
	}
	slices.SortStableFunc(s.groups, func(a, b group) int { return cmp.Compare(a.took, b.took) })
	return s, nil
}

// passing drops the tests that fail without a mutant, and runs the others once more than necessary: a flaky failure
// must not count as noticing a mutant.
func (s *suite) passing(ctx context.Context, pkg string, tests []string) (group, map[string]time.Duration, error) {
	for good := 0; ; {
		m, err := s.measure(ctx, tests)
		if err != nil {
			return group{}, nil, err
		}
		if m.passed {
			if good++; good == 2 {
				return m.group, m.times, nil
			}
			continue
		}
		tests = slices.DeleteFunc(slices.Clone(tests), func(test string) bool { return slices.Contains(m.failed, test) })
		if len(m.failed) == 0 || len(tests) == 0 {
			return group{}, nil, fmt.Errorf("the tests of %s do not pass without a mutant, or not in %s:\n%s", pkg, longest, m.output[max(0, len(m.output)-2000):])
		}
		s.broken = append(s.broken, m.failed...)
	}
}

// grouped puts the quick tests into one group and each other test into its own.
func grouped(tests []string, times map[string]time.Duration) []group {
	var together group
	var groups []group
	for _, test := range tests {
		if times[test] < quick {
			together.tests = append(together.tests, test)
		} else {
			groups = append(groups, group{tests: []string{test}})
		}
	}
	if len(together.tests) > 0 {
		groups = append(groups, together)
	}
	return groups
}

// list returns the names of the tests that the plan does not skip.
func (s *suite) list(ctx context.Context) ([]string, error) {
	o, err := s.t.w.run(ctx, command{binary: s.binary, dir: s.dir, args: []string{"-test.list=."}, active: -1, limit: longest})
	if err != nil {
		return nil, err
	}
	skip := regexp.MustCompile("^$")
	if s.t.plan.Skip != "" {
		if skip, err = regexp.Compile(s.t.plan.Skip); err != nil {
			return nil, err
		}
	}
	var tests []string
	for _, line := range strings.Fields(string(o.output)) {
		if !strings.HasPrefix(line, "Benchmark") && !skip.MatchString(line) {
			tests = append(tests, line)
		}
	}
	if !o.passed || len(tests) == 0 {
		return nil, fmt.Errorf("%s has no tests to run:\n%s", s.binary, o.output)
	}
	return tests, nil
}

// measured is the result of a run without a mutant.
type measured struct {
	group
	outcome
	times  map[string]time.Duration
	failed []string
}

// measure runs tests without a mutant.
func (s *suite) measure(ctx context.Context, tests []string) (m *measured, err error) {
	reached, err := s.t.w.reachedFile(s.t.p.Size())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.Remove(reached)) }()
	o, err := s.run(ctx, tests, command{active: -1, reached: reached, limit: longest}, "-test.v")
	if err != nil {
		return nil, err
	}
	m = &measured{outcome: o, times: map[string]time.Duration{}}
	ended := regexp.MustCompile(`(?m)^--- (PASS|SKIP|FAIL): (\S+) \(([0-9.]+s)\)$`)
	for _, line := range ended.FindAllSubmatch(o.output, -1) {
		test := string(line[2])
		if string(line[1]) == "FAIL" {
			m.failed = append(m.failed, test)
		}
		if m.times[test], err = time.ParseDuration(string(line[3])); err != nil {
			return nil, err
		}
	}
	data, err := os.ReadFile(reached)
	m.group = group{tests: tests, took: o.took, reached: schemata.Reached(data)}
	return m, err
}
