package evidence_test

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/keelson-dev/keelson/internal/evidence"
)

var errBroken = errors.New("something broke")

// A run that does not pass replaces the file of a successful one, however it ends: with an error, with a figure over
// its limit, with failed tests, or not at all.
func TestRedReplacesGreen(t *testing.T) {
	good := evidence.Result{Seed: 7, Figures: []evidence.Figure{{What: "time", Value: 5, Unit: "ms", Limit: 10}}}
	for name, c := range map[string]struct {
		result evidence.Result
		err    error
		is     error
		want   []string
	}{
		"error":        {err: errBroken, is: errBroken, want: []string{"something broke"}},
		"over a limit": {result: evidence.Result{Figures: []evidence.Figure{{What: "time", Value: 11, Unit: "ms", Limit: 10}}}, is: evidence.ErrOver, want: []string{"time: 11 ms is over the limit of 10"}},
		"tests":        {result: evidence.Result{Tests: &evidence.Tests{Selected: 4, Passed: 3, Failed: 1}}, want: []string{"1 of 4 tests failed"}},
		"two errors": {
			err: errors.Join(errBroken, fmt.Errorf("at the end: %w", errBroken)), is: errBroken,
			want: []string{"something broke", "at the end: something broke"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			first, err := evidence.Begin(dir, "serve")
			if err == nil {
				err = first.End(good, nil)
			}
			if err != nil {
				t.Fatal(err)
			}
			if r := read(t, dir); !r.Passed || len(r.Failures) > 0 || r.Seed != 7 || len(r.About) == 0 || r.Commit == "" || r.Machine.CPUs == 0 {
				t.Fatalf("a run that passed: %+v", r)
			}
			second, err := evidence.Begin(dir, "serve")
			if err != nil {
				t.Fatal(err)
			}
			if r := read(t, dir); r.Passed || len(r.Failures) != 1 || len(r.Figures) > 0 {
				t.Errorf("a run that has begun, and may be killed: %+v", r)
			}
			if err = second.End(c.result, c.err); err == nil || c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("End returns %v", err)
			}
			if r := read(t, dir); r.Passed || !slices.Equal(r.Failures, c.want) || len(r.Figures) != len(c.result.Figures) {
				t.Errorf("%+v, want %q", r, c.want)
			}
		})
	}
}

// A result has one of the known names, or is a part of one.
func TestNames(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"unheard-of", ""} {
		if _, err := evidence.Begin(dir, name); !errors.Is(err, evidence.ErrUnknown) {
			t.Errorf("name %q: %v", name, err)
		}
	}
	if _, err := evidence.Begin(dir, "serve-part"); err != nil {
		t.Errorf("a part: %v", err)
	}
}

// Without a directory nothing is written, but the verdict is the same.
func TestWithoutDirectory(t *testing.T) {
	t.Chdir(t.TempDir())
	r, err := evidence.Begin("", "serve")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.End(evidence.Result{}, errBroken); !errors.Is(err, errBroken) {
		t.Errorf("End: %v", err)
	}
	if files, _ := filepath.Glob("*"); len(files) > 0 {
		t.Errorf("written: %v", files)
	}
}

func read(t *testing.T, dir string) evidence.Result {
	t.Helper()
	r, err := evidence.Read(dir, "serve")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The paths of a result include every package of this module that its program is built from.
func TestSubjects(t *testing.T) {
	programs := map[string]string{
		"cluster": "./bench/cluster", "conformance": "./examples/cluster", "conformance-pods": "./examples/cluster", "kills": "./examples/cluster",
		"node": "./examples/cluster", "peers": "./examples/cluster", "scale": "./bench/scale", "serve": "./examples/cluster", "soak": "./bench/soak",
	}
	// Packages that only measure, or are for real containers, which simulated nodes do not use.
	beside := map[string]bool{"internal/evidence": true, "internal/clusterprocess": true, "internal/kubectl": true, "internal/etcdtest": true, "bench/soak.test": true}
	ofNodes := []string{"cni", "node/bundled", "node/containerd", "node/nodetools", "node/ociimage"}
	built := map[string][]string{}
	const module = "github.com/keelson-dev/keelson/"
	for _, s := range evidence.Subjects() {
		if !slices.IsSorted(s.Paths) || s.Make == "" {
			t.Errorf("%s: paths are not in order, or no target: %+v", s.Name, s)
		}
		if s.Optional { // about all code, or one package at a time
			continue
		}
		for _, p := range s.Paths {
			if found, err := filepath.Glob(filepath.Join("..", "..", p)); err != nil || len(found) == 0 {
				t.Errorf("%s: there is no %s", s.Name, p)
			}
		}
		program := programs[s.Name]
		if built[program] == nil {
			list := exec.Command("go", "list", "-test", "-deps", program)
			if program != "./bench/soak" { // a test
				list = exec.Command("go", "list", "-deps", program)
			}
			list.Dir = filepath.Join("..", "..")
			out, err := list.Output()
			if err != nil {
				t.Fatalf("go list %s: %v", program, err)
			}
			built[program] = strings.Fields(string(out))
		}
		for _, pkg := range built[program] {
			pkg, ours := strings.CutPrefix(pkg, module)
			covered := func(p string) bool { return pkg == p || strings.HasPrefix(pkg, p+"/") }
			if ours && !beside[pkg] && !slices.ContainsFunc(s.Paths, covered) &&
				(s.Name == "node" || s.Name == "conformance-pods" || !slices.ContainsFunc(ofNodes, covered)) {
				t.Errorf("%s: is built from %s, which is not among its paths", s.Name, pkg)
			}
		}
	}
}
