package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/keelson-dev/keelson/internal/evidence"
)

// TestServed: the table is of the 121 tests that need nothing but an API server, and the expression made of it
// selects those that have to pass.
func TestServed(t *testing.T) {
	rows, err := served()
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 121 || !slices.IsSortedFunc(rows, func(a, b row) int { return strings.Compare(a.test, b.test) }) {
		t.Errorf("%d rows, or not in order", len(rows))
	}
	selected, err := regexp.Compile(expect(rows))
	if err != nil {
		t.Fatal(err)
	}
	expected := 0
	for i, r := range rows {
		if i > 0 && rows[i-1].test == r.test {
			t.Errorf("twice: %s", r.test)
		}
		if r.about == "" || r.missing == "" || !strings.Contains(r.test, "[Conformance]") {
			t.Errorf("%+v", r)
		}
		if selected.MatchString(r.test) != r.expected() {
			t.Errorf("expected to pass: %t, selected: %t: %s", r.expected(), !r.expected(), r.test)
		}
		if r.expected() {
			expected++
		}
	}
	if expected == 0 {
		t.Error("nothing is expected to pass")
	}
}

func TestExpressionOf(t *testing.T) {
	file := filepath.Join(t.TempDir(), "focus")
	if err := os.WriteFile(file, []byte("(a|b)\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for focus, want := range map[string]string{"a.*": "a.*", file: "(a|b)"} {
		if got, err := expressionOf(focus); err != nil || got != want {
			t.Errorf("%s: %s, %v", focus, got, err)
		}
	}
	if _, err := expressionOf("("); err == nil || !strings.Contains(err.Error(), "regular expression, or a file") {
		t.Errorf("a bad expression: %v", err)
	}
}

const report = `<testsuites tests="4"><testsuite name="Kubernetes e2e suite">
<testcase name="[SynchronizedBeforeSuite]" status="passed"></testcase>
<testcase name="[It] b works" status="failed"><failure message="" type="failed">[FAILED] not found&#xA;In [It] at: b.go:1&#xA;</failure></testcase>
<testcase name="[It] a works" status="passed"></testcase>
<testcase name="[It] c works" status="skipped"></testcase>
<testcase name="[It] d works" status="panicked"><error message="" type="panicked">[PANICKED] nil map&#xA;</error></testcase>
<testcase name="[It] e works" status="timedout"></testcase>
</testsuite></testsuites>`

func TestReadReport(t *testing.T) {
	got, err := readReport(strings.NewReader(report))
	want := []test{{"a works", ""}, {"b works", "not found"}, {"d works", "[PANICKED] nil map"}, {"e works", "timedout"}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	broken := strings.Replace(report, `Suite]" status="passed">`, `Suite]" status="failed"><failure>[FAILED] no nodes</failure>`, 1)
	if _, err := readReport(strings.NewReader(broken)); err == nil || !strings.Contains(err.Error(), "BeforeSuite]: no nodes") {
		t.Errorf("a suite that did not begin: %v", err)
	}
	if _, err := readReport(strings.NewReader("<testsuites>")); err == nil {
		t.Error("half a report was read")
	}
}

func TestJudge(t *testing.T) {
	rows := []row{{"a", "x", "-"}, {"b", "x", "-"}, {"c", "y", "y"}}
	for name, c := range map[string]struct {
		tests []test
		part  bool
		want  evidence.Tests
		words []string
	}{
		"all pass": {tests: []test{{"a", ""}, {"b", ""}}, want: evidence.Tests{Selected: 2, Passed: 2}},
		"one that has to pass fails": {
			tests: []test{{"a", "why"}, {"b", ""}},
			want:  evidence.Tests{Selected: 2, Passed: 1, Failed: 1, Failures: []evidence.Failure{{Test: "a", Message: "why"}}},
			words: []string{"a has to pass: why"},
		},
		"one that lacks something fails": {
			tests: []test{{"a", ""}, {"b", ""}, {"c", "why"}},
			want:  evidence.Tests{Selected: 3, Passed: 2, Failed: 1, Failures: []evidence.Failure{{Test: "c", Message: "why"}}},
		},
		"one did not run": {
			tests: []test{{"a", ""}}, want: evidence.Tests{Selected: 1, Passed: 1}, words: []string{"b is in served.tsv and did not run"},
		},
		"a part":  {tests: []test{{"a", ""}}, part: true, want: evidence.Tests{Selected: 1, Passed: 1}},
		"nothing": {part: true, words: []string{"no test was selected"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := judge(c.tests, rows, !c.part)
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
			if (err == nil) != (len(c.words) == 0) {
				t.Errorf("broken: %v", err)
			}
			for _, w := range c.words {
				if err != nil && !strings.Contains(err.Error(), w) {
					t.Errorf("%v does not say %q", err, w)
				}
			}
		})
	}
}

func TestFollow(t *testing.T) {
	words := `Random Seed: 1 - will randomize all specs

Will run 2 of 7579 specs
------------------------------
[SynchronizedBeforeSuite] PASSED [0.088 seconds]
------------------------------
SSSSS
------------------------------
[sig-auth] Accounts should work [Conformance] [sig-auth, Conformance]
/test/e2e/auth/accounts.go:50
  STEP: Creating @ 11/22/26 00:03:13.027
• [0.034 seconds]
------------------------------
[sig-node] Pods should [Serial] run [Conformance] [sig-node, Conformance]
/test/e2e/node/pods.go:1
• [FAILED] [30.044 seconds]
[sig-node] Pods [It] should [Serial] run [Conformance] [sig-node, Conformance]
`
	var out strings.Builder
	if err := follow(strings.NewReader(words), &out); err != nil {
		t.Fatal(err)
	}
	want := "  1/2 [sig-auth] Accounts should work [Conformance] [0.034 seconds]\n" +
		"  2/2 [sig-node] Pods should [Serial] run [Conformance] [FAILED] [30.044 seconds]\n"
	if d := cmp.Diff(want, out.String()); d != "" {
		t.Error(d)
	}
}
