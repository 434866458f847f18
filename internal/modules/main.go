// Modules vets every module in the repository below its root, including tests, and with -compile also compiles and
// links the tests. go vet type-checks everything it vets and its imports; it misses problems in assembly and those that
// only the linker finds.
//
//	go run ./internal/modules [-compile] [-only REGEXP] [-listed REGEXP]
//
// It continues after a module that fails, and prints how long each took.
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

func main() {
	compile := flag.Bool("compile", false, "compile and link tests as well, and run none")
	only := flag.String("only", "", "regular expression of the directories of modules")
	listed := flag.String("listed", "", "regular expression of the directories of modules of which it is only asked whether all that they import is there")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, options{root: ".", only: *only, listed: *listed, compile: *compile}, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type options struct {
	root, only, listed string
	compile            bool
}

var (
	// errNone means that no module was selected, which is a mistake.
	errNone = errors.New("no module is below the root that is in git and matches")
	// errModule means that a module is broken.
	errModule = errors.New("module does not build")
)

func run(ctx context.Context, o options, out io.Writer) error {
	only, err := regexp.Compile(o.only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	listed, err := regexp.Compile(cmp.Or(o.listed, "^$"))
	if err != nil {
		return fmt.Errorf("-listed: %w", err)
	}
	list := exec.CommandContext(ctx, "git", "ls-files", "--", "*/go.mod")
	list.Dir = o.root
	names, err := list.Output()
	if err != nil {
		return fmt.Errorf("git ls-files: %w", err)
	}
	var failures []error
	checked := 0
	for _, name := range strings.Fields(string(names)) {
		dir := path.Dir(name)
		if !only.MatchString(dir) {
			continue
		}
		checked++
		began := time.Now()
		cpu, err := check(ctx, filepath.Join(o.root, filepath.FromSlash(dir)), listed.MatchString(dir), o.compile)
		word := "ok"
		if err != nil {
			word = "FAILED"
			failures = append(failures, fmt.Errorf("%s: %w", dir, err))
		}
		fmt.Fprintf(out, "%-40s %-6s %6.0f s, %6.0f s of CPU\n", dir, word, time.Since(began).Seconds(), cpu.Seconds())
	}
	if checked == 0 {
		return errNone
	}
	return errors.Join(failures...)
}

// check checks the module in a directory and returns how much CPU that took.
func check(ctx context.Context, dir string, listed, compile bool) (cpu time.Duration, err error) {
	// Everything that the module's tools are built from must be in go.mod and go.sum, even if there is nothing to vet.
	// For packages and tests, vet checks that.
	if _, err := command(ctx, dir, &cpu, "list", "-deps", "tool"); err != nil {
		return cpu, err
	}
	packages, err := command(ctx, dir, &cpu, "list", "-test", "-deps", "./...")
	if err != nil || listed || len(bytes.TrimSpace(packages)) == 0 {
		return cpu, err
	}
	if _, err := command(ctx, dir, &cpu, "vet", "./..."); err != nil || !compile {
		return cpu, err
	}
	_, err = command(ctx, dir, &cpu, "test", "-exec", "true", "./...")
	return cpu, err
}

// command runs the go command and returns its output; an error includes its messages.
func command(ctx context.Context, dir string, cpu *time.Duration, args ...string) ([]byte, error) {
	c := exec.CommandContext(ctx, "go", args...)
	c.Dir = dir
	var said, complaints bytes.Buffer
	c.Stdout, c.Stderr = &said, &complaints
	err := c.Run()
	if c.ProcessState != nil {
		*cpu += c.ProcessState.UserTime() + c.ProcessState.SystemTime()
	}
	if err != nil {
		return nil, fmt.Errorf("%w: go %s: %w\n%s%s", errModule, strings.Join(args, " "), err, said.Bytes(), complaints.Bytes())
	}
	return said.Bytes(), nil
}
