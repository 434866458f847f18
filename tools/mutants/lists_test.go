package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/keelson-dev/keelson/tools/mutants/schemata"
)

// The committed lists only name existing code: a file that moves takes its lines with it.
func TestListsAreOfWhatThereIs(t *testing.T) {
	listed, err := readFile("survivors.tsv", parseSurvivors)
	if err != nil {
		t.Fatal(err)
	}
	settings, err := readFile("packages.tsv", parseSettings)
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join("..", "..")
	packages := map[string]bool{}
	exists := func(pkg string) bool {
		info, err := os.Stat(filepath.Join(root, filepath.FromSlash(pkg)))
		return err == nil && info.IsDir()
	}
	for id := range listed {
		if !exists(id.pkg) {
			t.Errorf("survivors.tsv: there is no package %s", id.pkg)
		} else {
			packages["./"+id.pkg] = true
		}
	}
	for pkg, s := range settings {
		for _, named := range append([]string{pkg}, s.also...) {
			if named = strings.TrimPrefix(named, module); !exists(named) {
				t.Errorf("packages.tsv: there is no package %s", named)
			}
		}
	}
	source, err := schemata.List(root, slices.Sorted(maps.Keys(packages))...)
	if err != nil {
		t.Fatal(err)
	}
	possible := map[identity]bool{}
	for _, path := range source.Packages() {
		p, err := source.Schemata(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range p.Mutants {
			possible[identityOf(m)] = true
		}
	}
	for id := range listed {
		if packages["./"+id.pkg] && !possible[id] {
			t.Errorf("survivors.tsv: no longer exists: %s", strings.ReplaceAll(id.String(), "\t", " "))
		}
	}
}
