package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// step is one proof.
type step struct {
	name    string
	command []string
	dir     string // where it runs, in the repository
	limit   time.Duration
	// needs are programs and, with a slash, files of the repository without which it cannot run.
	needs []string
	// root tells that it takes real containers: root on Linux.
	root bool
	// result is the file of results/ that it writes, whose figures are shown.
	result string
	// leftOut is why somebody does not want it to run.
	leftOut string
}

// words are the command as a person would type it.
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

// notCompared are modules of conformance/ that compare nothing themselves: they pin programs. components has a
// step of its own.
func notCompared() []string { return []string{"upstream", "components"} }

// errNoModules: this is not the repository.
var errNoModules = errors.New("no modules are below conformance/: run it in the repository's root")

// steps are all of them, in the order in which they run: what says most about the code first.
func steps(root string, fuzz time.Duration) ([]step, error) {
	seconds := int(fuzz.Seconds())
	all := []step{
		{name: "kills", command: []string{"go", "run", "./bench/kills", "-kills", "200"}, limit: 20 * time.Minute, result: "kills"},
		{
			name: "soak", limit: 25 * time.Minute, result: "soak",
			command: []string{"make", "soak", "MINUTES=10"}, needs: []string{"make"},
		},
		{name: "conformance", command: []string{"go", "run", "./conformance/e2e"}, limit: 45 * time.Minute, result: "conformance"},
		{name: "conformance-pods", command: []string{"go", "run", "./conformance/e2e", "-class", "pods"}, limit: 90 * time.Minute, result: "conformance-pods", root: true},
		{name: "components", dir: "conformance/components", command: []string{"go", "test", "-count=1", "-timeout=0", "./..."}, limit: 30 * time.Minute},
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
				name: "differential-" + name, dir: "conformance/" + name,
				command: []string{"go", "test", "-count=1", "-timeout=0", "./..."}, limit: 20 * time.Minute,
			})
		}
	}
	return append(all,
		step{name: "fuzz", command: []string{"make", "fuzz", fmt.Sprintf("FUZZTIME=%ds", seconds)}, limit: 60 * time.Minute, needs: []string{"make"}},
		step{
			name: "mutants", limit: 45 * time.Minute, result: "mutants", needs: []string{"sh", "tools/mutants/main.go"},
			command: []string{"sh", "-c", "go build -C tools/mutants -o ../../bin/mutants . && bin/mutants -packages all -sample 2 -results results"},
		},
		step{name: "modules", command: []string{"make", "modules"}, limit: 45 * time.Minute, needs: []string{"make"}},
	), nil
}
