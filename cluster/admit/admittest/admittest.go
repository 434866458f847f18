// Package admittest runs files of cases of package admit as tests. The flag that has the files rewritten is the caller's:
//
//	var update = flag.Bool("update", false, "write what became of the cases as what they want")
//
//	func TestPolicies(t *testing.T) { admittest.Files(t, "testdata/*.yaml", *update, admit.Options{}) }
package admittest

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/keelson-dev/keelson/cluster/admit"
)

// Files runs the cases of all files that match the pattern, which must be at least one: each file is a subtest with a world of its
// own, made with the options, and each case a subtest of that. With update, files are rewritten as Suite.Update says, and no
// case fails.
func Files(t *testing.T, pattern string, update bool, o admit.Options) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no files match %s: %v", pattern, err)
	}
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) { file(t, path, update, o) })
	}
}

func file(t *testing.T, path string, update bool, o admit.Options) {
	t.Helper()
	s, err := admit.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	w, err := s.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}()
	cases, err := s.Cases()
	if err != nil {
		t.Fatal(err)
	}
	var all []admit.Outcome
	for _, c := range cases {
		// Those that are kept matter to the following ones: all run, whichever subtests are selected.
		o, err := c.Run(t.Context(), w)
		if err != nil {
			t.Fatalf("%s:%d: %s: %v", path, c.Line, c.Name, err)
		}
		all = append(all, o)
		t.Run(c.Name, func(t *testing.T) {
			if update {
				return
			}
			for _, d := range o.Differences {
				t.Errorf("%s:%d: want %s", path, c.Line, d)
			}
		})
	}
	if update {
		rewrite(t, s, path, all)
	}
}

func rewrite(t *testing.T, s *admit.Suite, path string, all []admit.Outcome) {
	t.Helper()
	text, err := s.Update(all)
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(before, text) {
		return
	}
	info, err := os.Stat(path)
	if err == nil {
		err = os.WriteFile(path, text, info.Mode().Perm())
	}
	if err != nil {
		t.Fatal(err)
	}
}
