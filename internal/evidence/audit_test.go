package evidence_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/keelson-dev/keelson/internal/evidence"
)

// repository is a repository with a result of each name, all at its first commit.
type repository struct {
	t   *testing.T
	dir string
}

func newRepository(t *testing.T) repository {
	r := repository{t, t.TempDir()}
	r.git("init", "-q", "-b", "main")
	r.write("storage/store.go", "package storage\n")
	r.write("README.md", "words\n")
	r.commit("first")
	for _, s := range evidence.Subjects() {
		r.result(s.Name, func(*evidence.Result) {})
	}
	r.commit("results")
	return r
}

func (r repository) git(args ...string) string {
	r.t.Helper()
	c := exec.Command("git", append([]string{"-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "protocol.file.allow=always"}, args...)...)
	c.Dir = r.dir
	out, err := c.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (r repository) write(path, text string) {
	r.t.Helper()
	path = filepath.Join(r.dir, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

func (r repository) commit(message string) {
	r.t.Helper()
	r.git("add", "-A")
	r.git("commit", "-q", "-m", message)
}

// result writes a result that passed on a clean tree at the newest commit, unless change modifies it.
func (r repository) result(name string, change func(*evidence.Result)) {
	r.t.Helper()
	clean := false
	result := evidence.Result{
		Name: name, Commit: r.git("rev-parse", "--short=12", "HEAD"), Date: time.Now(),
		Code: evidence.Code{Dirty: &clean, About: []string{"storage"}}, Verdict: evidence.Verdict{Passed: true},
	}
	change(&result)
	if err := evidence.WriteFile(filepath.Join(r.dir, "results", name+".json"), result); err != nil {
		r.t.Fatal(err)
	}
}

// audit returns the age of one result. All others must be without a fault.
func (r repository) audit(name string) evidence.Age {
	r.t.Helper()
	ages, err := evidence.Audit(r.dir)
	if err != nil {
		r.t.Fatal(err)
	}
	var found evidence.Age
	for _, a := range ages {
		if a.Name == name {
			found = a
		} else if a.Fault != "" {
			r.t.Errorf("%s: %s", a.Name, a.Fault)
		}
	}
	return found
}

func TestAuditCountsWhatChanged(t *testing.T) {
	r := newRepository(t)
	if a := r.audit("serve"); !a.Known || a.Commits != 0 || a.Files != 0 || a.Warning != "" || a.Fault != "" {
		t.Fatalf("fresh: %+v", a)
	}
	r.write("storage/store.go", "package storage\n\nconst a = 1\n")
	r.write("storage/other.go", "package storage\n")
	r.commit("two files")
	r.write("storage/store.go", "package storage\n\nconst a = 2\n")
	r.commit("one of them again")
	r.write("storage/store_test.go", "package storage\n")
	r.write("storage/testdata/a", "a\n")
	r.commit("tests, which change nothing that is measured")
	r.write("registry/registry.go", "package registry\n")
	r.commit("what the results are not about")
	a := r.audit("serve")
	if !a.Known || a.Commits != 2 || a.Files != 2 || !strings.Contains(a.Warning, "make bench") || a.Fault != "" {
		t.Errorf("%+v, want 2 commits, 2 files and a warning", a)
	}
}

func TestAuditFaults(t *testing.T) {
	dirty := true
	for name, c := range map[string]struct {
		change func(*evidence.Result)
		want   string
	}{
		"red":           {func(r *evidence.Result) { r.Passed, r.Failures = false, []string{"too slow"} }, "did not pass: too slow"},
		"dirty":         {func(r *evidence.Result) { r.Dirty = &dirty }, "in no commit"},
		"no commit":     {func(r *evidence.Result) { r.Commit = "unknown" }, "of which commit"},
		"about nothing": {func(r *evidence.Result) { r.About = nil }, "what it is about"},
		"edited": {func(r *evidence.Result) {
			r.Figures = []evidence.Figure{{What: "time", Value: 3, Limit: 2}}
		}, "says that it passed, but: time: 3"},
		"failed tests": {func(r *evidence.Result) { r.Tests = &evidence.Tests{Selected: 2, Failed: 1} }, "1 of 2"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRepository(t)
			r.result("serve", c.change)
			if a := r.audit("serve"); !strings.Contains(a.Fault, c.want) {
				t.Errorf("fault %q, want %q", a.Fault, c.want)
			}
		})
	}
	r := newRepository(t)
	if err := os.Remove(filepath.Join(r.dir, "results", "serve.json")); err != nil {
		t.Fatal(err)
	}
	if a := r.audit("serve"); !strings.Contains(a.Fault, "no result: make bench") {
		t.Errorf("missing: %+v", a)
	}
}

// A commit on another branch is not in the history.
func TestAuditOfAnotherBranch(t *testing.T) {
	r := newRepository(t)
	r.git("checkout", "-q", "-b", "other")
	r.write("storage/other.go", "package storage\n")
	r.commit("elsewhere")
	elsewhere := r.git("rev-parse", "HEAD")
	r.git("checkout", "-q", "main")
	for _, commit := range []string{elsewhere, "0123456789ab"} {
		r.result("serve", func(r *evidence.Result) { r.Commit = commit })
		if a := r.audit("serve"); a.Fault != "" || a.Known || !strings.Contains(a.Warning, "not in the history") {
			t.Errorf("%s: %+v", commit, a)
		}
	}
}

// Without the whole history, what cannot be checked is a warning. Faults of the result itself still count.
func TestAuditWithoutHistory(t *testing.T) {
	r := newRepository(t)
	r.write("storage/store.go", "package storage // changed\n")
	r.commit("a change")

	shallow := repository{t, filepath.Join(t.TempDir(), "shallow")}
	r.git("clone", "-q", "--depth=1", "file://"+r.dir, shallow.dir)
	export := repository{t, t.TempDir()}
	if err := os.CopyFS(export.dir, os.DirFS(r.dir)); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(export.dir, ".git")); err != nil {
		t.Fatal(err)
	}
	inside := repository{t, filepath.Join(r.dir, "vendored")} // an export inside another repository
	if err := os.CopyFS(inside.dir, os.DirFS(export.dir)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		at   repository
		want string
	}{"shallow clone": {shallow, "shallow"}, "export": {export, "no history"}, "export inside": {inside, "no history"}} {
		if a := c.at.audit("serve"); a.Fault != "" || a.Known || !strings.Contains(a.Warning, c.want) {
			t.Errorf("%s: %+v", name, a)
		}
		if err := os.Remove(filepath.Join(c.at.dir, "results", "serve.json")); err != nil {
			t.Fatal(err)
		}
		if a := c.at.audit("serve"); a.Fault == "" {
			t.Errorf("%s: a missing result is not told", name)
		}
	}
}

// A tree is dirty if tracked files changed, except those that measurements write.
func TestDirty(t *testing.T) {
	r := newRepository(t)
	t.Chdir(r.dir)
	tree := func(what string, want bool) {
		t.Helper()
		commit, dirty := evidence.Tree()
		if commit != r.git("rev-parse", "--short=12", "HEAD") || dirty == nil || *dirty != want {
			t.Errorf("%s: %s, dirty %v, want %t", what, commit, dirty, want)
		}
	}
	tree("fresh", false)
	r.write("results/serve.json", "{}")
	r.write("README.md", "other words\n")
	r.write("untracked.go", "package untracked\n")
	tree("what measurements write", false)
	r.write("storage/store.go", "package storage // changed\n")
	tree("code", true)
	if err := os.Chdir("storage"); err != nil { // as go test does
		t.Fatal(err)
	}
	tree("in a directory below", true)
	begun, err := evidence.Begin(filepath.Join(r.dir, "results"), "serve")
	if err != nil {
		t.Fatal(err)
	}
	r.git("checkout", "-q", "--", "storage/store.go")
	if err := begun.End(evidence.Result{}, nil); err != nil {
		t.Fatal(err)
	}
	if got := read(t, filepath.Join(r.dir, "results")); got.Dirty == nil || !*got.Dirty {
		t.Error("that it was dirty at the beginning is forgotten")
	}
	t.Chdir(t.TempDir())
	if _, dirty := evidence.Tree(); dirty != nil {
		t.Errorf("without git: dirty %v", *dirty)
	}
}
