package depcheck_test

import (
	"go/doc/comment"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Package documentation names the packages below it: every package that can be imported, or the one in between.
func TestSubpackagesAreNamed(t *testing.T) {
	own, _ := tree(t)
	for _, rel := range sorted(own) {
		if !public(rel) {
			continue
		}
		text := documentation(t, own[rel])
		for _, below := range sorted(own) {
			name, ok := strings.CutPrefix(below, rel+"/")
			if !ok || !public(below) {
				continue
			}
			child, _, deeper := strings.Cut(name, "/")
			if _, between := own[rel+"/"+child]; deeper && between {
				continue // the one in between names it
			}
			if !regexp.MustCompile(`(^|[^\w-])` + regexp.QuoteMeta(name) + `($|[^\w-])`).MatchString(text) {
				t.Errorf("the documentation of %s does not name %s", rel, name)
			}
		}
	}
}

// public reports whether a package is part of the library and can be imported by others.
func public(rel string) bool {
	parts := strings.Split(rel, "/")
	return !slices.Contains(parts, "internal") && !slices.Contains([]string{"bench", "conformance", "examples"}, parts[0])
}

// documentation is what go doc shows for a package, in plain text.
func documentation(t *testing.T, p pkg) string {
	t.Helper()
	var text strings.Builder
	for _, name := range p.GoFiles {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if file.Doc != nil {
			text.Write(new(comment.Printer).Text(new(comment.Parser).Parse(file.Doc.Text())))
		}
	}
	return text.String()
}

// The targets of links in pages exist, including parts of pages.
func TestLinks(t *testing.T) {
	root := filepath.Join("..", "..")
	pages, err := filepath.Glob(filepath.Join(root, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	below, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	decisions, err := filepath.Glob(filepath.Join(root, "docs", "*", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	links := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	found := 0
	for _, page := range slices.Concat(pages, below, decisions) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, link := range links.FindAllStringSubmatch(string(text), -1) {
			path, part, _ := strings.Cut(link[1], "#")
			if strings.Contains(path, "://") {
				continue
			}
			found++
			target := page
			if path != "" {
				target = filepath.Join(filepath.Dir(page), path)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s: %v", page, link[1], err)
			} else if part != "" && !slices.Contains(parts(t, target), part) {
				t.Errorf("%s links to %s, which has no such part", page, link[1])
			}
		}
	}
	if found < 50 {
		t.Errorf("only %d links were looked at", found)
	}
}

// parts returns the anchors of a page's headings.
func parts(t *testing.T, page string) []string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(string(text), -1) {
		words := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(heading[1]), "")
		all = append(all, strings.ReplaceAll(words, " ", "-"))
	}
	return all
}
