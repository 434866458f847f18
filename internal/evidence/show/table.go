package main

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/keelson-dev/keelson/internal/evidence"
)

// table renders a result as Markdown.
func table(r evidence.Result) string {
	var b strings.Builder
	if !r.Passed {
		b.WriteString("\n**This run failed**, and what it says is not to be relied on:\n\n")
		for _, reason := range r.Failures {
			line, _, _ := strings.Cut(reason, "\n")
			fmt.Fprintf(&b, "- %s\n", line)
		}
	}
	if r.Tests != nil {
		b.WriteString(tests(r))
	}
	if r.Growth != nil {
		b.WriteString(growth(r.Growth))
	}
	if len(r.Peers) > 0 {
		b.WriteString(peers(r.Peers))
	}
	if len(r.Mutants) > 0 {
		b.WriteString(mutants(r.Mutants))
	}
	if len(r.Figures) > 0 {
		b.WriteString("\n| what | measured | limit |\n|---|---|---|\n")
	}
	for _, f := range r.Figures {
		limit := ""
		if f.Limit > 0 {
			limit = fmt.Sprintf("%g %s", f.Limit, f.Unit)
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", f.What, measured(f), limit)
	}
	return b.String() + "\n" + origin(r) + "\n\n"
}

// tests renders the results of upstream's tests, and what was left out, with the reasons ordered by their number of
// tests.
func tests(r evidence.Result) string {
	var b strings.Builder
	b.WriteString("\n| tests of | selected | passed | failed | left out |\n|---|---|---|---|---|\n")
	leftOut := strconv.Itoa(len(r.Tests.LeftOut))
	if r.Dirty == nil && len(r.Tests.LeftOut) == 0 {
		leftOut = "not recorded" // in old results
	}
	fmt.Fprintf(&b, "| Kubernetes %s | %d | %d | %d | %s |\n", r.Upstream, r.Tests.Selected, r.Tests.Passed, r.Tests.Failed, leftOut)
	for _, f := range r.Tests.Failures {
		fmt.Fprintf(&b, "\nFailed: %s: %s\n", f.Test, f.Message)
	}
	if len(r.Tests.LeftOut) == 0 {
		return b.String()
	}
	many := map[string]int{}
	for _, t := range r.Tests.LeftOut {
		many[t.Message]++
	}
	var reasons []string
	for _, reason := range slices.SortedFunc(maps.Keys(many), func(a, b string) int {
		return cmp.Or(cmp.Compare(many[b], many[a]), cmp.Compare(a, b))
	}) {
		reasons = append(reasons, fmt.Sprintf("%s (%d)", reason, many[reason]))
	}
	return b.String() + "\nLeft out for what they need: " + strings.Join(reasons, ", ") + ".\n"
}

// mutants renders which deliberate changes tests noticed.
func mutants(areas []evidence.Mutants) string {
	var b strings.Builder
	b.WriteString("\n| area | packages | changes tried | noticed | not noticed | not reached | change nothing | noticed of the sensible |\n|---|---|---|---|---|---|---|---|\n")
	for _, a := range areas {
		fmt.Fprintf(&b, "| %s | %d | %d of %d | %d | %d | %d | %d | %.1f %% |\n", a.Area, a.Packages, a.Tried, a.Mutants, a.Killed, a.Survived, a.NotReached, a.Equivalent, a.Rate)
	}
	for _, a := range areas {
		for _, p := range a.LeftOut {
			fmt.Fprintf(&b, "\nNot tried: %s: %s\n", p.Test, p.Message)
		}
	}
	return b.String()
}

// growth renders figures that grow, with the ratio of the last to the first.
func growth(g *evidence.Growth) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n| %s |", g.Of)
	for _, n := range g.Numbers {
		fmt.Fprintf(&b, " %d |", n)
	}
	b.WriteString(" ratio |\n|---|" + strings.Repeat("---|", len(g.Numbers)+1) + "\n")
	for _, row := range g.Rows {
		fmt.Fprintf(&b, "| %s |", row.What)
		for _, v := range row.Values {
			fmt.Fprintf(&b, " %.3g %s |", v, row.Unit)
		}
		if len(row.Values) > 0 && row.Values[0] > 0 {
			fmt.Fprintf(&b, " %.2f", row.Values[len(row.Values)-1]/row.Values[0])
		}
		b.WriteString(" |\n")
	}
	return b.String()
}

// peers renders figures beside upstream's.
func peers(rows []evidence.Peer) string {
	var b strings.Builder
	b.WriteString("\n| what | keelson | upstream | ratio |\n|---|---|---|---|\n")
	for _, p := range rows {
		if p.LeftOut != "" {
			fmt.Fprintf(&b, "| %s | left out: %s | | |\n", p.What, p.LeftOut)
			continue
		}
		ratio := ""
		if p.Ratio > 0 {
			ratio = fmt.Sprintf("%.1f", p.Ratio)
		}
		what := p.What
		if p.Runs > 1 {
			what += fmt.Sprintf(" (%s of %d)", p.Of, p.Runs)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", what, number(p.Keelson, p.Unit), number(p.Upstream, p.Unit), ratio)
	}
	return b.String()
}

// measured is a figure's value with what it measures.
func measured(f evidence.Figure) string {
	value := number(f.Value, f.Unit)
	if f.Runs > 1 {
		value += fmt.Sprintf(" (%s of %d runs)", f.Of, f.Runs)
	}
	return value
}

// number is a value with its unit. Counts are whole numbers.
func number(v float64, unit string) string {
	value := fmt.Sprintf("%.4g", v)
	if v == math.Trunc(v) {
		value = fmt.Sprintf("%.0f", v)
	}
	return strings.TrimSpace(value + " " + unit)
}

// origin renders where a result is from: commit, day, machine, versions.
func origin(r evidence.Result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Measured at commit %s", r.Commit)
	if r.Dirty != nil && *r.Dirty {
		b.WriteString(" with changes that are in no commit")
	}
	fmt.Fprintf(&b, ", %s, on %d CPUs (%s, %s/%s, %s", r.Date.Format(time.DateOnly), r.Machine.CPUs, r.Machine.Model, r.Machine.OS, r.Machine.Arch, r.Machine.Go)
	if r.Upstream != "" && r.Tests == nil {
		fmt.Fprintf(&b, ", Kubernetes %s", r.Upstream)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Versions)) {
		fmt.Fprintf(&b, ", %s %s", name, r.Versions[name])
	}
	b.WriteString(").")
	if r.Note != "" {
		b.WriteString(" " + r.Note)
	}
	return b.String()
}
