package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keelson-dev/keelson/internal/evidence"
	"github.com/keelson-dev/keelson/tools/mutants/schemata"
	"github.com/keelson-dev/keelson/tools/mutants/trial"
)

func mutant(pkg, function, change string) schemata.Mutant {
	return schemata.Mutant{Package: module + pkg, File: "f.go", Function: function, Change: change}
}

func TestSample(t *testing.T) {
	var all []schemata.Mutant
	for i := range 100 {
		m := mutant("authn", fmt.Sprintf("f%d", i/5), fmt.Sprintf("drop: g() #%d", i))
		m.ID = i
		all = append(all, m)
	}
	if got := sample(all, 0, 1); !slices.Equal(got, all) {
		t.Errorf("without a number %d are chosen", len(got))
	}
	first := sample(all, 20, 1)
	if len(first) != 20 || !slices.IsSortedFunc(first, func(a, b schemata.Mutant) int { return a.ID - b.ID }) {
		t.Errorf("chosen are %v", first)
	}
	if again := sample(all, 20, 1); !slices.Equal(first, again) {
		t.Errorf("the same seed chooses %v and %v", first, again)
	}
	if other := sample(all, 20, 2); slices.Equal(first, other) {
		t.Error("another seed chooses the same")
	}
	// When mutants are added or removed, the choice among the others does not change.
	moved := slices.Clone(all[50:])
	for i := range moved {
		moved[i].ID, moved[i].Line = i, 7
	}
	chosen := map[identity]bool{}
	for _, m := range sample(moved, 20, 1) {
		chosen[identityOf(m)] = true
	}
	for _, m := range first {
		if m.ID >= 50 && !chosen[identityOf(m)] {
			t.Errorf("%v is no longer chosen", m)
		}
	}
}

func TestJudge(t *testing.T) {
	// Of 40 mutants 36 are killed, one of them by timeout, and four survive.
	var all []schemata.Mutant
	var results []trial.Result
	for i := range 40 {
		m := mutant("authn/token", "f", fmt.Sprintf("drop: g() #%d", i))
		all, results = append(all, m), append(results, trial.Result{Mutant: m, Verdict: trial.Killed})
	}
	results[3].Verdict = trial.TimedOut
	results[4].Verdict, results[5].Verdict, results[6].Verdict, results[7].Verdict = trial.Survived, trial.Survived, trial.NotReached, trial.NotReached
	of := func(i int) identity { return identityOf(all[i]) }
	for _, test := range []struct {
		name   string
		listed map[identity]string
		rate   string
		want   []string // parts of the error
	}{
		{"unlisted", nil, "90.0", []string{"90.0 %", "4 survivors are not listed"}},
		{"listed", map[identity]string{of(4): "r", of(5): "r", of(6): "r", of(7): "r"}, "90.0", []string{"authn: the tests kill 90.0 %"}},
		{"equivalent", map[identity]string{of(4): "equivalent: x", of(5): "equivalent: x", of(6): "equivalent: x", of(7): "r"}, "97.3", nil},
		{"sometimes", map[identity]string{of(0): "sometimes: x", of(4): "equivalent: x", of(5): "equivalent: x", of(6): "equivalent: x", of(7): "r"}, "97.3", nil},
		{"timed out", map[identity]string{of(3): "r", of(4): "equivalent: x", of(5): "equivalent: x", of(6): "equivalent: x", of(7): "r"}, "97.3", nil},
		{"killed", map[identity]string{of(0): "equivalent: x", of(4): "equivalent: x", of(5): "equivalent: x", of(6): "equivalent: x", of(7): "r"}, "97.3",
			[]string{"1 lines of survivors.tsv are no longer true"}},
		{"gone", map[identity]string{{"authn/token", "f.go", "f", "drop: h()"}: "r", of(4): "equivalent: x", of(5): "equivalent: x", of(6): "equivalent: x", of(7): "r"}, "97.3",
			[]string{"1 lines of survivors.tsv are no longer true"}},
		{"of packages that were not tried", map[identity]string{{"authn/x509", "f.go", "f", "drop: h()"}: "r",
			of(4): "equivalent: x", of(5): "equivalent: x", of(6): "equivalent: x", of(7): "r"}, "97.3", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			j := judge([]*tried{{path: "authn/token", all: all, results: results}, {path: "authn/authntest", leftOut: "a kit"}}, test.listed)
			if len(j.areas) != 1 || fmt.Sprintf("%.1f", j.areas[0].Rate) != test.rate || len(j.areas[0].LeftOut) != 1 {
				t.Errorf("got %+v, want %s %%", j.areas, test.rate)
			}
			if a := j.areas[0]; a.Tried != a.Killed+a.Survived+a.NotReached+a.Equivalent || a.Killed != 36 {
				t.Errorf("the numbers do not add up: %+v", a)
			}
			err := j.err()
			if (err != nil) != (len(test.want) > 0) {
				t.Errorf("got %v", err)
			}
			for _, part := range test.want {
				if err != nil && !strings.Contains(err.Error(), part) {
					t.Errorf("%v does not say %q", err, part)
				}
			}
		})
	}
}

// A package whose tests cannot be run is reported.
func TestJudgeFailed(t *testing.T) {
	j := judge([]*tried{{path: "authn/token", failed: io.ErrUnexpectedEOF}, {path: "authn"}}, nil)
	if err := j.err(); err == nil || !strings.Contains(err.Error(), "authn/token") || j.areas[0].Packages != 1 {
		t.Errorf("got %v, %+v", err, j.areas)
	}
}

// The recorded result says what the program's exit status says.
func TestConclude(t *testing.T) {
	m := mutant("authz/rbac", "(*T).F", "negate: a == b")
	for _, test := range []struct {
		name    string
		verdict trial.Verdict
		stopped error
		want    string // part of the only failure
	}{
		{name: "killed", verdict: trial.Killed},
		{name: "survived", verdict: trial.Survived, want: "0.0 %"},
		{name: "ended early", verdict: trial.Killed, stopped: context.Canceled, want: "ended early"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			measurement, err := evidence.Begin(dir, "mutants")
			if err != nil {
				t.Fatal(err)
			}
			j := judge([]*tried{{path: "authz/rbac", all: []schemata.Mutant{m}, results: []trial.Result{{Mutant: m, Verdict: test.verdict}}}}, nil)
			err = conclude(measurement, flags{sample: 3, seed: 5}, time.Minute, j, test.stopped)
			if (err != nil) != (test.want != "") {
				t.Errorf("got %v", err)
			}
			var written evidence.Result
			data, err := os.ReadFile(filepath.Join(dir, "mutants.json"))
			if err := errors.Join(err, json.Unmarshal(data, &written)); err != nil {
				t.Fatal(err)
			}
			if written.Passed != (test.want == "") || written.Seed != 5 || len(written.Mutants) != 1 || !strings.Contains(written.Note, "At most 3") {
				t.Errorf("written: %+v", written)
			}
			if got := strings.Join(written.Failures, "\n"); !strings.Contains(got, test.want) {
				t.Errorf("written failures: %q, want %q", got, test.want)
			}
		})
	}
}

// The printed row of a survivor can be pasted into the list, once it has a reason.
func TestPrintedRows(t *testing.T) {
	m := mutant("authz/rbac", "(*T).F", "negate: a == b")
	m.Line = 12
	j := judge([]*tried{{path: "authz/rbac", all: []schemata.Mutant{m}, results: []trial.Result{{Mutant: m, Verdict: trial.Survived}}}}, nil)
	var out bytes.Buffer
	j.print(&out)
	row, where, _ := strings.Cut(strings.SplitN(out.String(), "\n", 2)[0], "\t\t")
	if where != "(survived, line 12)" {
		t.Errorf("got %q", out.String())
	}
	listed, err := parseSurvivors(strings.NewReader("# a comment\n\n" + row + "\tequivalent: a reason\n"))
	if err != nil || listed[identityOf(m)] != "equivalent: a reason" {
		t.Errorf("got %v, %v", listed, err)
	}
}

func TestListsRefuse(t *testing.T) {
	survivors := func(r io.Reader) error { _, err := parseSurvivors(r); return err }
	settings := func(r io.Reader) error { _, err := parseSettings(r); return err }
	for _, test := range []struct {
		name, text, want string
		parse            func(io.Reader) error
	}{
		{"columns", "a\tb\n", "line 1 has 2 columns in place of 5", survivors},
		{"no reason", "# c\na\tb\tc\td\t\n", "line 2 has no reason", survivors},
		{"twice", "a\tb\tc\td\tr\na\tb\tc\td\ts\n", "line 2 is listed twice", survivors},
		{"setting", "a\tslow\t\tr\n", `"slow" is no setting`, settings},
		{"setting without reason", "a\tshort\t\t\n", "short of a has no reason", settings},
		{"expression", "a\tskip\t(\tr\n", "missing closing", settings},
	} {
		t.Run(test.name, func(t *testing.T) {
			if err := test.parse(strings.NewReader(test.text)); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
	got, err := parseSettings(strings.NewReader("a\tshort\t\tr\na\tskip\t^TestX$\tr\na\ttested by\tcluster\tr\na\ttested by\tb\tr\nb\tleft out\t\tno time\na\tfile\tx.go\tr\n"))
	if err != nil || !got["a"].short || got["a"].skip != "^TestX$" || !slices.Equal(got["a"].also, []string{module + "cluster", module + "b"}) ||
		got["b"].leftOut != "no time" || got["a"].files["x.go"] != "r" {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestChanged(t *testing.T) {
	root := t.TempDir()
	run := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.test"}, args...)...)
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	write := func(name string) {
		t.Helper()
		name = filepath.Join(root, name)
		file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if os.IsNotExist(err) {
			if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
				t.Fatal(err)
			}
			file, err = os.Create(name)
		}
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		fmt.Fprintln(file, "package p")
	}
	want := func(commit string, want ...string) {
		t.Helper()
		if got, err := changed(t.Context(), root, commit); err != nil || !slices.Equal(got, want) {
			t.Errorf("since %q: got %q, %v, want %q", commit, got, err, want)
		}
	}
	run("init", "-q", "-b", "main")
	write("authn/a.go")
	write("authz/rbac/a.go")
	write("cluster/a.go")
	write("README.md")
	run("add", ".")
	run("commit", "-q", "-m", "1")
	write("authz/rbac/a_test.go")
	write("cluster/a.go")
	write("README.md")
	run("add", ".")
	run("commit", "-q", "-m", "2")
	want("", "./authz/rbac")
	run("checkout", "-q", "-b", "feature")
	want("", "./authz/rbac") // the branch has no commits of its own yet
	write("authn/a.go")
	run("commit", "-q", "-a", "-m", "3")
	write("kubelet/b/b.go")
	write("kubelet/docs.md")
	write("authz/rbac/testdata/case.txt")
	want("", "./authn", "./authz/rbac", "./kubelet/b")
	want("HEAD", "./authz/rbac", "./kubelet/b")
	want("HEAD~2", "./authn", "./authz/rbac", "./kubelet/b")
	if _, err := changed(t.Context(), root, "nowhere"); err == nil || !strings.Contains(err.Error(), "-changed") {
		t.Errorf("got %v", err)
	}
}
