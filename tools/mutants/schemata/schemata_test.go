package schemata_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/keelson-dev/keelson/tools/mutants/schemata"
)

var update = flag.Bool("update", false, "write the golden files anew")

func load(t *testing.T, dir, pattern string) *schemata.Package {
	t.Helper()
	s, err := schemata.List(dir, pattern)
	if err != nil {
		t.Fatal(err)
	}
	p, err := s.Schemata(s.Packages()[0])
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// The golden file has each mutant of each operator; what it lacks is not changed. The rewritten source shows how the
// changes are made.
func TestOperators(t *testing.T) {
	p := load(t, "testdata/module", "./operators")
	var names bytes.Buffer
	for _, m := range p.Mutants {
		fmt.Fprintf(&names, "%s\t%s\n", m.Function, m.Change)
	}
	golden(t, "testdata/operators.golden", names.Bytes())
	golden(t, "testdata/rewritten.golden", rewritten(t, p, "operators.go"))
	build(t, p)
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; go test -update writes it anew:\n%s", name, got)
	}
}

func overlay(t *testing.T, p *schemata.Package) (string, map[string]string) {
	t.Helper()
	name, err := p.WriteOverlay(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var o struct{ Replace map[string]string }
	if err := json.Unmarshal(data, &o); err != nil {
		t.Fatal(err)
	}
	return name, o.Replace
}

func rewritten(t *testing.T, p *schemata.Package, file string) []byte {
	t.Helper()
	_, replace := overlay(t, p)
	data, err := os.ReadFile(replace[filepath.Join(p.Dir, file)])
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// build runs the compiler on code that so far has only been type-checked.
func build(t *testing.T, p *schemata.Package) {
	t.Helper()
	name, _ := overlay(t, p)
	cmd := exec.Command("go", "vet", "-overlay", name, ".")
	cmd.Dir = p.Dir
	if out, err := cmd.CombinedOutput(); err != nil && !strings.Contains(string(out), "# [") {
		t.Errorf("%v\n%s", err, out)
	}
	cmd = exec.Command("go", "build", "-overlay", name, ".")
	cmd.Dir = p.Dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// Line numbers do not change: positions in messages are those of the source.
func TestLinesStay(t *testing.T) {
	p := load(t, "testdata/module", "./operators")
	src, err := os.ReadFile("testdata/module/operators/operators.go")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := bytes.Count(rewritten(t, p, "operators.go"), []byte("\n")), bytes.Count(src, []byte("\n")); got != want {
		t.Errorf("%d lines became %d", want, got)
	}
	for _, m := range p.Mutants {
		if m.Line < 1 || m.File != "operators.go" || m.Package != "example.test/operators/operators" {
			t.Errorf("%+v", m)
		}
	}
}

// A mutant keeps its name when lines move and other functions change, and names are unique.
func TestNamesStay(t *testing.T) {
	const before = "package p\n\nfunc f(a, b int) bool { return a < b }\n\nfunc g(a, b int) bool { return a < b || b < a || a < b }\n"
	const after = "package p\n\n// More.\nfunc h(a, b int) bool { return a < b }\n\nfunc g(a, b int) bool {\n\treturn a < b ||\n\t\tb < a || a < b\n}\n"
	of := func(src string) []string {
		var names []string
		for _, m := range module(t, src).Mutants {
			if m.Function == "g" {
				names = append(names, m.Change)
			}
		}
		return names
	}
	b, a := of(before), of(after)
	if strings.Join(b, "\n") != strings.Join(a, "\n") {
		t.Errorf("%q became %q", b, a)
	}
	seen := map[string]bool{}
	for _, name := range a {
		if seen[name] {
			t.Errorf("%q twice", name)
		}
		seen[name] = true
	}
	if !seen["boundary: a < b #2"] {
		t.Errorf("got %q", a)
	}
}

// module is a package with one file.
func module(t *testing.T, src string) *schemata.Package {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module example.test/p\n\ngo 1.26\n", "p.go": src} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	p := load(t, dir, ".")
	build(t, p)
	return p
}

// Mutants that the compiler would refuse are not made; those on other lines are.
func TestRefused(t *testing.T) {
	p := module(t, `package p

import "time"

type own bool

const twice = 2

func wait(d time.Duration) time.Duration {
	return d.Round(2*3) +
		twice*d + 5*d
}

func f(a, b own, n int) (own, bool) {
	if a && b {
		return true, n > 1
	}
	var list [3]int
	return a == b, list[2] > n
}

func last(n int) int {
	switch n {
	case 1:
		return 2
	default:
		return 3
	}
}
`)
	var got []string
	for _, m := range p.Mutants {
		got = append(got, m.Function+" "+m.Change)
	}
	want := []string{"f drop: return true, n > 1", "f negate: n > 1", "f boundary: n > 1", "f negate: list[2] > n", "f boundary: list[2] > n", "f off by one: 2 in list[2]",
		"last off by one: 2 in return 2", "last off by one: 3 in return 3"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Generated files have no mutants.
func TestGenerated(t *testing.T) {
	const body = "package p\n\nfunc f(a, b int) bool { return a < b }\n"
	if n := len(module(t, "// Code generated by hand. DO NOT EDIT.\n\n"+body).Mutants); n != 0 {
		t.Errorf("%d mutants of generated code", n)
	}
	if n := len(module(t, body).Mutants); n == 0 {
		t.Error("no mutants of code that is not generated")
	}
}

// The patterns must name packages that compile.
func TestListFails(t *testing.T) {
	if _, err := schemata.List("testdata/module", "./none"); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("got %v", err)
	}
	s, err := schemata.List("testdata/module", "./operators")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Schemata("fmt"); err == nil {
		t.Error("a package that was not named has mutants")
	}
}
