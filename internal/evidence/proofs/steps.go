package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/keelson-dev/keelson/internal/evidence"
)

// step is one proof.
type step struct {
	name    string
	command []string
	dir     string // its working directory in the repository
	limit   time.Duration
	// needs are programs and, with a slash, files of the repository without which it cannot run.
	needs []string
	// root is set if it needs real containers, and so root on Linux.
	root bool
	// result is the file in results/ that it writes, whose figures are shown.
	result string
	// about is the code that the step proves something about, as git pathspecs; tests are the files with tests, and the
	// directories of such, that are part of that, besides its own.
	about, tests []string
	// leftOut says why it was excluded from the run.
	leftOut string
}

// words returns the command as typed in a shell.
func (s step) words() string {
	text := strings.Join(s.command, " ")
	if s.command[0] == "sh" {
		text = s.command[2]
	}
	if s.dir != "" {
		return "cd " + s.dir + " && " + text
	}
	return text
}

// counts reports whether a file can change what the step proves.
func (s step) counts(file string) bool {
	return evidence.Measured(file) || s.dir != "" && strings.HasPrefix(file, s.dir+"/") ||
		slices.ContainsFunc(s.tests, func(t string) bool { return t == "." || t == file || strings.HasPrefix(file, t+"/") })
}

// notCompared returns the modules of conformance/ that compare nothing themselves: they pin programs. components has a
// step of its own.
func notCompared() []string { return []string{"upstream", "sampleapiserver", "components"} }

// errNoModules means that this is not the repository.
var errNoModules = errors.New("no modules are below conformance/: run it in the repository's root")

// steps returns all steps in the order in which they run: those that say most about the code first.
func steps(root string, fuzz time.Duration) ([]step, error) {
	seconds := int(fuzz.Seconds())
	all := []step{
		{name: "kills", command: []string{"go", "run", "./bench/kills", "-kills", "200"}, limit: 20 * time.Minute, result: "kills"},
		{
			name: "soak", limit: 25 * time.Minute, result: "soak",
			command: []string{"make", "soak", "MINUTES=10"}, needs: []string{"make"},
		},
		{
			name: "packets", limit: 20 * time.Minute, result: "packets", root: true, tests: []string{"proxy/nftables"},
			command: []string{"make", "packets", "SETS=1000"}, needs: []string{"make"},
		},
		{name: "conformance", command: []string{"go", "run", "./conformance/e2e"}, limit: 45 * time.Minute, result: "conformance"},
		{name: "conformance-pods", command: []string{"go", "run", "./conformance/e2e", "-class", "pods"}, limit: 90 * time.Minute, result: "conformance-pods", root: true},
		{name: "components", about: everything(), dir: "conformance/components", command: []string{"go", "test", "-count=1", "-timeout=0", "./..."}, limit: 30 * time.Minute},
	}
	modules, err := filepath.Glob(filepath.Join(root, "conformance", "*", "go.mod"))
	if err != nil {
		return nil, err
	}
	if len(modules) == 0 {
		return nil, errNoModules
	}
	for _, mod := range modules {
		name := filepath.Base(filepath.Dir(mod))
		other := false
		for _, n := range notCompared() {
			other = other || n == name
		}
		if !other {
			all = append(all, step{
				name: "differential-" + name, dir: "conformance/" + name, about: everything(),
				command: []string{"go", "test", "-count=1", "-timeout=0", "./..."}, limit: 20 * time.Minute,
			})
		}
	}
	fuzzed, nested, err := withTests(root)
	if err != nil {
		return nil, err
	}
	all = append(all,
		step{name: "fuzz", about: everything(), tests: fuzzed, command: []string{"make", "fuzz", fmt.Sprintf("FUZZTIME=%ds", seconds)}, limit: 60 * time.Minute, needs: []string{"make"}},
		step{
			name: "mutants", tests: []string{"."}, limit: 45 * time.Minute, result: "mutants", needs: []string{"sh", "tools/mutants/main.go"},
			command: []string{"sh", "-c", "go build -C tools/mutants -o ../../bin/mutants . && bin/mutants -packages all -sample 2 -results results"},
		},
		step{name: "modules", about: everything(), tests: nested, command: []string{"make", "modules"}, limit: 45 * time.Minute, needs: []string{"make"}},
	)
	for i := range all {
		for _, r := range evidence.Subjects() {
			if r.Name == all[i].result {
				all[i].about = r.Paths
			}
		}
	}
	return all, nil
}

// everything is the whole repository, except documentation and what only the mutants step reads.
func everything() []string {
	return []string{".", ":(exclude)docs", ":(exclude)results", ":(exclude)internal/evidence", ":(exclude)tools/mutants/*.tsv"}
}

// withTests returns the files that have fuzz targets, and the directories of the modules below the root. What a target proves
// does not change with the tests in other files.
func withTests(root string) (fuzzed, nested []string, err error) {
	repository := os.DirFS(root)
	err = fs.WalkDir(repository, ".", func(file string, entry fs.DirEntry, err error) error {
		name, dir := entry.Name(), path.Dir(file)
		switch {
		case err != nil:
			return err
		case entry.IsDir() && file != "." && (strings.HasPrefix(name, ".") || name == "bin" || name == "testdata"):
			return fs.SkipDir
		case name == "go.mod" && dir != ".":
			nested = append(nested, dir)
		case strings.HasSuffix(name, "_test.go"):
			source, err := fs.ReadFile(repository, file)
			if err != nil {
				return err
			}
			if bytes.Contains(source, []byte("\nfunc Fuzz")) {
				fuzzed = append(fuzzed, file)
			}
		}
		return nil
	})
	return fuzzed, nested, err
}
