package schemata

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"path/filepath"
	"strings"
)

// Mutant is one change of a package. Its name stays the same as long as its function and expression do, even if lines
// move.
type Mutant struct {
	Package  string // the import path
	File     string // without its directory
	Function string // such as "(*T).Method", or "var name"
	// Change describes the change: the operator, the text, and a number if a function has the same one more than once.
	Change string

	// ID identifies the mutant in this compilation, and Line is its position.
	ID, Line int

	last int // line
}

// finder collects the mutants of a package.
type finder struct {
	pkg  *Package
	info *types.Info
	fset *token.FileSet

	mutants []Mutant
	edits   []edit
	files   []string // of mutants, by ID
	seen    map[Mutant]int

	// The file and the declaration being processed:
	path     string
	src      []byte
	function string
}

// find processes all functions and variables of a file.
func (f *finder) find(file *ast.File, path string, src []byte) {
	f.path, f.src = path, src
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Body == nil || text(d) {
				continue
			}
			f.function = functionName(d)
			ast.PreorderStack(d.Body, []ast.Node{d}, f.visit)
		case *ast.GenDecl:
			if d.Tok != token.VAR {
				continue
			}
			for _, spec := range d.Specs {
				f.function = "var " + spec.(*ast.ValueSpec).Names[0].Name
				ast.PreorderStack(spec, nil, f.visit)
			}
		}
	}
}

func functionName(d *ast.FuncDecl) string {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return d.Name.Name
	}
	recv, star := d.Recv.List[0].Type, ""
	if s, ok := recv.(*ast.StarExpr); ok {
		recv, star = s.X, "*"
	}
	switch g := recv.(type) {
	case *ast.IndexExpr:
		recv = g.X
	case *ast.IndexListExpr:
		recv = g.X
	}
	return fmt.Sprintf("(%s%s).%s", star, types.ExprString(recv), d.Name.Name)
}

// add makes a mutant of a node and returns its ID; the caller adds edits to it.
func (f *finder) add(n ast.Node, operator, change string) int {
	m := Mutant{Package: f.pkg.Path, File: filepath.Base(f.path), Function: f.function, Change: operator + ": " + change}
	f.seen[m]++
	if nth := f.seen[m]; nth > 1 {
		m.Change += fmt.Sprintf(" #%d", nth)
	}
	m.ID, m.Line, m.last = len(f.mutants), f.fset.Position(n.Pos()).Line, f.fset.Position(n.End()).Line
	f.mutants, f.files = append(f.mutants, m), append(f.files, f.path)
	return m.ID
}

// on reports whether a position is on the lines of a mutant.
func (f *finder) on(m Mutant, pos token.Position) bool {
	return f.files[m.ID] == pos.Filename && m.Line <= pos.Line && pos.Line <= m.last
}

// wrap puts text before and after a node; %d in it is the mutant's ID.
func (f *finder) wrap(id int, n ast.Node, before, after string) {
	f.edits = append(f.edits, edit{file: f.path, start: f.offset(n.Pos()), end: f.offset(n.End()), mutant: id,
		open: strings.ReplaceAll(before, "%d", fmt.Sprint(id)), close: strings.ReplaceAll(after, "%d", fmt.Sprint(id))})
}

// comma replaces a binary operator by a comma: the operands become arguments of a function.
func (f *finder) comma(id int, b *ast.BinaryExpr) {
	start := f.offset(b.OpPos)
	f.edits = append(f.edits, edit{file: f.path, start: start, end: start + len(b.Op.String()), mutant: id, open: ",", replace: true})
}

// insert puts text after a position.
func (f *finder) insert(id int, pos token.Pos, text string) {
	at := f.offset(pos)
	f.edits = append(f.edits, edit{file: f.path, start: at, end: at, mutant: id, open: strings.ReplaceAll(text, "%d", fmt.Sprint(id))})
}

func (f *finder) offset(pos token.Pos) int { return f.fset.Position(pos).Offset }

// widest is the number of characters of a source text that are part of a mutant's name.
const widest = 90

// source returns the text of a node on one line.
func (f *finder) source(n ast.Node) string {
	text := []rune(strings.Join(strings.Fields(string(f.src[f.offset(n.Pos()):f.offset(n.End())])), " "))
	if len(text) > widest {
		return string(text[:widest]) + "…"
	}
	return string(text)
}
