package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/keelson-dev/keelson/internal/evidence"
)

// counts is what came of a suite's tests.
type counts struct {
	passed, skipped   int // those that skipped themselves, or are pending
	failures, leftOut []evidence.Failure
}

// read reads what came of a suite: of Ginkgo's specs by its report, and of Go's own tests by what the binary said.
func (s suite) read(output []byte, report string) (counts, error) {
	c := s.goTests(string(output))
	data, err := os.ReadFile(report)
	found := 0
	switch {
	case err == nil:
		found, err = s.specs(data, &c)
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	}
	if found == 0 {
		for _, e := range s.without { // go test does not tell what -skip has left out
			c.leftOut = append(c.leftOut, evidence.Failure{Test: s.path + ": " + e.names, Message: e.why})
		}
	}
	return c, err
}

// spec is a node of a Ginkgo suite in its report.
type spec struct {
	Containers []string `json:"ContainerHierarchyTexts"`
	Type       string   `json:"LeafNodeType"`
	Text       string   `json:"LeafNodeText"`
	State      string   `json:"State"`
	Failure    struct{ Message string }
}

// errStale means that the table leaves out what does not exist.
var errStale = errors.New("the suite has no such test to leave out")

// specs counts the specs of a report, and returns how many there are.
func (s suite) specs(data []byte, c *counts) (int, error) {
	var suites []struct {
		SpecReports                []spec
		SuiteSucceeded             bool
		SpecialSuiteFailureReasons []string
	}
	if err := json.Unmarshal(data, &suites); err != nil {
		return 0, fmt.Errorf("the report of Ginkgo: %w", err)
	}
	found := 0
	for _, suite := range suites {
		failures := len(c.failures)
		for _, one := range suite.SpecReports {
			s.count(one, c)
			found++
		}
		if !suite.SuiteSucceeded && len(c.failures) == failures {
			c.failures = append(c.failures, evidence.Failure{Test: s.path, Message: "the suite failed: " + strings.Join(suite.SpecialSuiteFailureReasons, ", ")})
		}
	}
	for _, e := range s.without {
		if found > 0 && !slices.ContainsFunc(c.leftOut, func(f evidence.Failure) bool { return f.Message == e.why }) {
			return found, fmt.Errorf("%w: %s", errStale, e.names)
		}
	}
	return found, nil
}

// count counts one node. What is no test, such as the suite's setup, counts if it failed.
func (s suite) count(one spec, c *counts) {
	name := strings.Join(append(one.Containers, one.Text), " ")
	if one.Text == "" {
		name += one.Type
	}
	isTest := one.Type == "It"
	switch one.State {
	case "passed":
		if isTest {
			c.passed++
		}
	case "skipped", "pending":
		if !isTest {
			return
		}
		if why := s.leftOut(name); why != "" {
			c.leftOut = append(c.leftOut, evidence.Failure{Test: s.path + ": " + name, Message: why})
			return
		}
		c.skipped++
	default:
		c.failures = append(c.failures, evidence.Failure{Test: s.path + ": " + name, Message: firstLine(one.State + ": " + one.Failure.Message)})
	}
}

// leftOut returns why a test is left out; empty if it is not.
func (s suite) leftOut(name string) string {
	for _, e := range s.without {
		if ok, err := regexp.MatchString(e.names, name); ok && err == nil {
			return e.why
		}
	}
	return ""
}

// goTests counts Go's own tests, without those that run a Ginkgo suite, which are the same as its specs.
func (s suite) goTests(output string) counts {
	var c counts
	running, suites := "", map[string]bool{}
	for line := range strings.Lines(output) {
		line = strings.TrimRight(line, "\n")
		if name, ok := strings.CutPrefix(line, "=== RUN   "); ok {
			running = strings.TrimSpace(name)
		} else if strings.HasPrefix(line, "Running Suite: ") {
			suites[running] = true
		}
		outcome, rest, ok := strings.Cut(line, ": ")
		name, _, _ := strings.Cut(rest, " (")
		if !ok || suites[name] || strings.Contains(name, " ") {
			continue
		}
		switch outcome {
		case "--- PASS":
			c.passed++
		case "--- SKIP":
			c.skipped++
		case "--- FAIL":
			c.failures = append(c.failures, evidence.Failure{Test: s.path + ": " + name, Message: "it failed"})
		}
	}
	return c
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	const enough = 300
	if len(line) > enough {
		return strings.ToValidUTF8(line[:enough], "") + "…"
	}
	return line
}

// add adds a suite to the result.
func add(r *evidence.Result, s suite, c counts, took time.Duration) {
	r.Tests.Passed += c.passed
	r.Tests.Failed += len(c.failures)
	r.Tests.Selected += c.passed + len(c.failures)
	r.Tests.Failures = append(r.Tests.Failures, c.failures...)
	r.Tests.LeftOut = append(r.Tests.LeftOut, c.leftOut...)
	r.Figures = append(r.Figures, evidence.Figure{
		What:  fmt.Sprintf("%s/%s: %d passed, %d failed, %d skipped, %d left out", s.module, s.path, c.passed, len(c.failures), c.skipped, len(c.leftOut)),
		Value: took.Seconds(), Unit: "s", Runs: 1,
	})
}
