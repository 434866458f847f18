package trial_test

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keelson-dev/keelson/tools/mutants/schemata"
	"github.com/keelson-dev/keelson/tools/mutants/trial"
)

// try tries all mutants of a package of testdata/module, and returns the verdicts by function and change.
func try(t *testing.T, name string, plan trial.Plan) (map[string]trial.Verdict, *trial.Report) {
	t.Helper()
	s, err := schemata.List("testdata/module", "./"+name)
	if err != nil {
		t.Fatal(err)
	}
	p, err := s.Schemata("example.test/m/" + name)
	if err != nil {
		t.Fatal(err)
	}
	w, err := trial.Open("testdata/module", 2)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(w.Dir()); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", w.Dir(), err)
		}
	}()
	w.Hasten(2 * time.Second)
	plan.Mutants = p.Mutants
	told := 0
	report, err := w.Try(t.Context(), p, plan, func(trial.Result) { told++ })
	if err != nil {
		t.Fatal(err)
	}
	if told != len(p.Mutants) || len(report.Results) != len(p.Mutants) {
		t.Errorf("%d told, %d results of %d mutants", told, len(report.Results), len(p.Mutants))
	}
	verdicts := map[string]trial.Verdict{}
	for _, r := range report.Results {
		verdicts[r.Function+" "+r.Change] = r.Verdict
	}
	return verdicts, report
}

func compare(t *testing.T, got, want map[string]trial.Verdict) {
	t.Helper()
	for name, verdict := range want {
		if got[name] != verdict {
			t.Errorf("%s: got %q, want %q", name, got[name], verdict)
		}
	}
	for name, verdict := range got {
		if want[name] == "" {
			t.Errorf("%s: got %q, which nothing is said about", name, verdict)
		}
	}
}

func TestVerdicts(t *testing.T) {
	got, report := try(t, "calc", trial.Plan{Also: []string{"example.test/m/calctest"}})
	compare(t, got, map[string]trial.Verdict{
		"Larger negate: a > b":             trial.Killed,
		"Larger boundary: a > b":           trial.Survived,
		"Larger drop: return a":            trial.Killed,
		"Sign negate: n < 0":               trial.Killed,
		"Sign boundary: n < 0":             trial.Survived,
		"Sign drop: return -1":             trial.NotReached,
		"Sign off by one: -1 in return -1": trial.NotReached,
		"Sign off by one: 1 in return 1":   trial.Killed,
		"Unknown arithmetic: n - 1":        trial.NotReached,
		"Elsewhere arithmetic: n + 2":      trial.Killed, // by the other package's test
		"Slow arithmetic: n + 3":           trial.Killed,
	})
	if len(report.Broken) > 0 || report.Usual < 2*time.Second {
		t.Errorf("broken %q, usually %s", report.Broken, report.Usual)
	}
}

func TestOnlyOwnTests(t *testing.T) {
	got, _ := try(t, "calc", trial.Plan{Skip: "^TestSlow$"})
	for name, want := range map[string]trial.Verdict{"Elsewhere arithmetic: n + 2": trial.NotReached, "Slow arithmetic: n + 3": trial.NotReached} {
		if got[name] != want {
			t.Errorf("%s: got %q, want %q", name, got[name], want)
		}
	}
}

// Mutants that loop, allocate, start processes and write files are limited and leave nothing behind.
func TestBounds(t *testing.T) {
	before := time.Now()
	got, _ := try(t, "wild", trial.Plan{})
	compare(t, got, map[string]trial.Verdict{
		"Until negate: n != 0":             trial.Killed,
		"Until drop: n--":                  trial.TimedOut,
		"Until drop: steps++":              trial.Killed,
		"size arithmetic: n + huge - huge": trial.Killed,
		"size arithmetic: n + huge":        trial.Killed,
		"Leave negate: n+1 > n":            trial.Survived,
		"Leave boundary: n+1 > n":          trial.Survived,
		"Leave arithmetic: n+1":            trial.Survived,
		"Leave drop: return nil":           trial.Survived,
		"Leave negate: err != nil":         trial.NotReached,
		"Leave nil error: return err":      trial.NotReached,
		"Leave nil error: return exec.Command(\"sleep\", \"3417\").Start()": trial.NotReached,
	})
	if took := time.Since(before); took > 5*time.Minute {
		t.Errorf("took %s", took)
	}
	if out, err := exec.Command("pgrep", "-f", "sleep 3417").Output(); err == nil {
		t.Errorf("processes are left: %s", out)
	}
}

// Tests that fail without a mutant notice nothing, and tests see little of the host.
func TestBroken(t *testing.T) {
	t.Setenv("SECRET_OF_THE_HOST", "x")
	got, report := try(t, "broken", trial.Plan{Skip: "Skipped"})
	compare(t, got, map[string]trial.Verdict{"Add arithmetic: a + b": trial.NotReached})
	want := []string{"TestFails", "TestPanics"}
	if os.Geteuid() != 0 {
		t.Log("not root, so that tests run as the same user")
	}
	if slices.Sort(report.Broken); !slices.Equal(report.Broken, want) {
		t.Errorf("broken are %q, want %q", report.Broken, want)
	}
}

func TestCancelled(t *testing.T) {
	s, err := schemata.List("testdata/module", "./calc")
	if err != nil {
		t.Fatal(err)
	}
	p, err := s.Schemata("example.test/m/calc")
	if err != nil {
		t.Fatal(err)
	}
	w, err := trial.Open("testdata/module", 1)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.Try(ctx, p, trial.Plan{Mutants: p.Mutants}, func(trial.Result) {}); err == nil || !strings.Contains(err.Error(), "context canceled") {
		t.Errorf("got %v", err)
	}
	if _, err := trial.Open("testdata/module", 0); err == nil {
		t.Error("no jobs at once are enough")
	}
}
