package depcheck_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Every exported name of the library is documented, or evident by one of the rules in CONTRIBUTING.md.
func TestExportedIsDocumented(t *testing.T) {
	own, _ := tree(t)
	var missing []string
	for _, rel := range sorted(own) {
		if public(rel) {
			missing = append(missing, missingDocs(t, rel, own[rel])...)
		}
	}
	if len(missing) > 0 {
		t.Errorf("%d exported names without documentation:\n\t%s", len(missing), strings.Join(missing, "\n\t"))
	}
}

// missingDocs lists what a package exports without documentation.
func missingDocs(t *testing.T, rel string, p pkg) []string {
	t.Helper()
	d := docs{rel: rel, files: token.NewFileSet()}
	for _, name := range p.GoFiles {
		file, err := parser.ParseFile(d.files, filepath.Join(p.Dir, name), nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				d.function(decl)
			case *ast.GenDecl:
				d.general(decl)
			}
		}
	}
	return d.missing
}

// docs walks declarations and collects what they leave undocumented.
type docs struct {
	rel     string
	files   *token.FileSet
	missing []string
}

func (d *docs) need(documented bool, at token.Pos, name string) {
	if !documented {
		d.missing = append(d.missing, d.rel+"/"+filepath.Base(d.files.Position(at).Filename)+": "+name)
	}
}

func (d *docs) function(decl *ast.FuncDecl) {
	name := decl.Name.Name
	if !decl.Name.IsExported() {
		return
	}
	if decl.Recv == nil {
		d.need(decl.Doc != nil, decl.Pos(), name)
		return
	}
	receiver := typeName(decl.Recv.List[0].Type)
	if ast.IsExported(receiver) && !slices.Contains(standardMethods(), name) {
		d.need(decl.Doc != nil, decl.Pos(), receiver+"."+name)
	}
}

// standardMethods are methods whose meaning the standard library defines.
func standardMethods() []string {
	return []string{"Error", "String", "Unwrap", "Len", "Less", "Swap", "MarshalJSON", "UnmarshalJSON", "MarshalText", "UnmarshalText"}
}

func (d *docs) general(decl *ast.GenDecl) {
	run := run{files: d.files}
	for _, spec := range decl.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			if spec.Name.IsExported() {
				d.need(decl.Doc != nil || spec.Doc != nil || spec.Comment != nil, spec.Pos(), spec.Name.Name)
				d.inside(spec)
			}
		case *ast.ValueSpec:
			covered := run.covers(spec, spec.Doc, spec.Comment)
			for _, name := range spec.Names {
				if name.IsExported() {
					d.need(covered || decl.Doc != nil, name.Pos(), name.Name)
				}
			}
		}
	}
}

// inside checks the fields of a struct and the methods of an interface.
func (d *docs) inside(spec *ast.TypeSpec) {
	switch of := spec.Type.(type) {
	case *ast.StructType:
		run := run{files: d.files}
		if d.files.Position(of.Pos()).Line == d.files.Position(of.End()).Line {
			return // the type's comment covers its fields
		}
		for _, field := range of.Fields.List {
			covered := run.covers(field, field.Doc, field.Comment) || field.Tag != nil
			for _, name := range field.Names {
				if name.IsExported() {
					d.need(covered || slices.Contains(metadata(), name.Name) || namedAfter(field.Type, name.Name), name.Pos(), spec.Name.Name+"."+name.Name)
				}
			}
		}
	case *ast.InterfaceType:
		for _, method := range of.Methods.List {
			for _, name := range method.Names {
				if name.IsExported() {
					d.need(method.Doc != nil || method.Comment != nil || of.Methods.NumFields() == 1, name.Pos(), spec.Name.Name+"."+name.Name)
				}
			}
		}
	}
}

// A run is a group of lines in a declaration without a blank line between them: a comment above the first applies to
// all.
type run struct {
	files *token.FileSet
	last  int
	doc   bool
}

func (r *run) covers(node ast.Node, doc, line *ast.CommentGroup) bool {
	begin := node.Pos()
	if doc != nil {
		begin = doc.Pos()
	}
	if r.files.Position(begin).Line > r.last+1 {
		r.doc = false
	}
	r.doc = r.doc || doc != nil
	r.last = r.files.Position(node.End()).Line
	return r.doc || line != nil
}

// metadata are fields that have the same meaning as in an object's metadata.
func metadata() []string { return []string{"Name", "Namespace", "UID", "Labels", "Annotations"} }

// namedAfter reports whether a field is named after its type, or after the type's only type argument: the type's
// documentation then covers the field.
func namedAfter(of ast.Expr, field string) bool {
	field = strings.TrimSuffix(strings.ToLower(field), "s")
	for {
		if strings.HasSuffix(strings.TrimSuffix(strings.ToLower(typeName(of)), "s"), field) {
			return true
		}
		switch inner := of.(type) {
		case *ast.StarExpr:
			of = inner.X
		case *ast.ArrayType:
			of = inner.Elt
		case *ast.IndexExpr:
			of = inner.Index
		default:
			return false
		}
	}
}

// typeName is the bare name of a type: without package, pointers and parameters.
func typeName(of ast.Expr) string {
	switch of := of.(type) {
	case *ast.Ident:
		return of.Name
	case *ast.SelectorExpr:
		return of.Sel.Name
	case *ast.StarExpr:
		return typeName(of.X)
	case *ast.ArrayType:
		return typeName(of.Elt)
	case *ast.IndexExpr:
		return typeName(of.X)
	case *ast.IndexListExpr:
		return typeName(of.X)
	default:
		return ""
	}
}
