package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/keelson-dev/keelson/internal/evidence"
)

var passed = evidence.Verdict{Passed: true}

// TestTable: what a reader of the README must be told of a result.
func TestTable(t *testing.T) {
	dirty := true
	for name, c := range map[string]struct {
		of   evidence.Result
		want []string
	}{
		"where it is from": {
			evidence.Result{
				Verdict: passed, Commit: "0123456789ab", Date: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Note: "Nothing else ran.",
				Machine:  evidence.Machine{OS: "linux", Arch: "arm64", CPUs: 8, Model: "Some CPU", Go: "go1.26"},
				Versions: map[string]string{"kubernetes": "v1.37.1", "etcd": "3.7.3"},
			},
			[]string{"\nMeasured at commit 0123456789ab, 2026-01-02, on 8 CPUs (Some CPU, linux/arm64, go1.26, etcd 3.7.3, kubernetes v1.37.1). Nothing else ran.\n"},
		},
		"dirty": {evidence.Result{Verdict: passed, Commit: "0123456789ab", Code: evidence.Code{Dirty: &dirty}}, []string{"commit 0123456789ab with changes that are in no commit"}},
		"red": {
			evidence.Result{Verdict: evidence.Verdict{Failures: []string{"too slow\nby much", "too big"}}},
			[]string{"**This run failed**", "- too slow\n", "- too big\n"},
		},
		"tests left out, by reason": {
			evidence.Result{Verdict: passed, Upstream: "v1.37.1", Tests: &evidence.Tests{Selected: 3, Passed: 3, LeftOut: []evidence.Failure{
				{Test: "a", Message: "jobs"}, {Test: "b", Message: "webhooks"}, {Test: "c", Message: "webhooks"}, {Test: "d", Message: "dns"},
			}}},
			[]string{"| tests of | selected | passed | failed | left out |", "| Kubernetes v1.37.1 | 3 | 3 | 0 | 4 |", "Left out for what they need: webhooks (2), dns (1), jobs (1).\n"},
		},
		"tests that failed": {
			evidence.Result{Code: evidence.Code{Dirty: &dirty}, Tests: &evidence.Tests{Selected: 3, Passed: 2, Failed: 1, Failures: []evidence.Failure{{Test: "a", Message: "timed out"}}}},
			[]string{"| 3 | 2 | 1 | 0 |", "Failed: a: timed out\n"},
		},
		"tests left out before that was recorded": {
			evidence.Result{Verdict: passed, Tests: &evidence.Tests{Selected: 3, Passed: 3}}, []string{"| 3 | 3 | 0 | not recorded |"},
		},
		"beside upstream": {
			evidence.Result{Verdict: passed, Peers: []evidence.Peer{
				{What: "start", Unit: "ms", Of: "median", Runs: 5, Keelson: 80, Upstream: 2431.5, Ratio: 30.39375},
				{What: "containers", LeftOut: "it takes root"},
			}},
			[]string{"| start (median of 5) | 80 ms | 2432 ms | 30.4 |", "| containers | left out: it takes root | | |"},
		},
		"limits": {
			evidence.Result{Verdict: passed, Figures: []evidence.Figure{{What: "x", Value: 1.23456, Unit: "ms", Limit: 50, Of: "median", Runs: 10}, {What: "violations"}}},
			[]string{"| x | 1.235 ms (median of 10 runs) | 50 ms |", "| violations | 0 |  |"},
		},
	} {
		got := table(c.of)
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %q is not in\n%s", name, want, got)
			}
		}
	}
}

func TestText(t *testing.T) {
	r := evidence.Result{
		Name: "peers", Verdict: passed, Versions: map[string]string{"kubernetes": "v1.37.1", "etcd": "3.7.3"},
		Peers: []evidence.Peer{
			{Name: "start", Unit: "ms", Keelson: 81.27, Upstream: 2431.5},
			{Name: "memory", Unit: "MB", Keelson: 46.6, Upstream: 588.2},
		},
	}
	got := text(r)
	for _, want := range []string{"Kubernetes v1.37.1 on etcd 3.7.3", "take 2,430 ms, keelson's one 81.3 ms", "hold 588 MB of memory, keelson's one 46.6 MB"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %s", want, got)
		}
	}
	r.Peers[0].LeftOut = "it did not start"
	if got := text(r); strings.Contains(got, "first pod") {
		t.Errorf("told of what was left out: %s", got)
	}
	r.Passed = false
	if got := text(r); strings.Contains(got, "588") || !strings.Contains(got, "failed") {
		t.Errorf("of a run that failed: %s", got)
	}
}

func TestRounded(t *testing.T) {
	for v, want := range map[float64]string{0: "0 x", 0.01234: "0.0123 x", 9.999: "10 x", 46.64: "46.6 x", 588.4: "588 x", 999.7: "1,000 x", 2431: "2,430 x", 12345: "12,300 x"} {
		if got := rounded(v, "x"); got != want {
			t.Errorf("%g: %s, want %s", v, got, want)
		}
	}
}

// With -check nothing is written, and what differs is told; without it the README is then what -check wants.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	var readme strings.Builder
	for _, s := range evidence.Subjects() {
		if s.Optional {
			continue
		}
		readme.WriteString("words\n<!-- results/" + s.Name + ".json -->\nold\n<!-- end -->\n")
		if err := evidence.WriteFile(filepath.Join(dir, "results", s.Name+".json"), evidence.Result{Name: s.Name, Commit: "of " + s.Name, Verdict: passed}); err != nil {
			t.Fatal(err)
		}
	}
	readme.WriteString("<!-- results/peers.json text -->\n<!-- end -->\nthe end\n")
	path := filepath.Join(dir, "README.md")
	if err := os.WriteFile(path, []byte(readme.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := run(dir, true); !errors.Is(err, errDiffers) {
		t.Errorf("an old README: %v", err)
	}
	if got, _ := os.ReadFile(path); string(got) != readme.String() {
		t.Error("-check has written")
	}
	if err := errors.Join(run(dir, false), run(dir, true)); err != nil {
		t.Error(err)
	}
	got, _ := os.ReadFile(path)
	if s := string(got); strings.Contains(s, "old") || !strings.Contains(s, "of soak") || !strings.HasSuffix(s, "the end\n") || !strings.Contains(s, "For comparison") {
		t.Errorf("it says\n%s", s)
	}
	without := strings.Replace(string(got), "results/soak.json", "results/elsewhere.txt", 1)
	if err := os.WriteFile(path, []byte(without), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := run(dir, true); !errors.Is(err, errNoPlace) {
		t.Errorf("a result without a place: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, "results", "serve.json")); err != nil {
		t.Fatal(err)
	}
	if err := run(dir, false); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a place without a result: %v", err)
	}
}
