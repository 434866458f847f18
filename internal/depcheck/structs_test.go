package depcheck_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"testing"
)

// maxFields is the maximum number of fields of a struct: one with more does several things.
const maxFields = 15

// wide lists the structs with more, each with its own maximum and the reason.
func wide() map[string]int {
	return map[string]int{
		"apiserver.Observation":     17, // a row of a log, not passed on
		"cluster.Options":           16, // everything that one can choose about a control plane
		"cri/runtimetest.Options":   16, // what the suite cannot know of a runtime
		"envtest.Environment":       23, // controller-runtime's, so that suites compile
		"registry.Kind":             21, // a declaration, written down once and never passed field by field
		"examples/cluster.settings": 25, // one per flag
		"examples/kubelet.settings": 18, // one per flag
		"node/kubeletconfig.file":   35, // a file's fields
	}
}

// TestFields checks the number of fields of structs.
func TestFields(t *testing.T) {
	own, _ := tree(t)
	seen := map[string]bool{}
	for _, rel := range sorted(own) {
		for _, name := range own[rel].GoFiles {
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(own[rel].Dir, name), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if spec, ok := n.(*ast.TypeSpec); ok {
					if s, ok := spec.Type.(*ast.StructType); ok {
						of := rel + "." + spec.Name.Name
						limit, exception := wide()[of]
						if exception {
							seen[of] = true
						}
						if n := s.Fields.NumFields(); n > max(limit, maxFields) || exception && n < limit {
							t.Errorf("%s has %d fields; the limit is %d", of, n, max(limit, maxFields))
						}
					}
				}
				return true
			})
		}
	}
	for of := range wide() {
		if !seen[of] {
			t.Errorf("there is no %s, which has a limit of its own", of)
		}
	}
}
