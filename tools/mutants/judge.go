package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/keelson-dev/keelson/internal/evidence"
	"github.com/keelson-dev/keelson/tools/mutants/trial"
)

// least is the percentage of sensible mutants that the tests of an area must kill.
const least = 95

// judgement is the result of a run for the areas and for the list of survivors.
type judgement struct {
	areas    []evidence.Mutants
	unlisted []string // rows of survivors without a reason, and where they are
	stale    []string
	leftOut  []evidence.Failure
	failed   []string // packages
}

// judge counts the outcomes, and compares the survivors with the list.
func judge(outcomes []*tried, listed map[identity]string) *judgement {
	j := &judgement{}
	byArea := map[string]*evidence.Mutants{}
	for _, t := range outcomes {
		name, _, _ := strings.Cut(t.path, "/")
		if byArea[name] == nil {
			byArea[name] = &evidence.Mutants{Area: name}
		}
		if t.failed != nil {
			j.failed = append(j.failed, t.path)
			continue
		}
		if t.leftOut != "" {
			j.leftOut = append(j.leftOut, evidence.Failure{Test: t.path, Message: t.leftOut})
			byArea[name].LeftOut = append(byArea[name].LeftOut, evidence.Failure{Test: t.path, Message: t.leftOut})
			continue
		}
		j.count(t, byArea[name], listed)
		j.compare(t, listed)
	}
	for _, area := range slices.Sorted(maps.Keys(byArea)) {
		a := *byArea[area]
		if counted := a.Tried - a.Equivalent; counted > 0 {
			a.Rate = float64(a.Killed) * 100 / float64(counted)
		}
		j.areas = append(j.areas, a)
	}
	return j
}

func (j *judgement) count(t *tried, a *evidence.Mutants, listed map[identity]string) {
	a.Packages++
	a.Mutants += len(t.all)
	a.Tried += len(t.results)
	for _, r := range t.results {
		id := identityOf(r.Mutant)
		reason := listed[id]
		switch {
		case r.Verdict == trial.Killed || r.Verdict == trial.TimedOut:
			a.Killed++
			continue
		case strings.HasPrefix(reason, equivalent):
			a.Equivalent++
		case r.Verdict == trial.NotReached:
			a.NotReached++
		default:
			a.Survived++
		}
		if reason == "" {
			j.unlisted = append(j.unlisted, fmt.Sprintf("%s\t\t(%s, line %d)", id, r.Verdict, r.Line))
		}
	}
}

// compare finds entries for a package in the list that are no longer true.
func (j *judgement) compare(t *tried, listed map[identity]string) {
	exists, killed := map[identity]bool{}, map[identity]bool{}
	for _, m := range t.all {
		exists[identityOf(m)] = true
	}
	for _, r := range t.results {
		killed[identityOf(r.Mutant)] = r.Verdict == trial.Killed
	}
	for _, id := range slices.SortedFunc(maps.Keys(listed), func(a, b identity) int { return cmp.Compare(a.String(), b.String()) }) {
		switch {
		case id.pkg != t.path:
		case !exists[id]:
			j.stale = append(j.stale, "no longer exists: "+id.String())
		case killed[id] && !strings.HasPrefix(listed[id], sometimes):
			j.stale = append(j.stale, "is killed now: "+id.String())
		}
	}
}

func (j *judgement) print(w io.Writer) {
	for _, row := range j.unlisted {
		fmt.Fprintln(w, row)
	}
	for _, row := range j.stale {
		fmt.Fprintln(w, row)
	}
	for _, l := range j.leftOut {
		fmt.Fprintf(w, "%s is left out: %s\n", l.Test, l.Message)
	}
	for _, a := range j.areas {
		fmt.Fprintf(w, "%-12s %5d of %5d mutants of %2d packages: %5d killed, %3d survived, %3d not reached, %3d equivalent: %5.1f %%\n",
			a.Area, a.Tried, a.Mutants, a.Packages, a.Killed, a.Survived, a.NotReached, a.Equivalent, a.Rate)
	}
}

// err returns what has to be done.
func (j *judgement) err() error {
	var all []error
	for _, a := range j.areas {
		if a.Tried > a.Equivalent && a.Rate < least {
			all = append(all, fmt.Errorf("%s: the tests kill %.1f %% of the sensible mutants, at least %d %% are required: write tests for the survivors", a.Area, a.Rate, least))
		}
	}
	if len(j.failed) > 0 {
		all = append(all, fmt.Errorf("the tests of these packages could not be run, as was said above: %s", strings.Join(j.failed, ", ")))
	}
	if n := len(j.unlisted); n > 0 {
		all = append(all, fmt.Errorf("%d survivors are not listed: write a test for each, or list it in survivors.tsv with the reason why none should notice", n))
	}
	if n := len(j.stale); n > 0 {
		all = append(all, fmt.Errorf("%d lines of survivors.tsv are no longer true: remove them", n))
	}
	return errors.Join(all...)
}
