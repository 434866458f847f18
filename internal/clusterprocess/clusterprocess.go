// Package clusterprocess runs examples/cluster as a separate process, for tests and measurements that kill it, measure
// its memory or use it from outside.
package clusterprocess

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/client/kubeconfig"
)

// Program is a built examples/cluster.
type Program struct {
	path string
	user uint32 // 0 means the user that starts it
}

// As returns the program to be run as another user, which requires root.
func (p Program) As(user uint32) Program {
	p.user = user
	return p
}

func (p Program) command(ctx context.Context, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, p.path, args...)
	if p.user != 0 {
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: p.user, Gid: p.user}}
	}
	return c
}

// Build compiles the program into dir.
func Build(ctx context.Context, dir string) (Program, error) {
	path, err := filepath.Abs(filepath.Join(dir, "cluster"))
	if err != nil {
		return Program{}, err
	}
	// Callers in other modules have other versions of its dependencies.
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/keelson-dev/keelson").Output()
	if err != nil {
		return Program{}, fmt.Errorf("find the repository: %w", err)
	}
	out, err := exec.CommandContext(ctx, "go", "build", "-C", strings.TrimSpace(string(root)), "-o", path, "./examples/cluster").CombinedOutput()
	if err != nil {
		return Program{}, fmt.Errorf("build examples/cluster: %w\n%s", err, out)
	}
	return Program{path: path}, nil
}

// Process is a running cluster. The caller of Start must call Kill or Interrupt.
type Process struct {
	Kubeconfig string
	URL        string
	// Ready is the time from the start of the process until it printed that it was ready.
	Ready time.Duration

	command *exec.Cmd
	output  *output
	done    chan struct{}
	err     error
}

// readyWithin bounds the wait for a start, generously.
const readyWithin = time.Minute

// Start runs the program on a data directory and waits until it prints that it is ready. args are further flags;
// without --listen among them it uses a free port of the loopback interface.
func (p Program) Start(ctx context.Context, dir string, args ...string) (*Process, error) {
	full := []string{"--data-dir", dir, "--kubeconfig", filepath.Join(dir, "kubeconfig")}
	if !strings.Contains(strings.Join(args, " "), "--listen") {
		full = append(full, "--listen", "127.0.0.1:0")
	}
	began := time.Now()
	r := &Process{
		Kubeconfig: filepath.Join(dir, "kubeconfig"), command: p.command(ctx, append(full, args...)...),
		output: &output{ready: make(chan string, 1)}, done: make(chan struct{}),
	}
	r.command.Stdout, r.command.Stderr = r.output, r.output
	if err := r.command.Start(); err != nil {
		return nil, fmt.Errorf("start cluster: %w", err)
	}
	go func() {
		r.err = r.command.Wait()
		close(r.done)
	}()
	select {
	case r.URL = <-r.output.ready:
		r.Ready = time.Since(began)
		return r, nil
	case <-r.done:
		return nil, fmt.Errorf("cluster ended before it was ready: %w\n%s", r.err, r.Output())
	case <-time.After(readyWithin):
		return nil, errors.Join(fmt.Errorf("cluster was not ready within %v\n%s", readyWithin, r.Output()), r.Kill())
	}
}

// Fail runs the program, which is expected to end by itself, and returns its output and exit code.
func (p Program) Fail(ctx context.Context, args ...string) (text string, code int, err error) {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	command := p.command(ctx, args...)
	out, err := command.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return "", 0, fmt.Errorf("run cluster: %w", err)
	}
	return string(out), command.ProcessState.ExitCode(), nil
}

// Config returns a configuration for clients that act as the cluster's administrator, without client-side rate limits.
func (r *Process) Config() (*rest.Config, error) {
	access, err := kubeconfig.Load(kubeconfig.Options{Path: r.Kubeconfig})
	if err != nil {
		return nil, err
	}
	access.Config.QPS = -1
	access.Config.WarningHandler = rest.NoWarnings{}
	return access.Config, nil
}

// PID returns the process ID.
func (r *Process) PID() int { return r.command.Process.Pid }

// Output returns what the process has printed so far, or the last part of it.
func (r *Process) Output() string { return r.output.text() }

// Kill ends the process at once, like kill -9, and waits for it.
func (r *Process) Kill() error {
	if err := r.command.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-r.done
	return nil
}

// Signal sends the process a signal that must not end it.
func (r *Process) Signal(s os.Signal) error { return r.command.Process.Signal(s) }

// Interrupt ends the process like Ctrl-C, and returns how it ended: nil for exit code 0.
func (r *Process) Interrupt() error {
	if err := r.command.Process.Signal(os.Interrupt); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-r.done
	if r.err != nil {
		return fmt.Errorf("%w\n%s", r.err, r.Output())
	}
	return nil
}

// output keeps the last part of what was printed and finds the line that reports readiness.
type output struct {
	ready chan string

	mu   sync.Mutex
	kept []byte
	told bool
}

const keep = 64 << 10

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.kept = append(o.kept, p...)
	if !o.told {
		lines := bufio.NewScanner(bytes.NewReader(o.kept))
		for lines.Scan() {
			if at := strings.Index(lines.Text(), "https://"); at >= 0 && strings.HasPrefix(lines.Text(), "ready in") && bytes.HasSuffix(o.kept, []byte("\n")) {
				o.told = true
				o.ready <- strings.TrimSpace(lines.Text()[at:])
			}
		}
	}
	if len(o.kept) > 2*keep {
		o.kept = bytes.Clone(o.kept[len(o.kept)-keep:])
	}
	return len(p), nil
}

func (o *output) text() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.kept)
}

var _ io.Writer = (*output)(nil)
