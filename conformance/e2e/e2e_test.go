package main

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/keelson-dev/keelson/internal/evidence"
)

// TestClasses: the tables belong to their classes, and the expressions made from them select each test that must pass
// exactly once.
func TestClasses(t *testing.T) {
	for name, count := range map[string]int{"served": 156, "pods": 306} {
		c, err := classOf(name)
		if err != nil {
			t.Fatal(err)
		}
		if len(c.rows) != count || !slices.IsSortedFunc(c.rows, func(a, b row) int { return strings.Compare(a.test, b.test) }) {
			t.Errorf("%s: %d rows, or not in order", name, len(c.rows))
		}
		asked, batches, err := c.batches("")
		if err != nil {
			t.Fatal(err)
		}
		total := 0
		for _, b := range batches {
			total += b.tests
		}
		expected := 0
		for i, r := range c.rows {
			if i > 0 && c.rows[i-1].test == r.test {
				t.Errorf("twice: %s", r.test)
			}
			if r.about == "" || r.missing == "" || !strings.Contains(r.test, "[Conformance]") {
				t.Errorf("%+v", r)
			}
			if n := selections(t, batches, r.test); n > 1 || (n == 1) != r.expected() {
				t.Errorf("expected to pass: %t, selected %d times: %s", r.expected(), n, r.test)
			}
			if r.expected() {
				expected++
			}
		}
		if expected == 0 || expected != total || len(asked) != expected || len(c.leftOut()) != count-expected {
			t.Errorf("%s: %d are expected to pass, %d selected, %d left out", name, expected, total, len(c.leftOut()))
		}
	}
	if _, err := classOf("other"); !errors.Is(err, errClass) {
		t.Errorf("an unknown class: %v", err)
	}
}

// selections counts the batches that contain a test, and fails if one must run alone and does not.
func selections(t *testing.T, batches []batch, test string) int {
	t.Helper()
	n := 0
	for _, b := range batches {
		if !regexp.MustCompile(b.focus).MatchString(test) {
			continue
		}
		n++
		if strings.Contains(test, "[Serial]") && !b.alone {
			t.Errorf("not alone: %s", test)
		}
	}
	return n
}

func TestBatches(t *testing.T) {
	c := class{rows: []row{{"a1", "x", "-"}, {"a2 [Serial]", "x", "-"}, {"b1", "x", "y"}, {"b2", "x", "-"}, {"d", "x,two hosts", "-"}}, parallel: 2}
	for focus, want := range map[string]struct {
		asked   string
		batches []batch
	}{
		"":     {"a1 b2 a2 [Serial] d", []batch{{"(a1|b2)", 2, false, false}, {`(a2 \[Serial\])`, 1, true, false}, {"(d)", 1, true, true}}},
		"b":    {"b1 b2", []batch{{"(b1|b2)", 2, false, false}}},
		"else": {"", []batch{{"else", 0, true, false}}},
	} {
		asked, got, err := c.batches(focus)
		if err != nil || !slices.Equal(got, want.batches) || strings.Join(asked, " ") != want.asked {
			t.Errorf("%q: %v, %v, %v; want %v", focus, asked, got, err, want)
		}
	}
	c.hosts = true
	if _, got, err := c.batches("b2|d"); err != nil || !slices.Equal(got, []batch{{"(b2|d)", 2, false, true}}) {
		t.Errorf("all on hosts: %v, %v", got, err)
	}
	c.hosts = false
	c.parallel = 1
	if _, got, err := c.batches("a"); err != nil || len(got) != 1 || got[0].tests != 2 {
		t.Errorf("one at a time: %v, %v", got, err)
	}
	for range 20 {
		c.rows = append(c.rows, row{"c" + strings.Repeat("x", len(c.rows)), "x", "-"})
	}
	c.parallel = 2
	if _, got, err := c.batches(""); err != nil || len(got) != 6 {
		t.Errorf("22 tests and one alone: %v, %v", got, err)
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
	c := class{file: "served.tsv", rows: []row{{"a", "x", "-"}, {"b", "x", "-"}, {"c", "y", "y"}}}
	left := []evidence.Failure{{Test: "c", Message: "y"}}
	for name, k := range map[string]struct {
		tests []test
		asked string
		part  bool
		want  evidence.Tests
		words []string
	}{
		"all pass": {tests: []test{{"a", ""}, {"b", ""}}, asked: "a b", want: evidence.Tests{Selected: 2, Passed: 2}},
		"one that has to pass fails": {
			tests: []test{{"a", "why"}, {"b", ""}}, asked: "a b",
			want:  evidence.Tests{Selected: 2, Passed: 1, Failed: 1, Failures: []evidence.Failure{{Test: "a", Message: "why"}}},
			words: []string{"a has to pass: why"},
		},
		"one that lacks something fails": {
			tests: []test{{"a", ""}, {"b", ""}, {"c", "why"}}, asked: "a b c",
			want: evidence.Tests{Selected: 3, Passed: 2, Failed: 1, Failures: []evidence.Failure{{Test: "c", Message: "why"}}},
		},
		"one did not run": {
			tests: []test{{"a", ""}}, asked: "a b",
			want:  evidence.Tests{Selected: 2, Passed: 1, Failed: 1, Failures: []evidence.Failure{{Test: "b", Message: "it did not run"}}},
			words: []string{"b was asked for and did not run", "served.tsv"},
		},
		"one that was asked for by name and lacks something did not run": {
			tests: []test{{"a", ""}}, asked: "a c", part: true,
			want:  evidence.Tests{Selected: 2, Passed: 1, Failed: 1, Failures: []evidence.Failure{{Test: "c", Message: "it did not run"}}},
			words: []string{"c was asked for and did not run"},
		},
		"a part":                  {tests: []test{{"a", ""}}, asked: "a", part: true, want: evidence.Tests{Selected: 1, Passed: 1}},
		"tests outside the table": {tests: []test{{"z", ""}}, part: true, want: evidence.Tests{Selected: 1, Passed: 1}},
		"nothing":                 {part: true, words: []string{"no test was selected"}},
		"nothing of what was asked": {
			asked: "a", part: true, words: []string{"no test was selected", "a was asked for and did not run"},
			want: evidence.Tests{Selected: 1, Failed: 1, Failures: []evidence.Failure{{Test: "a", Message: "it did not run"}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			want := k.want
			if !k.part {
				want.LeftOut = left
			}
			got, err := judge(k.tests, c, strings.Fields(k.asked), !k.part)
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
			if (err == nil) != (len(k.words) == 0) {
				t.Errorf("broken: %v", err)
			}
			for _, w := range k.words {
				if err != nil && !strings.Contains(err.Error(), w) {
					t.Errorf("%v does not say %q", err, w)
				}
			}
		})
	}
}

// TestKnown: a name that the suite does not have is reported before anything runs.
func TestKnown(t *testing.T) {
	list := filepath.Join(t.TempDir(), "conformance.yaml")
	if err := os.WriteFile(list, []byte("- testname: A\n  codename: '[sig-x] a works'\n- codename: b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := class{file: "served.tsv", rows: []row{{"[sig-x] a works", "x", "-"}, {"b", "x", "-"}}}
	if err := c.known(list); err != nil {
		t.Error(err)
	}
	c.rows = append(c.rows, row{"c", "x", "it lacks something"})
	if err := c.known(list); !errors.Is(err, errUnknown) || !strings.Contains(err.Error(), "served.tsv") || !strings.HasSuffix(err.Error(), ": c") {
		t.Error(err)
	}
	if err := c.known(list + "x"); err == nil {
		t.Error("a list that is not there was read")
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
	if err := follow(strings.NewReader(words), &progress{out: &out}); err != nil {
		t.Fatal(err)
	}
	want := "  1/2 [sig-auth] Accounts should work [Conformance] [0.034 seconds]\n" +
		"  2/2 [sig-node] Pods should [Serial] run [Conformance] [FAILED] [30.044 seconds]\n"
	if d := cmp.Diff(want, out.String()); d != "" {
		t.Error(d)
	}
}
