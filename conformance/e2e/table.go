package main

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/keelson-dev/keelson/internal/boundedyaml"
	"github.com/keelson-dev/keelson/internal/evidence"
)

//go:embed served.tsv
var servedTable string

//go:embed pods.tsv
var podsTable string

// errClass means that there is no such class of tests.
var errClass = errors.New("-class is served or pods")

// class is a kind of tests and what they run on.
type class struct {
	// file is the name of the table, result that of the results file.
	file, result string
	rows         []row
	// containers means that pods have to run for real.
	containers bool
	// parallel is how many tests run concurrently.
	parallel int
	// hosts runs all of them on two hosts.
	hosts bool
}

// classOf finds a class by its name and reads its table.
func classOf(name string) (class, error) {
	var c class
	var text string
	switch name {
	case "served":
		c, text = class{file: "served.tsv", result: "conformance", parallel: 6}, servedTable
	case "pods":
		c, text = class{file: "pods.tsv", result: "conformance-pods", containers: true, parallel: 6}, podsTable
	default:
		return class{}, fmt.Errorf("%w, not %q", errClass, name)
	}
	var err error
	c.rows, err = readTable(c.file, text)
	return c, err
}

// row is a line of a table: the name of a test in the suite, what it is about, and what it needs that keelson does not
// have.
type row struct{ test, about, missing string }

// hosts reports whether the test needs two nodes, which are hosts of their own if their containers are real.
func (r row) hosts() bool { return slices.Contains(strings.Split(r.about, ","), "two hosts") }

// expected reports whether the test has to pass.
func (r row) expected() bool { return r.missing == "-" }

func readTable(file, text string) ([]row, error) {
	var rows []row
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i, line := range lines[1:] {
		cells := strings.Split(line, "\t")
		if len(cells) != 3 {
			return nil, fmt.Errorf("%s:%d has %d cells, not test, about and missing", file, i+2, len(cells))
		}
		rows = append(rows, row{cells[0], cells[1], cells[2]})
	}
	return rows, nil
}

// batch is one run of the suite.
type batch struct {
	focus string
	// tests is the number of tests; 0 means that the suite will report it.
	tests int
	// alone means that nothing else may run at the same time.
	alone bool
	// hosts means that it runs on a cluster of two hosts.
	hosts bool
}

// most is the maximum number of tests in a batch if several batches run concurrently: enough to outweigh the suite's
// start, and few enough for batches to end at about the same time.
const most = 6

// batches divides the tests to run: those that focus names, or by default those that have to pass. Tests that must run
// alone come last. An expression that matches no test of the table is passed to the suite: the names are then unknown.
func (c class) batches(focus string) (asked []string, all []batch, err error) {
	expression, err := regexp.Compile(focus)
	if err != nil {
		return nil, nil, fmt.Errorf("-focus: %w; it is a regular expression, or a file with one", err)
	}
	var together, alone, apart []string
	for _, r := range c.rows {
		switch {
		case focus == "" && !r.expected(), !expression.MatchString(r.test):
		case r.hosts() && !c.hosts:
			apart = append(apart, r.test)
		case strings.Contains(r.test, "[Serial]"), strings.Contains(r.test, "[Disruptive]"):
			alone = append(alone, r.test)
		default:
			together = append(together, r.test)
		}
	}
	if len(together)+len(alone)+len(apart) == 0 {
		return nil, []batch{{focus: focus, alone: true, hosts: c.hosts}}, nil
	}
	asked = slices.Concat(together, alone, apart)
	if c.parallel == 1 {
		together, alone = nil, slices.Concat(together, alone)
	}
	// Neighbours in the table take similar times: each batch gets some of everything.
	n := (len(together) + most - 1) / most
	for i := range n {
		var names []string
		for at := i; at < len(together); at += n {
			names = append(names, together[at])
		}
		all = append(all, batch{focus: exactly(names), tests: len(names), hosts: c.hosts})
	}
	if len(alone) > 0 {
		all = append(all, batch{focus: exactly(alone), tests: len(alone), alone: true, hosts: c.hosts})
	}
	if len(apart) > 0 {
		all = append(all, batch{focus: exactly(apart), tests: len(apart), alone: true, hosts: true})
	}
	return asked, all, nil
}

// errUnknown means that the suite has no test with this name.
var errUnknown = errors.New("the suite has no such test")

// known compares the table with the suite's own list of conformance tests: a name that changed is reported before
// anything runs.
func (c class) known(list string) error {
	data, err := os.ReadFile(list)
	if err != nil {
		return err
	}
	var tests []struct{ Codename string }
	if err := boundedyaml.Unmarshal(data, &tests, 8<<20); err != nil {
		return fmt.Errorf("%s: %w", list, err)
	}
	names := map[string]bool{}
	for _, t := range tests {
		names[t.Codename] = true
	}
	var unknown []error
	for _, r := range c.rows {
		if !names[r.test] {
			unknown = append(unknown, fmt.Errorf("%s: %w: %s", c.file, errUnknown, r.test))
		}
	}
	return errors.Join(unknown...)
}

// leftOut returns the tests of the class that lack something, with what they lack.
func (c class) leftOut() []evidence.Failure {
	var out []evidence.Failure
	for _, r := range c.rows {
		if !r.expected() {
			out = append(out, evidence.Failure{Test: r.test, Message: r.missing})
		}
	}
	return out
}

// exactly returns the expression that selects exactly the tests with these names.
func exactly(names []string) string {
	quoted := make([]string, 0, len(names))
	for _, n := range names {
		quoted = append(quoted, regexp.QuoteMeta(n))
	}
	return "(" + strings.Join(quoted, "|") + ")"
}

// expressionOf takes an expression, or the name of a file with one.
func expressionOf(focus string) (string, error) {
	if content, err := os.ReadFile(focus); err == nil {
		focus = strings.TrimSpace(string(content))
	}
	if _, err := regexp.Compile(focus); err != nil {
		return "", fmt.Errorf("-focus: %w; it is a regular expression, or a file with one", err)
	}
	return focus, nil
}
