// Racetests runs the tests of packages under the race detector, the long ones shortened.
//
//	go run ./internal/racetests PACKAGE...
//
// The detector is C code, which was seen to crash by itself in tests with bubbles of testing/synctest
// (https://go.dev/issue/78156 is about another such crash). That ends the tests' program with a signal and says nothing
// about them, so the package is tested once more, and what comes of it then counts. Every other failure counts at once.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"strings"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, goTest, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

var (
	errNone   = errors.New("no package is named")
	errFailed = errors.New("tests failed under the race detector")
)

// tester runs the tests of packages, prints what go test does, and fails if any of them fails.
type tester func(ctx context.Context, packages []string, out io.Writer) error

func goTest(ctx context.Context, packages []string, out io.Writer) error {
	command := exec.CommandContext(ctx, "go", append([]string{"test", "-race", "-short"}, packages...)...)
	command.Stdout, command.Stderr = out, out
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	return command.Run()
}

func run(ctx context.Context, test tester, packages []string, out io.Writer) error {
	if len(packages) == 0 {
		return errNone
	}
	crashed, err := once(ctx, test, packages, out)
	if err == nil || len(crashed) == 0 || ctx.Err() != nil {
		return err
	}
	fmt.Fprintf(out, "the race detector crashed in the tests of these packages, which run once more: %s\n", strings.Join(crashed, " "))
	_, err = once(ctx, test, crashed, out)
	return err
}

// once tests the packages. If all that failed did so because the detector crashed, it returns them beside the error.
func once(ctx context.Context, test tester, packages []string, out io.Writer) (crashed []string, err error) {
	var seen verdicts
	if err := test(ctx, packages, io.MultiWriter(out, &seen)); err != nil {
		err = fmt.Errorf("%w: %w", errFailed, err)
		if seen.failed {
			return nil, err
		}
		return seen.crashed, err
	}
	return nil, nil
}

var (
	// signalled is what the runtime prints of a signal that the kernel sent while C code ran; a signal that somebody
	// sent, as go test does after its time-out, has the code 0.
	signalled = regexp.MustCompile(`^PC=0x[0-9a-f]+ m=\d+ sigcode=[1-9]`)
	found     = regexp.MustCompile(`^\s*--- FAIL: |^WARNING: DATA RACE`)
	outcome   = regexp.MustCompile(`^(ok  |FAIL|\?   )\t(\S+)`)
)

// verdicts reads what go test prints: for every package what its tests printed, and a line with its outcome.
type verdicts struct {
	failed  bool     // at least one package failed, and not by a crash alone
	crashed []string // the packages that failed by a crash alone
	line    []byte
	// Of the package whose tests print now:
	signal, finding bool
}

func (v *verdicts) Write(p []byte) (int, error) {
	for _, c := range p {
		if c != '\n' {
			v.line = append(v.line, c)
			continue
		}
		v.read(v.line)
		v.line = v.line[:0]
	}
	return len(p), nil
}

func (v *verdicts) read(line []byte) {
	v.signal = v.signal || signalled.Match(line)
	v.finding = v.finding || found.Match(line)
	words := outcome.FindSubmatch(line)
	if words == nil {
		return
	}
	if string(words[1]) == "FAIL" {
		if v.signal && !v.finding {
			v.crashed = append(v.crashed, string(words[2]))
		} else {
			v.failed = true
		}
	}
	v.signal, v.finding = false, false
}
