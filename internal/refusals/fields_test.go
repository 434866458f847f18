package refusals_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/refusals"
)

const root = "../.."

// verdict is what a line of fields.txt says about one field.
type verdict struct{ kind, by, library string }

// verdicts reads fields.txt.
func verdicts(t *testing.T) map[string]verdict {
	t.Helper()
	data, err := os.ReadFile("fields.txt")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]verdict{}
	for line := range strings.Lines(string(data)) {
		line, why, _ := strings.Cut(strings.TrimSpace(line), ": ")
		words := strings.Fields(line)
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		v, rest := verdict{kind: words[0]}, words[1:]
		switch v.kind {
		case "acted", "dropped":
			v.by, rest = rest[0], rest[1:]
		case "through":
			v.by, v.library, rest = rest[0], rest[1], rest[2:]
		case "idle":
			if why == "" {
				t.Errorf("%s: without a reason", line)
			}
		default:
			t.Fatalf("%q is no line of fields.txt", line)
		}
		for _, field := range rest[1:] {
			name := rest[0] + "." + field
			if _, twice := all[name]; twice {
				t.Errorf("%s is there twice", name)
			}
			all[name] = v
		}
	}
	return all
}

// refused returns the fields in the list.
func refused() map[string]bool {
	all := map[string]bool{}
	for _, r := range refusals.List() {
		for _, field := range r.Fields {
			all[field] = true
		}
	}
	return all
}

// fieldsOf calls visit for each field of a type of the core API and of the types in it; visit decides whether to
// descend into a field.
func fieldsOf(of reflect.Type, visit func(name string) (more bool)) {
	seen := map[reflect.Type]bool{}
	var walk func(reflect.Type)
	walk = func(of reflect.Type) {
		for slices.Contains([]reflect.Kind{reflect.Pointer, reflect.Slice, reflect.Map}, of.Kind()) {
			of = of.Elem()
		}
		if of == reflect.TypeFor[corev1.EphemeralContainerCommon]() {
			of = reflect.TypeFor[corev1.Container]() // the kubelet's conversion ensures that they are alike
		}
		if of.Kind() != reflect.Struct || of.PkgPath() != "k8s.io/api/core/v1" || seen[of] {
			return
		}
		seen[of] = true
		for field := range of.Fields() {
			if field.Anonymous || visit(of.Name()+"."+field.Name) {
				walk(field.Type)
			}
		}
	}
	walk(of)
}

// TestEveryFieldIsActedOnOrRefused: every field of pods and nodes in the API is implemented or refused, and every field
// in the tables exists.
func TestEveryFieldIsActedOnOrRefused(t *testing.T) {
	verdicts, refused := verdicts(t), refused()
	found := map[string]bool{}
	for _, of := range []reflect.Type{reflect.TypeFor[corev1.PodSpec](), reflect.TypeFor[corev1.NodeSpec]()} {
		fieldsOf(of, func(name string) bool {
			v, known := verdicts[name]
			switch {
			case known && refused[name]:
				t.Errorf("%s is refused and in fields.txt", name)
			case !known && !refused[name]:
				t.Errorf("%s is neither in fields.txt nor in the list of refusals: who acts on it?", name)
			}
			found[name] = true
			return v.kind == "acted" || v.kind == "through"
		})
	}
	for name := range verdicts {
		if !found[name] {
			t.Errorf("fields.txt has %s, which is not in the API, or is in a field that nobody acts on", name)
		}
	}
	for name := range refused {
		if !found[name] {
			t.Errorf("the list refuses %s, which is not in the API, or is in a field that nobody acts on", name)
		}
	}
}

// source holds the names and imports in the code of some packages, without tests.
type source struct{ names, imports map[string]bool }

// sourceOf reads a package, or all at and below one.
func sourceOf(t *testing.T, by string) source {
	t.Helper()
	s := source{map[string]bool{}, map[string]bool{}}
	dir, all := strings.CutSuffix(by, "/...")
	top := filepath.Join(root, filepath.FromSlash(dir))
	err := filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != top && (!all || entry.Name() == "testdata" || strings.HasSuffix(entry.Name(), "test")):
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		s.read(file)
		return nil
	})
	if err != nil {
		t.Errorf("%s: %v", by, err)
	}
	return s
}

func (s source) read(file *ast.File) {
	for _, imported := range file.Imports {
		if path, err := strconv.Unquote(imported.Path.Value); err == nil {
			s.imports[path] = true
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			s.names[n.Sel.Name] = true
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok {
				s.names[key.Name] = true
			}
		}
		return true
	})
}

// TestFieldsAreNamed: the names of fields occur in the code of the packages that are said to implement them.
func TestFieldsAreNamed(t *testing.T) {
	sources := map[string]source{}
	for field, v := range verdicts(t) {
		if v.by == "" {
			continue
		}
		s, read := sources[v.by]
		if !read {
			s = sourceOf(t, v.by)
			sources[v.by] = s
		}
		_, name, _ := strings.Cut(field, ".")
		switch {
		case v.library == "" && !s.names[name]:
			t.Errorf("%s does not name %s", v.by, field)
		case v.library != "" && !s.imports[v.library]:
			t.Errorf("%s does not import %s, which is to act on %s", v.by, v.library, field)
		}
	}
	for _, r := range refusals.List() {
		if len(sourceOf(t, r.By).names) == 0 {
			t.Errorf("%s: there is no package %s", r.Asks, r.By)
		}
	}
}

// TestReadme: the README contains the list of missing features.
func TestReadme(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(data), "<!-- internal/refusals -->\n\n")
	got, _, ended := strings.Cut(after, "\n<!-- end -->")
	if want := refusals.Markdown(refusals.List()); !found || !ended || got != want {
		t.Errorf("the README has between its marks\n%s\nwant\n%s", got, want)
	}
}
