// Package schemata makes mutants of Go packages: small changes like typical programming mistakes. All mutants of a
// package are compiled in at once and one is selected when the program starts, because compiling a package and linking
// its tests for each takes seconds (mutant schemata, after Untch, Offutt and Harrold, 1993).
//
// Mutants that would not compile are not made. operators.go and sensible.go define which changes are made and which are
// not. Nothing here is safe for concurrent use, unless its documentation says so.
package schemata

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// Source holds the packages to mutate, and the types of all packages that they import.
type Source struct {
	named    []listed
	exports  map[string]string
	fset     *token.FileSet
	importer types.Importer
}

// listed is the go command's description of a package.
type listed struct {
	ImportPath, Dir, Name, Export                string
	GoFiles, CgoFiles, TestGoFiles, XTestGoFiles []string
	DepOnly, Standard                            bool
}

// List runs the go command, in dir, to find the packages of the patterns and to compile their imports.
func List(dir string, patterns ...string) (*Source, error) {
	args := []string{"list", "-deps", "-export", "-json=ImportPath,Dir,Name,Export,GoFiles,CgoFiles,TestGoFiles,XTestGoFiles,DepOnly,Standard", "--",
		"os", "strconv", "syscall"} // the mutants import these, too
	cmd := exec.Command("go", append(args, patterns...)...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, stderr.Bytes())
	}
	s := &Source{exports: map[string]string{}, fset: token.NewFileSet()}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		s.exports[p.ImportPath] = p.Export
		if !p.DepOnly && !p.Standard {
			s.named = append(s.named, p)
		}
	}
	s.importer = importer.ForCompiler(s.fset, "gc", func(path string) (io.ReadCloser, error) {
		export := s.exports[path]
		if export == "" {
			return nil, fmt.Errorf("no export data of %s", path)
		}
		return os.Open(export)
	})
	return s, nil
}

// Packages returns the import paths of the packages that the patterns named.
func (s *Source) Packages() []string {
	paths := make([]string, 0, len(s.named))
	for _, p := range s.named {
		paths = append(paths, p.ImportPath)
	}
	return paths
}

// Package is a package with all its mutants compiled in.
type Package struct {
	Path, Dir, Name string
	// Tests reports whether it has tests of its own.
	Tests   bool
	Mutants []Mutant
	// files are the rewritten files, by the path of the original.
	files map[string][]byte
	// count is greater than every mutant's ID.
	count int
}

// Schemata makes the mutants of one package.
func (s *Source) Schemata(path string) (*Package, error) {
	for _, p := range s.named {
		if p.ImportPath == path {
			return s.schemata(p)
		}
	}
	return nil, fmt.Errorf("%s is none of the packages that were listed", path)
}

func (s *Source) schemata(l listed) (*Package, error) {
	p := &Package{Path: l.ImportPath, Dir: l.Dir, Name: l.Name, Tests: len(l.TestGoFiles)+len(l.XTestGoFiles) > 0}
	if len(l.CgoFiles) > 0 {
		return nil, fmt.Errorf("%s uses cgo, which cannot be rewritten", l.ImportPath)
	}
	sources := map[string][]byte{}
	var files []*ast.File
	for _, name := range l.GoFiles {
		full := filepath.Join(l.Dir, name)
		src, err := os.ReadFile(full)
		if err != nil {
			return nil, err
		}
		file, err := parser.ParseFile(s.fset, full, src, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		sources[full], files = src, append(files, file)
	}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{},
		Defs: map[*ast.Ident]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{}}
	if _, err := (&types.Config{Importer: s.importer}).Check(l.ImportPath, s.fset, files, info); err != nil {
		return nil, err
	}
	f := &finder{pkg: p, info: info, fset: s.fset, seen: map[Mutant]int{}}
	for _, file := range files {
		full := s.fset.Position(file.Package).Filename
		if generated(file, full) {
			continue
		}
		f.find(file, full, sources[full])
	}
	p.Mutants, p.count = f.mutants, len(f.mutants)
	return p, s.compile(p, f, sources)
}

// compile renders the files and removes mutants that a compiler would refuse, until none is left.
func (s *Source) compile(p *Package, f *finder, sources map[string][]byte) error {
	refused := map[int]bool{}
	for {
		p.files = f.render(sources, refused)
		wrong, err := s.check(p, sources)
		if err != nil {
			return err
		}
		if len(wrong) == 0 {
			p.Mutants = without(f.mutants, refused)
			return nil
		}
		before := len(refused)
		for _, m := range f.mutants {
			if slices.ContainsFunc(wrong, func(e types.Error) bool { return f.on(m, s.fset.Position(e.Pos)) }) {
				refused[m.ID] = true
			}
		}
		if len(refused) == before {
			return fmt.Errorf("%s with its mutants does not compile, and no mutant is the reason: %w", p.Path, wrong[0])
		}
	}
}

// check type-checks the rewritten package.
func (s *Source) check(p *Package, sources map[string][]byte) ([]types.Error, error) {
	rewritten := map[string][]byte{filepath.Join(p.Dir, runtimeFile): p.runtime()}
	maps.Copy(rewritten, sources)
	maps.Copy(rewritten, p.files)
	var files []*ast.File
	for name, src := range rewritten {
		file, err := parser.ParseFile(s.fset, name, src, parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("%s with its mutants: %w", p.Path, err)
		}
		files = append(files, file)
	}
	var wrong []types.Error
	conf := &types.Config{Importer: s.importer, Error: func(err error) {
		var e types.Error
		if errors.As(err, &e) {
			wrong = append(wrong, e)
		}
	}}
	_, _ = conf.Check(p.Path, s.fset, files, nil)
	return wrong, nil
}

func without(all []Mutant, refused map[int]bool) []Mutant {
	var kept []Mutant
	for _, m := range all {
		if !refused[m.ID] {
			kept = append(kept, m)
		}
	}
	return kept
}
