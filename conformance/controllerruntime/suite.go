package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// limit is how long a suite may take.
const limit = 20 * time.Minute

// workplace is where suites are built and run.
type workplace struct {
	cache  string // copies of modules, and what the suites said
	assets string // the programs
}

// errNoTests means that a suite ran no test.
var errNoTests = errors.New("it ran no test")

// run builds and runs a suite. took is how long it ran, without the build.
func (w workplace) run(ctx context.Context, s suite) (counts counts, took time.Duration, err error) {
	dir, err := w.copy(ctx, s)
	if err != nil {
		return counts, 0, err
	}
	kept := filepath.Join(w.cache, "output", filepath.FromSlash(s.module), filepath.FromSlash(s.path))
	if err := os.MkdirAll(kept, 0o755); err != nil {
		return counts, 0, err
	}
	binary, report := filepath.Join(kept, "suite.test"), filepath.Join(kept, "report.json")
	if _, err := command(ctx, dir, "go", append(s.build(), "-o", binary, "./"+s.path)...); err != nil {
		return counts, 0, err
	}
	if err := os.Remove(report); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return counts, 0, err
	}
	began := time.Now()
	out, failed := w.execute(ctx, s, filepath.Join(dir, filepath.FromSlash(s.path)), binary, report)
	took = time.Since(began)
	if err := os.WriteFile(filepath.Join(kept, "output.txt"), out, 0o644); err != nil {
		return counts, took, err
	}
	if counts, err = s.read(out, report); err != nil {
		return counts, took, err
	}
	switch {
	case counts.passed+len(counts.failures) == 0:
		return counts, took, errors.Join(errNoTests, failed)
	case failed != nil && len(counts.failures) == 0: // it is not said which test it was
		return counts, took, failed
	}
	return counts, took, nil
}

// execute runs a suite as go test does, in its package's directory.
func (w workplace) execute(ctx context.Context, s suite, dir, binary, report string) ([]byte, error) {
	args := []string{"-test.v", "-test.timeout=" + limit.String()}
	uses, err := ginkgo(ctx, dir)
	if err != nil {
		return nil, err
	}
	if skip := s.skip(); skip != "" {
		args = append(args, "-test.skip="+skip)
		if uses {
			args = append(args, "-ginkgo.skip="+skip)
		}
	}
	if uses {
		args = append(args, "-ginkgo.no-color", "-ginkgo.json-report="+report)
	}
	c := exec.CommandContext(ctx, binary, args...)
	c.Dir = dir
	c.Env = append(os.Environ(), "KUBEBUILDER_ASSETS="+w.assets)
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	if err := c.Run(); err != nil {
		return out.Bytes(), fmt.Errorf("it ended with %w:\n%s", err, tail(out.String()))
	}
	return out.Bytes(), nil
}

// build returns the arguments that build a test.
func (s suite) build() []string {
	if s.sources {
		return []string{"test", "-c", "-trimpath=false"}
	}
	return []string{"test", "-c"}
}

// skip returns the regular expression of what is left out.
func (s suite) skip() string {
	var all []string
	for _, e := range s.without {
		all = append(all, e.names)
	}
	return strings.Join(all, "|")
}

// ginkgo reports whether a package's tests have Ginkgo's flags.
func ginkgo(ctx context.Context, dir string) (bool, error) {
	out, err := command(ctx, dir, "go", "list", "-test", "-deps", ".")
	return slices.Contains(strings.Fields(string(out)), "github.com/onsi/ginkgo/v2"), err
}

// copy copies the suite's module out of the module cache, unless it was before, and returns its directory.
func (w workplace) copy(ctx context.Context, s suite) (string, error) {
	dir := filepath.Join(w.cache, "modules", filepath.FromSlash(s.module)+"@"+s.version)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	fresh := dir + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return "", err
	}
	if err := download(ctx, s.module, s.version, fresh); err != nil {
		return "", err
	}
	for below, module := range s.nested {
		if err := download(ctx, module, s.version, filepath.Join(fresh, filepath.FromSlash(below))); err != nil {
			return "", err
		}
	}
	return dir, os.Rename(fresh, dir)
}

// download copies a module to a directory. Scripts are made executable, which they are not in the cache.
func download(ctx context.Context, module, version, to string) error {
	out, err := command(ctx, "", "go", "mod", "download", "-json", module+"@"+version)
	if err != nil {
		return err
	}
	var from struct{ Dir string }
	if err := json.Unmarshal(out, &from); err != nil {
		return fmt.Errorf("go mod download: %w", err)
	}
	return filepath.WalkDir(from.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from.Dir, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		if d.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o644)
		if bytes.HasPrefix(content, []byte("#!")) {
			mode = 0o755
		}
		return os.WriteFile(target, content, mode)
	})
}

// command runs a command and returns its output; an error has what it said.
func command(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir = dir
	c.Env = append(os.Environ(), "GOWORK=off")
	var out, said bytes.Buffer
	c.Stdout, c.Stderr = &out, &said
	if err := c.Run(); err != nil {
		return nil, fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, tail(said.String()))
	}
	return out.Bytes(), nil
}

// tail returns the end of a text.
func tail(s string) string {
	const enough = 800
	if len(s) > enough {
		return "…" + strings.ToValidUTF8(s[len(s)-enough:], "")
	}
	return s
}
