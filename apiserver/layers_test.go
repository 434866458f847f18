package apiserver_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// layers are the files of this package, from the top down. A file refers to its own layer and those below it.
func layers() [][]string {
	return [][]string{
		{"server.go"},                // the assembly
		{"drain.go", "transport.go"}, // handlers and clients in front of a server
		{"chain.go"},                 // the order of the filters
		{"filter_*.go"},
		{"route.go"},
		{"dispatch.go"}, // the operation by verb and path
		{ // the operations
			"get.go", "list.go", "watch.go", "create.go", "update.go", "patch.go", "apply.go", "delete.go",
			"action.go", "scale.go", "connect.go",
			"discovery.go", "discovery_aggregated.go", "paths.go", "version.go",
		},
		{ // the steps that operations are made of
			"decode.go", "cbor_body.go", "audit_body.go", "managed_fields.go", "owner_references.go", "admit.go",
			"respond.go", "encode_list.go", "table.go", "pending.go",
		},
		{"call.go"}, // one request to one endpoint
		{"backend.go", "trackers.go"},
		{"catalog.go"},                // what is served at one time
		{"endpoint.go", "options.go"}, // one resource in one group-version
		{"exchange.go", "audited_request.go", "observe.go", "timed_writer.go", "trace.go"}, // one request in the chain
		{"decoder.go"},
		{"encode.go"},
		{"accept.go", "cbor.go", "status.go", "warning.go", "connector.go", "delegates.go", "protobuf.go", "request.go", "usernames.go"},
		{"doc.go"},
	}
}

// TestLayers checks that no file refers to one above it, and no filter to another: only the chain knows all filters.
func TestLayers(t *testing.T) {
	fset := token.NewFileSet()
	files, names := parsePackage(t, fset)
	layer := layersOf(t, names)
	for id, file := range uses(fset, files) {
		from, to := path.Base(fset.Position(id.Pos()).Filename), file
		switch {
		case layer[to] < layer[from]:
			t.Errorf("%s refers to %s of %s, which is above it", fset.Position(id.Pos()), id.Name, to)
		case from != to && strings.HasPrefix(from, "filter_") && strings.HasPrefix(to, "filter_"):
			t.Errorf("%s refers to %s of %s, another filter", fset.Position(id.Pos()), id.Name, to)
		}
	}
}

func parsePackage(t *testing.T, fset *token.FileSet) (files []*ast.File, names []string) {
	t.Helper()
	parsed, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range parsed {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files, names = append(files, f), append(names, name)
	}
	return files, names
}

// layersOf returns the layer of each file, of which each must have one.
func layersOf(t *testing.T, names []string) map[string]int {
	t.Helper()
	layer := map[string]int{}
	for n, patterns := range layers() {
		for _, pattern := range patterns {
			matched := false
			for _, name := range names {
				if ok, err := path.Match(pattern, name); err != nil || !ok {
					continue
				}
				matched, layer[name] = true, n
			}
			if !matched {
				t.Errorf("no file is %s", pattern)
			}
		}
	}
	for _, name := range names {
		if _, ok := layer[name]; !ok {
			t.Errorf("%s is in no layer", name)
		}
	}
	return layer
}

// uses returns where the package's identifiers are used, and the file that declares each. Other packages are not read:
// their identifiers do not resolve, which does not matter here.
func uses(fset *token.FileSet, files []*ast.File) map[*ast.Ident]string {
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: nothing{}, Error: func(error) {}}
	own, _ := config.Check("apiserver", fset, files, info) // the errors are about other packages
	all := map[*ast.Ident]string{}
	for id, o := range info.Uses {
		if o.Pkg() != own || o.Parent() != own.Scope() && !member(o) {
			continue
		}
		all[id] = path.Base(fset.Position(o.Pos()).Filename)
	}
	return all
}

// member tells whether an object is a method or a field.
func member(o types.Object) bool {
	switch o := o.(type) {
	case *types.Func:
		return o.Signature().Recv() != nil
	case *types.Var:
		return o.IsField()
	}
	return false
}

// nothing imports packages without their contents.
type nothing struct{}

func (nothing) Import(p string) (*types.Package, error) {
	if p == "" {
		return nil, fs.ErrNotExist
	}
	parts := strings.Split(p, "/")
	name := parts[len(parts)-1]
	if len(parts) > 1 && len(name) > 1 && name[0] == 'v' && !slices.ContainsFunc([]byte(name[1:]), func(b byte) bool { return b < '0' || b > '9' }) {
		name = parts[len(parts)-2]
	}
	pkg := types.NewPackage(p, name)
	pkg.MarkComplete()
	return pkg, nil
}
