package evidence

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Age is how a result stands to the code that is checked out.
type Age struct {
	Name, Commit string
	Date         time.Time
	// Known tells that Commits and Files could be counted.
	Known bool
	// Commits is how many commits changed what the result is about since its own, and Files how many files they
	// changed.
	Commits, Files int
	// Warning says what makes the result doubtful; Fault what makes it none.
	Warning, Fault string
}

// Audit holds the results of a repository to its history. Results that are missing, did not pass, are of a tree
// with changes of its own, or of a commit that is not in the history have a Fault; those that are older than the code
// they are about, a Warning. Where there is no history, as in a shallow clone or in an export, it is not asked for.
func Audit(root string) ([]Age, error) {
	past := historyOf(root)
	var ages []Age
	for _, s := range Subjects() {
		r, err := Read(filepath.Join(root, "results"), s.Name)
		switch {
		case errors.Is(err, fs.ErrNotExist) && s.Optional:
			continue
		case errors.Is(err, fs.ErrNotExist):
			ages = append(ages, Age{Name: s.Name, Fault: "there is no result: make " + s.Make})
			continue
		case err != nil:
			return nil, err
		}
		a := Age{Name: s.Name, Commit: r.Commit, Date: r.Date}
		a.Fault = fault(r)
		if err := past.age(&a, r, s); err != nil {
			return nil, err
		}
		ages = append(ages, a)
	}
	return ages, nil
}

// Read reads a result.
func Read(dir, name string) (Result, error) {
	var r Result
	data, err := os.ReadFile(filepath.Join(dir, name+".json"))
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, fmt.Errorf("results/%s.json: %w", name, err)
	}
	return r, nil
}

// fault is what the result itself says against it.
func fault(r Result) string {
	switch {
	case !r.Passed && len(r.Failures) > 0:
		return "it did not pass: " + r.Failures[0]
	case !r.Passed:
		return "it did not pass"
	case r.Dirty != nil && *r.Dirty:
		return "it is of a tree with changes that are in no commit"
	case len(r.About) == 0:
		return "it does not say what it is about"
	}
	// A file that somebody edited by hand may say that it passed.
	if err := errors.Join(Over(r.Figures), failed(r.Tests)); err != nil {
		return "it says that it passed, but: " + err.Error()
	}
	return ""
}

// history is what git knows of the past of a repository.
type history struct {
	root string
	// missing is why there is none, or not all of it.
	missing string
	none    bool
}

func historyOf(root string) history {
	h := history{root: root}
	top, err := git(root, "rev-parse", "--show-toplevel")
	if err != nil || !same(top, root) {
		// An export may lie in a directory of somebody else's repository.
		h.missing, h.none = "there is no history here", true
		return h
	}
	if shallow, err := git(root, "rev-parse", "--is-shallow-repository"); err != nil || shallow != "false" {
		h.missing = "the clone is shallow"
	}
	return h
}

func same(a, b string) bool {
	first, err := os.Stat(a)
	if err != nil {
		return false
	}
	second, err := os.Stat(b)
	return err == nil && os.SameFile(first, second)
}

// age counts what changed since.
func (h history) age(a *Age, r Result, s Subject) error {
	if h.none {
		a.Warning = h.missing
		return nil
	}
	if _, err := git(h.root, "merge-base", "--is-ancestor", r.Commit, "HEAD"); err != nil {
		if h.missing != "" {
			a.Warning = h.missing
		} else if a.Fault == "" {
			a.Fault = fmt.Sprintf("commit %q is not in the history", r.Commit)
		}
		return nil
	}
	paths := r.About
	if len(paths) == 0 {
		paths = s.Paths
	}
	said, err := git(h.root, append([]string{"log", "--format=commit %h", "--name-only", r.Commit + "..HEAD", "--"}, paths...)...)
	if err != nil {
		return err
	}
	a.Known = true
	a.Commits, a.Files = count(said)
	var warnings []string
	if r.Dirty == nil {
		warnings = append(warnings, "it does not say whether the tree was clean")
	}
	if a.Commits > 0 {
		warnings = append(warnings, "older than what it is about: make "+s.Make)
	}
	a.Warning = strings.Join(warnings, "; ")
	return nil
}

// count counts commits and files in what git log says. Tests do not change what is measured, unless they measure.
func count(log string) (commits, files int) {
	seen, counted := map[string]bool{}, true
	for line := range strings.Lines(log) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "commit "):
			counted = false
		case line == "", strings.HasSuffix(line, "_test.go") && !strings.HasPrefix(line, "bench/"), strings.Contains(line, "/testdata/"):
		default:
			seen[line] = true
			if !counted {
				commits++
			}
			counted = true
		}
	}
	return commits, len(seen)
}
