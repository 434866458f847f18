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

// TestTable checks what a table must contain for readers of the README.
func TestTable(t *testing.T) {
	dirty := true
	for name, c := range map[string]struct {
		of   evidence.Result
		want []string
	}{
		"origin": {
			evidence.Result{
				Verdict: passed, Commit: "0123456789ab", Date: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Note: "Nothing else ran.",
				Machine:  evidence.Machine{OS: "linux", Arch: "arm64", CPUs: 8, Model: "Some CPU", Go: "go1.26"},
				Versions: map[string]string{"kubernetes": "v1.37.1", "etcd": "3.7.3"},
			},
			[]string{"\nMeasured at commit 0123456789ab, 2026-01-02, on 8 CPUs (Some CPU, linux/arm64, go1.26, etcd 3.7.3, kubernetes v1.37.1). Nothing else ran.\n"},
		},
		"dirty":              {evidence.Result{Verdict: passed, Commit: "0123456789ab", Code: evidence.Code{Dirty: &dirty}}, []string{"commit 0123456789ab with changes that are in no commit"}},
		"upstream's version": {evidence.Result{Verdict: passed, Upstream: "v1.37.1"}, []string{", Kubernetes v1.37.1).\n"}},
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
		"mutants": {
			evidence.Result{Verdict: passed, Mutants: []evidence.Mutants{{
				Area: "authn", Packages: 9, Mutants: 400, Tried: 18, Killed: 16, Survived: 1, NotReached: 0, Equivalent: 1, Rate: 94.12,
				LeftOut: []evidence.Failure{{Test: "authn/x", Message: "its tests fail"}},
			}}},
			[]string{"| authn | 9 | 18 of 400 | 16 | 1 | 0 | 1 | 94.1 % |", "\nNot tried: authn/x: its tests fail\n"},
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

// The short table has a row for each headline, even if the run failed.
func TestShort(t *testing.T) {
	dir := t.TempDir()
	machine := evidence.Machine{OS: "linux", Arch: "arm64", CPUs: 8, Model: "Some CPU"}
	write := func(r evidence.Result) {
		r.Machine = machine
		if err := evidence.WriteFile(filepath.Join(dir, r.Name+".json"), r); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := inShort(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without results: %v", err)
	}
	write(evidence.Result{Name: "cluster", Verdict: passed, Figures: []evidence.Figure{{What: "start to ready, cold", Value: 19.59, Unit: "ms"}, {What: "1,000 pods", Value: 1374, Unit: "ms"}}})
	write(evidence.Result{Name: "peers", Verdict: passed, Versions: map[string]string{"kubernetes": "v1.37.1", "etcd": "3.7.3"}, Peers: []evidence.Peer{
		{Name: "start", Keelson: 95.2, Upstream: 8825, Unit: "ms"}, {Name: "memory", LeftOut: "it did not start"}, {Name: "create-pods-cpu"}, {Name: "deployment"}, {Name: "containers-3-ready"},
	}})
	write(evidence.Result{Name: "kills", Figures: []evidence.Figure{{What: "violations: lost", Value: 3}}})
	write(evidence.Result{Name: "soak", Verdict: passed, Figures: []evidence.Figure{{What: "violations"}}})
	write(evidence.Result{Name: "conformance", Verdict: passed, Tests: &evidence.Tests{Selected: 62, Passed: 61, Failed: 1, LeftOut: make([]evidence.Failure, 59)}})
	if _, err := inShort(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without one of them: %v", err)
	}
	write(evidence.Result{Name: "conformance-pods", Verdict: passed})
	if _, err := inShort(dir); err == nil || !strings.Contains(err.Error(), "results/conformance-pods.json has no") {
		t.Errorf("a result without its figure: %v", err)
	}
	write(evidence.Result{Name: "conformance-pods", Verdict: passed, Tests: &evidence.Tests{Selected: 156, Passed: 156}})
	got, err := inShort(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"to ready | 19.6 ms |  |\n", "simulated nodes | 1,370 ms |  |\n", "over TLS | 95.2 ms | 8,830 ms |\n", "little use | left out: it did not start |  |\n",
		"SIGKILLs under load | the last run failed |  |\n", "etcd and its network fail | 0 |  |\n", "without containers | 61 of 62 passed, 59 left out |  |\n",
		"Measured on 8 CPUs (Some CPU, linux/arm64); upstream is etcd 3.7.3, kubernetes v1.37.1.\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
}

// With -check nothing is written, and differences are reported; after a run without it, -check passes.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	var all strings.Builder
	for _, s := range evidence.Subjects() {
		if s.Optional {
			continue
		}
		all.WriteString("words\n<!-- results/" + s.Name + ".json -->\nold\n<!-- end -->\n")
		if err := evidence.WriteFile(filepath.Join(dir, "results", s.Name+".json"), evidence.Result{Name: s.Name, Commit: "of " + s.Name, Verdict: passed}); err != nil {
			t.Fatal(err)
		}
	}
	readme, page := filepath.Join(dir, "README.md"), filepath.Join(dir, "docs", "results.md")
	write := func(path, words string) {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(words), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	old := "<!-- results/peers.json text -->\n<!-- end -->\nthe end\n"
	write(readme, old)
	write(page, all.String())
	if err := run(dir, true); !errors.Is(err, errDiffers) || !strings.Contains(err.Error(), "README.md") || !strings.Contains(err.Error(), "results.md") {
		t.Errorf("old pages: %v", err)
	}
	if got, _ := os.ReadFile(readme); string(got) != old {
		t.Error("-check has written")
	}
	if err := errors.Join(run(dir, false), run(dir, true)); err != nil {
		t.Error(err)
	}
	got, _ := os.ReadFile(readme)
	if s := string(got); !strings.HasSuffix(s, "the end\n") || !strings.Contains(s, "For comparison") {
		t.Errorf("README.md says\n%s", s)
	}
	got, _ = os.ReadFile(page)
	if s := string(got); strings.Contains(s, "old") || !strings.Contains(s, "of soak") {
		t.Errorf("docs/results.md says\n%s", s)
	}
	write(page, strings.Replace(string(got), "results/soak.json", "results/elsewhere.txt", 1))
	if err := run(dir, true); !errors.Is(err, errNoPlace) {
		t.Errorf("a result without a place: %v", err)
	}
	write(page, string(got))
	write(readme, "<!-- results in short -->\n<!-- end -->\n")
	if err := run(dir, false); err == nil || !strings.Contains(err.Error(), "results/cluster.json has no") {
		t.Errorf("a short table of results without their figures: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, "results", "serve.json")); err != nil {
		t.Fatal(err)
	}
	if err := run(dir, false); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a place without a result: %v", err)
	}
}
