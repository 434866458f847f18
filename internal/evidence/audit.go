package evidence

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Age is how old a result is in relation to the code that is checked out.
type Age struct {
	Name, Commit string
	Date         time.Time
	// Known is set if Commits and Files could be counted.
	Known bool
	// Files is how many of the files that the result is about have changed (see Changed), and Commits how many commits
	// changed them.
	Commits, Files int
	// Warning says what makes the result doubtful; Fault what makes it invalid.
	Warning, Fault string
}

// Audit checks the results of a repository against its history. Results that are missing, did not pass, or are of a
// tree with uncommitted changes have a Fault; those that are older than their code have a Warning. So have those of a
// commit that is not in the history, since a branch that was squashed when it was merged loses its commits: nobody can
// tell what has changed since. Without history, as in a shallow clone or an export, it is not checked.
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

var commitID = regexp.MustCompile(`^[0-9a-f]{12,40}$`)

// fault returns what is wrong with the result itself.
func fault(r Result) string {
	switch {
	case !r.Passed && len(r.Failures) > 0:
		return "it did not pass: " + r.Failures[0]
	case !r.Passed:
		return "it did not pass"
	case r.Dirty != nil && *r.Dirty:
		return "it is of a tree with changes that are in no commit"
	case !commitID.MatchString(r.Commit):
		return fmt.Sprintf("it does not say of which commit it is: %q", r.Commit)
	case len(r.About) == 0:
		return "it does not say what it is about"
	}
	// A file edited by hand may claim that it passed.
	if err := errors.Join(Over(r.Figures), failed(r.Tests)); err != nil {
		return "it says that it passed, but: " + err.Error()
	}
	return ""
}

// history is a repository's git history.
type history struct {
	root string
	// missing says why there is none, or not all of it.
	missing string
	none    bool
}

func historyOf(root string) history {
	h := history{root: root}
	top, err := git(root, "rev-parse", "--show-toplevel")
	if err != nil || !same(top, root) {
		// An export may be inside another repository.
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

// age counts what has changed since.
func (h history) age(a *Age, r Result, s Subject) error {
	if h.none {
		a.Warning = h.missing
		return nil
	}
	if _, err := git(h.root, "merge-base", "--is-ancestor", r.Commit, "HEAD"); err != nil {
		if h.missing != "" {
			a.Warning = h.missing
		} else {
			a.Warning = "the commit is not in the history"
		}
		return nil
	}
	paths := r.About
	if len(paths) == 0 {
		paths = s.Paths
	}
	files, err := Changed(h.root, r.Commit, Measured, paths...)
	if err != nil {
		return err
	}
	a.Known, a.Files = true, len(files)
	if len(files) > 0 {
		many, err := git(h.root, append([]string{"rev-list", "--count", r.Commit + "..HEAD", "--"}, files...)...)
		if err != nil {
			return err
		}
		if a.Commits, err = strconv.Atoi(many); err != nil {
			return err
		}
	}
	var warnings []string
	if r.Dirty == nil {
		warnings = append(warnings, "it does not say whether the tree was clean")
	}
	if a.Files > 0 {
		warnings = append(warnings, "older than what it is about: make "+s.Make)
	}
	a.Warning = strings.Join(warnings, "; ")
	return nil
}
