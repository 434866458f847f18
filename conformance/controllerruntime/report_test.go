package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const ginkgoReport = `[{"SuiteSucceeded":%t,"SpecReports":[
{"LeafNodeType":"BeforeSuite","State":"passed"},
{"ContainerHierarchyTexts":["Client","Create"],"LeafNodeType":"It","LeafNodeText":"creates","State":"passed"},
{"ContainerHierarchyTexts":["Client"],"LeafNodeType":"It","LeafNodeText":"is left out","State":"skipped"},
{"ContainerHierarchyTexts":["Client"],"LeafNodeType":"It","LeafNodeText":"skips itself","State":"skipped"},
{"ContainerHierarchyTexts":["Client"],"LeafNodeType":"It","LeafNodeText":"waits","State":"pending"}%s]}]`

const output = `=== RUN   TestClient
Running Suite: Client Suite - /x
--- FAIL: TestClient (2.00s)
=== RUN   TestPlain
=== RUN   TestPlain/part
    --- PASS: TestPlain/part (0.00s)
--- PASS: TestPlain (0.00s)
--- SKIP: TestElse (0.00s)
`

func TestRead(t *testing.T) {
	s := suite{path: "pkg/client", without: []exception{{"is left out", "a reason"}}}
	for name, c := range map[string]struct {
		report, output string
		suite          suite
		want           string // passed, skipped; failures; left out
		err            error
	}{
		"all pass": {fmt.Sprintf(ginkgoReport, true, ""), output, s, "2 3; ; pkg/client: Client is left out (a reason)", nil},
		"a spec fails": {
			fmt.Sprintf(ginkgoReport, false, `,{"LeafNodeType":"It","LeafNodeText":"fails","State":"failed","Failure":{"Message":"Expected\nthis"}}`), output, s,
			"2 3; pkg/client: fails (failed: Expected); pkg/client: Client is left out (a reason)", nil,
		},
		"the setup fails": {
			fmt.Sprintf(ginkgoReport, false, `,{"LeafNodeType":"BeforeSuite","State":"panicked","Failure":{"Message":"no"}}`), output, s,
			"2 3; pkg/client: BeforeSuite (panicked: no); pkg/client: Client is left out (a reason)", nil,
		},
		"the suite fails": {fmt.Sprintf(ginkgoReport, false, ""), output, s, "2 3; pkg/client (the suite failed: ); pkg/client: Client is left out (a reason)", nil},
		"go test":         {"", "--- PASS: TestA (0.00s)\n--- FAIL: TestB (0.00s)\n", s, "1 0; pkg/client: TestB (it failed); pkg/client: is left out (a reason)", nil},
		"nothing":         {"", "", suite{}, "0 0; ; ", nil},
		"a stale table":   {fmt.Sprintf(ginkgoReport, true, ""), output, suite{without: []exception{{"no such", "a reason"}}}, "2 4; ; ", errStale},
	} {
		path := filepath.Join(t.TempDir(), "report.json")
		if c.report != "" {
			if err := os.WriteFile(path, []byte(c.report), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got, err := c.suite.read([]byte(c.output), path)
		var failures, leftOut []string
		for _, f := range got.failures {
			failures = append(failures, f.Test+" ("+f.Message+")")
		}
		for _, f := range got.leftOut {
			leftOut = append(leftOut, f.Test+" ("+f.Message+")")
		}
		text := fmt.Sprintf("%d %d; %s; %s", got.passed, got.skipped, strings.Join(failures, ", "), strings.Join(leftOut, ", "))
		if text != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: %q, %v; want %q", name, text, err, c.want)
		}
	}
}

// TestTable: the table's expressions are valid, and each suite is named once.
func TestTable(t *testing.T) {
	for class, all := range classes() {
		seen := map[string]bool{}
		for _, s := range all {
			name := s.module + "/" + s.path
			if seen[name] || s.version == "" {
				t.Errorf("%s: %s is there twice, or has no version", class, name)
			}
			seen[name] = true
			if _, err := regexp.Compile(s.skip()); err != nil {
				t.Error(err)
			}
		}
	}
	if _, err := selected("controllerruntime", "no such suite"); !errors.Is(err, errNone) {
		t.Errorf("nothing is selected: %v", err)
	}
	if found, err := selected("controllerruntime", "pkg/client$"); err != nil || len(found) != 1 {
		t.Errorf("selected %v, %v", found, err)
	}
	if _, err := selected("x", ""); err == nil {
		t.Error("there is a class x")
	}
}
