package evidence_test

import (
	"slices"
	"testing"

	"github.com/keelson-dev/keelson/internal/evidence"
)

// Only changes to data and to what the compiler reads count as changes.
func TestChanged(t *testing.T) {
	const before = "// Package storage stores.\npackage storage\n\n//go:embed a\nvar a string\n\nfunc f() { /* nothing */ }\n"
	for name, c := range map[string]struct {
		path, before, after string
		want                bool
	}{
		"comments":                 {"storage/a.go", before, "// Package storage keeps.\n\npackage storage\n\n//go:embed a\nvar a string // a\n\nfunc f() {\n}\n", false},
		"code":                     {"storage/a.go", before, before + "var b int\n", true},
		"a name":                   {"storage/a.go", before, "package storage\n\n//go:embed a\nvar b string\n\nfunc f() {}\n", true},
		"a text":                   {"storage/a.go", "package a\n\nconst a = \"// b\"\n", "package a\n\nconst a = \"// c\"\n", true},
		"a directive":              {"storage/a.go", before, "package storage\n\n//go:embed b\nvar a string\n\nfunc f() {}\n", true},
		"a new file":               {"storage/b.go", "", "package storage\n", true},
		"a page":                   {"storage/README.md", "a\n", "b\n", false},
		"data":                     {"storage/a.txt", "a\n", "b\n", true},
		"a test":                   {"storage/a_test.go", "package a\n", "package b\n", false},
		"a test kit":               {"storage/storagetest/a.go", "package a\n", "package b\n", false},
		"a benchmark":              {"bench/a_test.go", "package a\n", "package b\n", true},
		"a test's data":            {"storage/testdata/a", "a\n", "b\n", false},
		"a file outside the paths": {"registry/a.go", "package a\n", "package b\n", false},
	} {
		r := repository{t, t.TempDir()}
		r.git("init", "-q", "-b", "main")
		r.write("storage/other.go", "package storage\n")
		if c.before != "" {
			r.write(c.path, c.before)
		}
		r.commit("before")
		commit := r.git("rev-parse", "HEAD")
		r.write(c.path, c.after)
		r.write("results/a.json", "{}")
		r.commit("after")
		got, err := evidence.Changed(r.dir, commit, evidence.Measured, "storage", "bench")
		if want := []string{c.path}; err != nil || slices.Equal(got, want) != c.want || !c.want && len(got) > 0 {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	r := repository{t, t.TempDir()}
	r.git("init", "-q", "-b", "main")
	r.write("storage/a.go", "package storage\n")
	r.commit("before")
	commit := r.git("rev-parse", "HEAD")
	r.git("rm", "-q", "storage/a.go")
	r.git("commit", "-q", "-m", "removed")
	if got, err := evidence.Changed(r.dir, commit, evidence.Measured, "."); err != nil || len(got) != 1 {
		t.Errorf("a file that is gone: %q, %v", got, err)
	}
	if _, err := evidence.Changed(r.dir, "0123456789ab", evidence.Measured, "."); err == nil {
		t.Error("a commit that is not in the history is one")
	}
}
