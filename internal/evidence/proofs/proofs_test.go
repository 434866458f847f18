package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/keelson-dev/keelson/internal/evidence"
)

// try runs steps in a directory of their own and returns the report.
func try(ctx context.Context, t *testing.T, p *proofs, steps []step) (report, error) {
	t.Helper()
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip(err)
	}
	dir := p.root
	if dir == "" {
		dir = t.TempDir()
	}
	if p.dirty == nil {
		p.commit, p.dirty = "here", new(bool)
	}
	p.root, p.logs, p.page, p.results, p.out = dir, filepath.Join(dir, "logs"), filepath.Join(dir, "docs", "proofs.md"), filepath.Join(dir, "results"), io.Discard
	p.former = []string{p.logs, p.results}
	if p.limit == 0 {
		p.limit = time.Hour
	}
	if p.grace == 0 {
		p.grace = time.Hour
	}
	err := p.run(ctx, steps)
	return readReport(t, p), err
}

func readReport(t *testing.T, p *proofs) report {
	t.Helper()
	var r report
	data, err := os.ReadFile(filepath.Join(p.results, "proofs.json"))
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(p.page)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range r.Steps {
		if !strings.Contains(string(page), "| "+s.Name+"<br>") || s.Outcome != passed && !strings.Contains(string(page), "**"+string(s.Outcome)+"**") {
			t.Errorf("the page does not tell of %s, %s:\n%s", s.Name, s.Outcome, page)
		}
	}
	return r
}

func shell(name, script string) step {
	return step{name: name, command: []string{"sh", "-c", script}, limit: time.Hour}
}

// Steps that fail, lack a program or need more than there is do not stop the others, but make the run fail.
func TestFailingSteps(t *testing.T) {
	absent := step{name: "absent", command: []string{"no-such-program-anywhere"}, limit: time.Hour}
	incomplete := shell("incomplete", "exit 0")
	incomplete.needs = []string{"tools/nothing/main.go"}
	for name, c := range map[string]struct {
		step step
		want outcome
		why  string
	}{
		"failing":           {shell("failing", "echo the reason; exit 3"), failed, "exit status 3: the reason"},
		"killed":            {shell("killed", "kill -9 $$"), failed, "signal: killed"},
		"a missing program": {absent, didNotRun, "there is no program no-such-program-anywhere"},
		"a missing file":    {incomplete, didNotRun, "there is no tools/nothing/main.go"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := try(t.Context(), t, &proofs{}, []step{shell("before", "exit 0"), c.step, shell("after", "exit 0")})
			if !errors.Is(err, errNotProven) || !strings.Contains(err.Error(), c.why) {
				t.Errorf("run: %v", err)
			}
			if got := r.Steps[1]; got.Outcome != c.want || got.Reason != c.why {
				t.Errorf("%+v, want %s: %s", got, c.want, c.why)
			}
			if r.Steps[0].Outcome != passed || r.Steps[2].Outcome != passed || r.Passed || len(r.Failures) != 1 {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestPassingSteps(t *testing.T) {
	printf := `printf 'ok  \tone\t0.1s\nok  \ttwo\t0.1s\n'; echo "CI=$CI"`
	other := shell("other", "exit 1")
	other.leftOut = "not chosen"
	p := &proofs{}
	r, err := try(t.Context(), t, p, []step{shell("counting", printf), other})
	if err != nil || !r.Passed || r.Steps[0].Outcome != passed || r.Steps[1].Outcome != leftOut || r.Commit == "" || r.Name != "proofs" || len(r.About) == 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if got := strings.Join(r.Steps[0].Figures, ";"); got != "2 packages passed" {
		t.Errorf("figures %q", got)
	}
	if log, err := os.ReadFile(r.Steps[0].Log); err != nil || !strings.Contains(string(log), "CI=true") {
		t.Errorf("its log says %q, %v", log, err)
	}
}

// A run resumes earlier ones: steps that passed stay valid as long as nothing they are about has changed, and their
// time counts.
func TestResume(t *testing.T) {
	steps := func(script string) []step {
		return []step{shell("standing", "echo >> standing"), shell("other", script), shell("changed", "echo "+script)}
	}
	yes := true
	for name, c := range map[string]struct {
		resume  bool
		commit  string
		dirty   *bool
		changes []string
		err     error
		again   int
	}{
		"resumed":                {resume: true, commit: "here", dirty: new(bool), changes: []string{"a"}, again: 1},
		"from the beginning":     {commit: "here", dirty: new(bool), again: 2},
		"another commit":         {resume: true, commit: "there", dirty: new(bool), again: 1},
		"with other code":        {resume: true, commit: "there", dirty: new(bool), changes: []string{"a", "b"}, again: 2},
		"of another history":     {resume: true, commit: "there", dirty: new(bool), err: errors.New("unknown"), again: 2},
		"with changes":           {resume: true, commit: "here", dirty: &yes, again: 2},
		"another commit, afresh": {commit: "there", dirty: new(bool), again: 2},
	} {
		t.Run(name, func(t *testing.T) {
			p := &proofs{}
			if _, err := try(t.Context(), t, p, steps("exit 1")); !errors.Is(err, errNotProven) {
				t.Fatal(err)
			}
			changed := func(commit string, s step) ([]string, error) {
				if commit != "here" || s.name != "standing" {
					t.Errorf("asked what changed since %s for %s", commit, s.name)
				}
				return c.changes, c.err
			}
			p = &proofs{root: p.root, resume: c.resume, commit: c.commit, dirty: c.dirty, changed: changed}
			r, err := try(t.Context(), t, p, steps("exit 0"))
			if err != nil || !r.Passed || r.Commit != c.commit || r.Steps[1].Commit != c.commit {
				t.Errorf("%+v, %v", r, err)
			}
			ran, err := os.ReadFile(filepath.Join(p.root, "standing"))
			if err != nil || len(ran) != c.again {
				t.Errorf("ran %d times, %v; want %d", len(ran), err, c.again)
			}
			if page, err := os.ReadFile(p.page); err != nil || strings.Contains(string(page), ", at here |") != (c.commit == "there" && c.again == 1) {
				t.Errorf("the page, %v:\n%s", err, page)
			}
			if log, err := os.ReadFile(r.Steps[2].Log); err != nil || string(log) != "exit 0\n" {
				t.Errorf("a step whose command is another stands: %q, %v", log, err)
			}
		})
	}
	t.Run("of parts", func(t *testing.T) {
		p := &proofs{}
		if _, err := try(t.Context(), t, p, []step{shell("standing", "echo >> standing")}); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(p.results, "proofs.json"), filepath.Join(p.logs, "proofs.json")); err != nil {
			t.Fatal(err)
		}
		out := shell("standing", "echo >> standing")
		out.leftOut = "not chosen"
		p = &proofs{root: p.root, resume: true}
		if r, err := try(t.Context(), t, p, []step{out, shell("other", "exit 0")}); err != nil || r.Steps[0].Outcome != passed {
			t.Errorf("%+v, %v", r, err)
		}
	})
	t.Run("time", func(t *testing.T) {
		p := &proofs{}
		if _, err := try(t.Context(), t, p, []step{shell("long", "exit 0")}); err != nil {
			t.Fatal(err)
		}
		r := readReport(t, p)
		r.page, r.results, r.Steps[0].Seconds = p.page, p.results, 3600
		if err := r.write(); err != nil {
			t.Fatal(err)
		}
		p = &proofs{root: p.root, resume: true}
		r, err := try(t.Context(), t, p, []step{shell("long", "exit 0"), shell("late", "exit 0")})
		if !errors.Is(err, errNotProven) || r.Steps[1].Outcome != didNotRun {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

// A step that exceeds its limit is stopped with everything it started, even processes that ignore signals.
func TestTimeOut(t *testing.T) {
	deaf := shell("deaf", `trap '' INT TERM; sh -c 'trap "" INT TERM; echo $$ > child; sleep 1000' & echo begun; wait; sleep 1000`)
	deaf.limit = 500 * time.Millisecond
	p := &proofs{grace: 50 * time.Millisecond}
	r, err := try(t.Context(), t, p, []step{deaf, shell("after", "exit 0")})
	if !errors.Is(err, errNotProven) || r.Steps[0].Outcome != timedOut || r.Steps[1].Outcome != passed {
		t.Errorf("%+v, %v", r, err)
	}
	gone(t, filepath.Join(p.root, "child"))
}

// Processes that a step leaves running are killed.
func TestLeftovers(t *testing.T) {
	p := &proofs{}
	r, err := try(t.Context(), t, p, []step{shell("careless", `sleep 1000 >/dev/null 2>&1 & echo $! > child`)})
	if err != nil || r.Steps[0].Outcome != passed {
		t.Fatalf("%+v, %v", r, err)
	}
	gone(t, filepath.Join(p.root, "child"))
}

// gone waits until a process has ended.
func gone(t *testing.T, file string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return // it was killed before it could report its ID
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		return // as above
	}
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(5 * time.Millisecond) {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || err == nil && strings.Contains(string(stat), ") Z ") {
			return
		}
	}
	t.Errorf("process %d still runs", pid)
}

// Ctrl-C interrupts the running step, and later ones do not run. The page says so.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p := &proofs{}
	started := make(chan struct{})
	go func() {
		defer cancel()
		<-started
		for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(5 * time.Millisecond) {
			if log, _ := os.ReadFile(filepath.Join(p.logs, "long.log")); strings.Contains(string(log), "begun") {
				return
			}
		}
	}()
	p.logs = filepath.Join(t.TempDir(), "elsewhere")
	kept := p.logs
	dir := t.TempDir()
	p.root, p.page, p.results, p.out, p.limit, p.grace = dir, filepath.Join(dir, "docs", "proofs.md"), filepath.Join(dir, "results"), io.Discard, time.Hour, time.Hour
	close(started)
	err := p.run(ctx, []step{shell("long", `trap 'echo heard; exit 1' INT; echo begun; while :; do sleep 0.05; done`), shell("after", "exit 0")})
	r := readReport(t, p)
	if !errors.Is(err, errNotProven) || r.Steps[0].Outcome != interrupted || r.Steps[1].Outcome != didNotRun || r.Passed {
		t.Errorf("%+v, %v", r, err)
	}
	if log, _ := os.ReadFile(filepath.Join(kept, "long.log")); !strings.Contains(string(log), "heard") {
		t.Errorf("the step was not asked to end: %q", log)
	}
}

// When the total limit is exceeded, the running step is stopped, and the remaining ones do not run.
func TestLimitOfAll(t *testing.T) {
	p := &proofs{limit: 300 * time.Millisecond, grace: time.Millisecond}
	r, err := try(t.Context(), t, p, []step{shell("long", "sleep 1000"), shell("late", "exit 0")})
	if !errors.Is(err, errNotProven) || r.Steps[0].Outcome != timedOut || r.Steps[1].Outcome != didNotRun {
		t.Errorf("%+v, %v", r, err)
	}
}

// A killed run leaves a page that says which steps did not run.
func TestPageBeforeTheEnd(t *testing.T) {
	p := &proofs{}
	script := `grep -q '"did not run"' results/proofs.json && grep -q '"passed": false' results/proofs.json && grep -q 'did not run' docs/proofs.md`
	if r, err := try(t.Context(), t, p, []step{shell("looking", script)}); err != nil {
		t.Errorf("%+v, %v", r, err)
	}
}

// The steps are consistent: their commands exist, their results are known, and their names are unique.
func TestSteps(t *testing.T) {
	all, err := steps(filepath.Join("..", "..", ".."), 3*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	names, differential := map[string]bool{}, 0
	subjects := map[string]bool{}
	for _, s := range evidence.Subjects() {
		subjects[s.Name] = true
	}
	for _, s := range all {
		if names[s.name] || s.limit <= 0 || s.limit > 3*time.Hour || len(s.command) == 0 {
			t.Errorf("%+v", s)
		}
		names[s.name] = true
		if len(s.about) == 0 {
			t.Errorf("%s is about nothing", s.name)
		}
		if s.result != "" && !subjects[s.result] {
			t.Errorf("%s: there is no result %s", s.name, s.result)
		}
		if s.dir != "" {
			if _, err := os.Stat(filepath.Join("..", "..", "..", s.dir, "go.mod")); err != nil {
				t.Errorf("%s: %v", s.name, err)
			}
		}
		if strings.HasPrefix(s.name, "differential-") {
			differential++
		}
	}
	for _, name := range []string{"kills", "soak", "conformance", "conformance-pods", "components", "differential-validation", "fuzz", "mutants", "modules"} {
		if !names[name] {
			t.Errorf("there is no step %s", name)
		}
	}
	modules, err := filepath.Glob(filepath.Join("..", "..", "..", "conformance", "*", "go.mod"))
	if err != nil || differential != len(modules)-len(notCompared()) {
		t.Errorf("%d modules compare, of %d, %v", differential, len(modules), err)
	}
	if _, err := steps(t.TempDir(), time.Second); !errors.Is(err, errNoModules) {
		t.Errorf("elsewhere: %v", err)
	}
}

func TestChoice(t *testing.T) {
	for _, c := range []struct {
		choice
		want string
		bad  bool
	}{
		{want: "kills soak fuzz"},
		{choice: choice{only: "soak|fuzz"}, want: "soak fuzz"},
		{choice: choice{skip: "^s"}, want: "kills fuzz"},
		{choice: choice{only: "s", skip: "soak"}, want: "kills"},
		{choice: choice{only: "nothing"}, bad: true},
		{choice: choice{only: "("}, bad: true},
		{choice: choice{skip: "("}, bad: true},
	} {
		all := []step{{name: "kills"}, {name: "soak"}, {name: "fuzz"}}
		err := c.mark(all)
		var chosen []string
		for _, s := range all {
			if s.leftOut == "" {
				chosen = append(chosen, s.name)
			}
		}
		if (err != nil) != c.bad || !c.bad && strings.Join(chosen, " ") != c.want {
			t.Errorf("%+v: %v, %v", c.choice, chosen, err)
		}
	}
}

// A step's proof becomes stale when the code or the tests that it runs change.
func TestCounts(t *testing.T) {
	all, err := steps(filepath.Join("..", "..", ".."), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		is := func(names ...string) bool { return slices.Contains(names, s.name) }
		for path, want := range map[string]bool{
			"registry/registry.go": true, "bench/kills/main_test.go": true,
			"registry/codec/codec_test.go":           is("fuzz", "mutants"),
			"registry/codec/exact_test.go":           is("mutants"), // beside a fuzz target
			"controllers/podgc/podgc_test.go":        is("mutants"),
			"conformance/validation/pods_test.go":    is("mutants", "modules", "differential-validation"),
			"conformance/components/kubelet_test.go": is("mutants", "modules", "components"),
		} {
			if s.counts(path) != want {
				t.Errorf("%s: %s counts: %v", s.name, path, !want)
			}
		}
	}
}
