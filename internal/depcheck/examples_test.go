package depcheck_test

import (
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	pathpkg "path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestExamples checks that readers can copy and compile the Examples of public packages: they import nothing internal
// and use nothing that another file of the package's tests declares.
func TestExamples(t *testing.T) {
	const root = "../.."
	name, seen := regexp.MustCompile(`^example.*_test\.go$|_example_test\.go$`), 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if n := d.Name(); n == "internal" || n == "testdata" || n == "bin" || strings.HasPrefix(n, ".") && path != root {
				return filepath.SkipDir
			}
			return nil
		}
		if !name.MatchString(d.Name()) {
			return nil
		}
		seen++
		for _, imported := range importsOf(t, path) {
			if strings.HasPrefix(imported, module+"/") && strings.Contains(imported+"/", "/internal/") {
				t.Errorf("%s imports %s, which its readers cannot", path, imported)
			}
		}
		if missing := undeclared(t, path); len(missing) > 0 {
			t.Errorf("%s uses %v, which other test files declare", path, missing)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < 50 {
		t.Errorf("only %d files of Examples were found", seen)
	}
}

func importsOf(t *testing.T, path string) []string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, spec := range f.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, imported)
	}
	return all
}

// undeclared are the names that a file uses and another file of its package has to declare. An Example of the package
// itself, rather than of its users, may use what the package declares.
func undeclared(t *testing.T, path string) []string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(f.Name.Name, "_test") {
		t.Errorf("%s is of package %s: readers are outside", path, f.Name.Name)
	}
	known := map[string]bool{}
	for _, spec := range f.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		base := pathpkg.Base(imported)
		if regexp.MustCompile(`^v[0-9]+$`).MatchString(base) { // a major version
			base = pathpkg.Base(pathpkg.Dir(imported))
		}
		known[base] = true
		if spec.Name != nil {
			known[spec.Name.Name] = true
		}
	}
	var missing []string
	for _, name := range f.Unresolved {
		if !known[name.Name] && types.Universe.Lookup(name.Name) == nil && !slices.Contains(missing, name.Name) {
			missing = append(missing, name.Name)
		}
	}
	return missing
}
