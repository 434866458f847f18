package depcheck_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/keelson-dev/keelson"

// everything marks packages that assemble the parts and may import all of them.
const everything = "*"

type pkg struct {
	ImportPath, Dir, Doc string
	GoFiles              []string
	Imports, Deps        []string
	Standard             bool
}

// tree holds this module's packages by path below its root, and their import closures.
func tree(t *testing.T) (own map[string]pkg, all map[string]pkg) {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Dir,Doc,GoFiles,Imports,Deps,Standard", module+"/...")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	own, all = map[string]pkg{}, map[string]pkg{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		all[p.ImportPath] = p
		if rel, ok := strings.CutPrefix(p.ImportPath, module+"/"); ok {
			own[rel] = p
			touch(t, p)
		}
	}
	return own, all
}

// touch tells the go command what this test depends on, so that it does not use a cached result after a file has
// changed.
func touch(t *testing.T, p pkg) {
	t.Helper()
	for _, name := range append([]string{"", ".."}, p.GoFiles...) {
		if _, err := os.Stat(filepath.Join(p.Dir, name)); err != nil {
			t.Error(err)
		}
	}
}

func TestTree(t *testing.T) {
	own, all := tree(t)
	for _, rows := range []map[string][]string{siblings(), behind()} {
		for rel := range rows {
			if _, ok := own[rel]; !ok && !slices.ContainsFunc(sorted(own), func(p string) bool { return strings.HasPrefix(p, rel+"/") }) {
				t.Errorf("there is no %s, which has a row", rel)
			}
		}
	}
	for _, rel := range sorted(own) {
		p := own[rel]
		if p.Doc == "" {
			t.Errorf("%s has no package documentation", rel)
		}
		checkSiblings(t, rel, p)
		checkLeaves(t, rel, p)
		checkBehind(t, rel, p)
		foreign := 0
		for _, dep := range p.Deps {
			if !all[dep].Standard && !strings.HasPrefix(dep, module+"/") {
				foreign++
			}
		}
		if limit, ok := limitOf(rel); !ok {
			t.Errorf("%s is built from %d foreign packages and has no limit here", rel, foreign)
		} else if foreign > limit {
			t.Errorf("%s is built from %d foreign packages, at most %d allowed", rel, foreign, limit)
		}
	}
}

func checkSiblings(t *testing.T, rel string, p pkg) {
	t.Helper()
	top, _, _ := strings.Cut(rel, "/")
	allowed, ok := nearest(siblings(), rel)
	if !ok {
		t.Errorf("%s: no row says what it may import", rel)
	}
	for _, path := range p.Imports {
		if top == "examples" && strings.HasPrefix(path, module+"/internal/") {
			t.Errorf("%s imports %s: whoever copies an example cannot", rel, path)
		}
	}
	if slices.Contains(allowed, everything) {
		return
	}
	for _, path := range p.Imports {
		sibling, ours := strings.CutPrefix(path, module+"/")
		if !ours || sibling == top || strings.HasPrefix(sibling, top+"/") {
			continue
		}
		if !slices.ContainsFunc(append(anyone(), allowed...), func(a string) bool { return covers(a, sibling) }) {
			t.Errorf("%s must not import %s", rel, sibling)
		}
	}
}

func checkBehind(t *testing.T, rel string, p pkg) {
	t.Helper()
	allowed, ok := behind()[rel]
	for _, dep := range p.Deps {
		if own, ours := strings.CutPrefix(dep, module+"/"); ok && ours && !slices.Contains(allowed, own) && !slices.Contains(anyone(), own) {
			t.Errorf("%s must not be built from %s", rel, own)
		}
	}
}

func checkLeaves(t *testing.T, rel string, p pkg) {
	t.Helper()
	for prefix, users := range leaves() {
		for _, path := range p.Imports {
			if path != prefix && !strings.HasPrefix(path, prefix+"/") {
				continue
			}
			if !slices.ContainsFunc(users, func(u string) bool { return covers(u, rel) }) {
				t.Errorf("%s must not import %s", rel, path)
			}
		}
	}
}

// covers reports whether an entry applies to a package: it is the package's path or, with a trailing slash, a path
// above it.
func covers(entry, rel string) bool {
	return rel == entry || strings.HasSuffix(entry, "/") && strings.HasPrefix(rel, entry)
}

func limitOf(rel string) (int, bool) { return nearest(limits(), rel) }

// nearest returns the row of a package, or of the nearest path above it.
func nearest[T any](rows map[string]T, rel string) (row T, ok bool) {
	for at := rel; ; {
		if row, ok = rows[at]; ok {
			return row, true
		}
		cut := strings.LastIndex(at, "/")
		if cut < 0 {
			return row, false
		}
		at = at[:cut]
	}
}

func sorted(own map[string]pkg) []string {
	var names []string
	for name := range own {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
