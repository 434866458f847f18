// Readme writes the figures of results/*.json into README.md, between the lines that mark their
// place, so that what the README says is what was measured. With -check it only compares.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/keelson-dev/keelson/internal/evidence"
)

func main() {
	check := flag.Bool("check", false, "fail when the README differs from the results, and write nothing")
	flag.Parse()
	if err := run(*check); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

var marks = regexp.MustCompile(`(?s)(<!-- results/([a-z-]+)\.json -->\n).*?(<!-- end -->)`)

func run(check bool) error {
	before, err := os.ReadFile("README.md")
	if err != nil {
		return err
	}
	var failures []error
	after := marks.ReplaceAllFunc(before, func(place []byte) []byte {
		parts := marks.FindSubmatch(place)
		table, err := table(string(parts[2]))
		if err != nil {
			failures = append(failures, err)
			return place
		}
		return bytes.Join([][]byte{parts[1], table, parts[3]}, nil)
	})
	switch {
	case len(failures) > 0:
		return errors.Join(failures...)
	case bytes.Equal(before, after):
		return nil
	case check:
		return errors.New("README.md does not show what results/ says: run go run ./internal/evidence/readme")
	}
	return os.WriteFile("README.md", after, 0o644)
}

// table renders one result as Markdown.
func table(name string) ([]byte, error) {
	data, err := os.ReadFile(filepath.Join("results", name+".json"))
	if err != nil {
		return nil, err
	}
	var r evidence.Result
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("results/%s.json: %w", name, err)
	}
	var b strings.Builder
	if r.Tests != nil {
		b.WriteString("\n| tests of | selected | passed | failed |\n|---|---|---|---|\n")
		fmt.Fprintf(&b, "| Kubernetes %s | %d | %d | %d |\n", r.Upstream, r.Tests.Selected, r.Tests.Passed, r.Tests.Failed)
	}
	if r.Growth != nil {
		b.WriteString(growth(r.Growth))
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
	fmt.Fprintf(&b, "\nMeasured at commit %s on %d CPUs (%s, %s/%s, %s).", r.Commit, r.Machine.CPUs, r.Machine.Model, r.Machine.OS, r.Machine.Arch, r.Machine.Go)
	if r.Note != "" {
		b.WriteString(" " + r.Note)
	}
	b.WriteString("\n\n")
	return []byte(b.String()), nil
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
		if first := row.Values[0]; first > 0 {
			fmt.Fprintf(&b, " %.2f", row.Values[len(row.Values)-1]/first)
		}
		b.WriteString(" |\n")
	}
	return b.String()
}

// measured is a figure's value with what it is of. Counts are whole numbers.
func measured(f evidence.Figure) string {
	value := fmt.Sprintf("%.4g", f.Value)
	if f.Value == math.Trunc(f.Value) {
		value = fmt.Sprintf("%.0f", f.Value)
	}
	if f.Unit != "" {
		value += " " + f.Unit
	}
	if f.Runs > 1 {
		value += fmt.Sprintf(" (%s of %d runs)", f.Of, f.Runs)
	}
	return value
}
