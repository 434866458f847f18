package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// outcome is how a step ended.
type outcome string

const (
	passed      outcome = "passed"
	failed      outcome = "failed"
	timedOut    outcome = "timed out"
	interrupted outcome = "interrupted"
	didNotRun   outcome = "did not run"
	leftOut     outcome = "left out"
)

// errNotProven means that a step failed or did not run.
var errNotProven = errors.New("not everything is proven")

// proofs runs steps and records their outcomes.
type proofs struct {
	root, logs string
	// limit applies to all steps together; grace is how long a step may take to stop when interrupted.
	limit, grace  time.Duration
	out           io.Writer
	page, results string
	// commit is the commit that the steps run on; dirty is set if there are uncommitted changes.
	commit string
	dirty  *bool
	// former are the directories with the reports of earlier runs, of all steps and of some.
	former []string
	// resume keeps earlier successes if nothing that they are about has changed since.
	resume bool
	// changed lists the files that a step is about and that have changed since a commit.
	changed func(commit string, s step) ([]string, error)
}

// run runs all steps, even if earlier ones fail. The page is written after each, so that a killed run leaves a page
// that says what did not run.
func (p *proofs) run(ctx context.Context, steps []step) error {
	w, err := p.newReport(steps)
	if err != nil {
		return err
	}
	if err := errors.Join(os.MkdirAll(p.logs, 0o755), w.write()); err != nil {
		return err
	}
	ends := time.Now().Add(p.limit - w.taken())
	for i, s := range steps {
		if o := w.Steps[i].Outcome; o == leftOut || o == passed {
			continue
		}
		fmt.Fprintf(p.out, "%s %-28s %s\n", time.Now().Format(time.TimeOnly), s.name, s.words())
		began := time.Now()
		done := &w.Steps[i]
		done.Outcome, done.Reason = p.step(ctx, s, ends)
		done.Commit = p.commit
		done.Seconds = time.Since(began).Round(time.Second).Seconds()
		done.Figures = p.figures(s, done.Outcome)
		fmt.Fprintf(p.out, "%s %-28s %s %s\n", time.Now().Format(time.TimeOnly), s.name, done.Outcome, done.Reason)
		if err := w.write(); err != nil {
			return err
		}
	}
	if bad := w.failures(); len(bad) > 0 {
		return fmt.Errorf("%w:\n%s", errNotProven, strings.Join(bad, "\n"))
	}
	return nil
}

// step runs one step and returns its outcome and, unless it passed, the reason.
func (p *proofs) step(ctx context.Context, s step, ends time.Time) (outcome, string) {
	if ctx.Err() != nil {
		return didNotRun, "the run was interrupted before"
	}
	if missing := p.missing(s); missing != "" {
		return didNotRun, missing
	}
	within := min(s.limit, time.Until(ends))
	if within <= 0 {
		return didNotRun, fmt.Sprintf("the %v for all steps were over", p.limit)
	}
	log, err := os.Create(p.log(s))
	if err != nil {
		return didNotRun, err.Error()
	}
	timed, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	err = errors.Join(p.command(timed, s, log), log.Close())
	switch {
	case err == nil:
		return passed, ""
	case ctx.Err() != nil:
		return interrupted, "by a signal"
	case timed.Err() != nil:
		return timedOut, fmt.Sprintf("after %v", within.Round(time.Second))
	}
	return failed, err.Error() + lastLine(p.log(s))
}

// missing returns what prevents a step from running.
func (p *proofs) missing(s step) string {
	for _, name := range append([]string{s.command[0]}, s.needs...) {
		if strings.Contains(name, "/") && name != s.command[0] {
			if _, err := os.Stat(filepath.Join(p.root, name)); err != nil {
				return "there is no " + name
			}
		} else if _, err := exec.LookPath(name); err != nil {
			return fmt.Sprintf("there is no program %s", name)
		}
	}
	if s.root && (runtime.GOOS != "linux" || os.Geteuid() != 0) {
		return "it takes real containers: root on Linux"
	}
	return ""
}

// command runs the step's command. When the context ends, everything that the command started is interrupted like with
// Ctrl-C, and killed after the grace period. Anything it leaves running when it ends by itself is killed too.
func (p *proofs) command(ctx context.Context, s step, log *os.File) error {
	command := exec.Command(s.command[0], s.command[1:]...) // CommandContext would kill only the command itself
	command.Dir = filepath.Join(p.root, s.dir)
	command.Env = append(os.Environ(), "CI=true") // fail what cannot run instead of skipping it
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := command.Start(); err != nil {
		return err
	}
	group := -command.Process.Pid
	var ended error
	done := make(chan struct{})
	go func() {
		ended = command.Wait()
		close(done)
	}()
	defer func() { _ = syscall.Kill(group, syscall.SIGKILL) }()
	select {
	case <-done:
		return ended
	case <-ctx.Done():
	}
	_ = syscall.Kill(group, syscall.SIGINT)
	select {
	case <-done:
	case <-time.After(p.grace):
		_ = syscall.Kill(group, syscall.SIGKILL)
		<-done
	}
	return ctx.Err()
}

func (p *proofs) log(s step) string { return filepath.Join(p.logs, s.name+".log") }

// lastLine returns the last line of a log.
func lastLine(log string) string {
	data, err := os.ReadFile(log)
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	if line := strings.TrimSpace(lines[len(lines)-1]); line != "" {
		return ": " + line
	}
	return ""
}
