package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Each kind of damage is found, whichever module it is in, and an intact module passes.
func TestModules(t *testing.T) {
	good := map[string]string{"go.mod": "module example.com/good\n\ngo 1.26\n", "good.go": "package good\n", "good_test.go": "package good\n\nimport \"testing\"\n\nfunc TestFail(t *testing.T) { t.Fatal(\"tests are not run\") }\n"}
	for name, c := range map[string]struct {
		files   map[string]string
		compile bool
		bad     string
	}{
		"good":      {files: map[string]string{}, compile: true},
		"no source": {files: map[string]string{"go.mod": "module example.com/none\n\ngo 1.26\n"}, compile: true},
		"not required": {
			files: map[string]string{"go.mod": "module example.com/x\n\ngo 1.26\n", "x.go": "package x\n\nimport _ \"example.com/nothing\"\n"}, bad: "example.com/nothing",
		},
		"a test that does not compile": {
			files: map[string]string{"go.mod": "module example.com/x\n\ngo 1.26\n", "x.go": "package x\n", "x_test.go": "package x\n\nvar _ int = \"\"\n"}, bad: "x_test.go:3",
		},
		"what vet finds": {
			files: map[string]string{"go.mod": "module example.com/x\n\ngo 1.26\n", "x.go": "package x\n\nimport \"fmt\"\n\nfunc F() { fmt.Printf(\"%d\", \"\") }\n"}, bad: "x.go:5",
		},
		"what only the linker finds": {
			files:   map[string]string{"go.mod": "module example.com/x\n\ngo 1.26\n", "x.s": "", "x.go": "package x\n\nfunc missing()\n", "x_test.go": "package x\n\nimport \"testing\"\n\nfunc TestX(t *testing.T) { missing() }\n"},
			compile: true, bad: "missing",
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for module, files := range map[string]map[string]string{".": {"go.mod": "module example.com\n"}, "a/good": good, "b/it": c.files, "c/good": good} {
				for file, text := range files {
					path := filepath.Join(dir, module, file)
					if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
						t.Fatal(err)
					}
				}
			}
			for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}} {
				git := exec.Command("git", args...)
				git.Dir = dir
				if out, err := git.CombinedOutput(); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
			}
			t.Setenv("GOPROXY", "off")
			var out bytes.Buffer
			err := run(t.Context(), options{root: dir, compile: c.compile}, &out)
			if (err != nil) != (c.bad != "") || c.bad != "" && (!errors.Is(err, errModule) || !strings.Contains(err.Error(), "b/it: ") || !strings.Contains(err.Error(), c.bad)) {
				t.Errorf("run: %v", err)
			}
			if strings.Count(out.String(), "ok ") < 2 || !strings.Contains(out.String(), "c/good") {
				t.Errorf("it did not go on:\n%s", out.String())
			}
			if err := run(t.Context(), options{root: dir, listed: "b/it"}, &out); (err != nil) != (name == "not required") {
				t.Errorf("listed: %v", err)
			}
			if err := run(t.Context(), options{root: dir, only: "nothing"}, &out); !errors.Is(err, errNone) {
				t.Errorf("nothing to check: %v", err)
			}
		})
	}
}
