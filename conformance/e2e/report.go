package main

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/keelson-dev/keelson/internal/evidence"
)

// test is a test that ran.
type test struct {
	name string
	// failure is the first line of the failure; empty if the test passed.
	failure string
}

// spec is the prefix of tests' names; the report has other parts of the suite as well.
const spec = "[It] "

type junit struct {
	Cases []struct {
		Name    string   `xml:"name,attr"`
		Status  string   `xml:"status,attr"`
		Failure *message `xml:"failure"`
		Error   *message `xml:"error"`
	} `xml:"testsuite>testcase"`
}

type message struct {
	Text string `xml:",chardata"`
}

// readReport reads a report of the suite: the tests that ran, sorted by name. It fails if something else than a test
// failed, such as the suite's setup.
func readReport(r io.Reader) ([]test, error) {
	var report junit
	if err := xml.NewDecoder(r).Decode(&report); err != nil {
		return nil, fmt.Errorf("read the suite's report: %w", err)
	}
	var tests []test
	for _, c := range report.Cases {
		if c.Status == "skipped" || c.Status == "pending" {
			continue
		}
		t := test{name: strings.TrimPrefix(c.Name, spec)}
		if c.Status != "passed" {
			t.failure = c.Status
			for _, m := range []*message{c.Failure, c.Error} {
				if m != nil && m.Text != "" {
					t.failure = firstLine(m.Text)
					break
				}
			}
		}
		switch isTest := strings.HasPrefix(c.Name, spec); {
		case isTest:
			tests = append(tests, t)
		case t.failure != "":
			return nil, fmt.Errorf("%s: %s", c.Name, t.failure)
		}
	}
	sortTests(tests)
	return tests, nil
}

func sortTests(tests []test) {
	slices.SortFunc(tests, func(a, b test) int { return strings.Compare(a.name, b.name) })
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(strings.TrimPrefix(s, "[FAILED] ")), "\n")
	const enough = 300
	if len(line) > enough {
		return strings.ToValidUTF8(line[:enough], "") + "…"
	}
	return line
}

// judge counts the tests and reports problems: a test that failed and lacks nothing, and one that was requested and did
// not run, which counts as failed. all means that all tests of the class that lack nothing were requested.
func judge(tests []test, c class, asked []string, all bool) (evidence.Tests, error) {
	must := map[string]bool{}
	for _, r := range c.rows {
		must[r.test] = r.expected()
	}
	counts := evidence.Tests{Selected: len(tests)}
	var broken []error
	missing := map[string]bool{}
	for _, name := range asked {
		missing[name] = true
	}
	for _, t := range tests {
		delete(missing, t.name)
		if t.failure == "" {
			counts.Passed++
			continue
		}
		counts.Failures = append(counts.Failures, evidence.Failure{Test: t.name, Message: t.failure})
		if must[t.name] {
			broken = append(broken, fmt.Errorf("%s has to pass: %s", t.name, t.failure))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		counts.Selected++
		counts.Failures = append(counts.Failures, evidence.Failure{Test: name, Message: "it did not run"})
		broken = append(broken, fmt.Errorf("%s was asked for and did not run: did it skip itself, or has the suite another name for it than %s?", name, c.file))
	}
	counts.Failed = len(counts.Failures)
	if all {
		counts.LeftOut = c.leftOut()
	}
	if len(tests) == 0 {
		broken = append(broken, errors.New("no test was selected"))
	}
	return counts, errors.Join(broken...)
}
