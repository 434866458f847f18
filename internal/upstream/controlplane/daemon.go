package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/keelson-dev/keelson/internal/pause"
)

// ErrEnded means that a program is not running, or repeatedly ends by itself.
var ErrEnded = errors.New("it ends by itself")

const (
	// mostStarts is how often to start a program before giving up.
	mostStarts = 20
	// again is the delay before a restart.
	again = 100 * time.Millisecond
	// leave is how long it may take to exit when asked to.
	leave = 10 * time.Second
)

// Daemon is a program that is restarted when it ends. It is safe for concurrent use.
type Daemon struct {
	program, log string
	args         []string
	cancel       context.CancelFunc
	done         chan struct{}

	mu      sync.Mutex
	process *os.Process
	err     error
}

// StartDaemon starts a program that writes to a log. The caller must call Stop.
func StartDaemon(program string, args []string, log string) *Daemon {
	ctx, cancel := context.WithCancel(context.Background())
	d := &Daemon{program: program, args: args, log: log, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(d.done)
		d.keep(ctx)
	}()
	return d
}

func (d *Daemon) keep(ctx context.Context) {
	for range mostStarts {
		err := d.run(ctx)
		d.set(nil, nil)
		if ctx.Err() != nil {
			return
		}
		if pause.For(ctx, again) != nil {
			return
		}
		d.set(nil, err)
	}
	d.set(nil, fmt.Errorf("%s: %w, %d times\n%s", filepath.Base(d.program), ErrEnded, mostStarts, last(d.log)))
}

// Done returns a channel that is closed when the program was stopped or given up.
func (d *Daemon) Done() <-chan struct{} { return d.done }

// run runs the program once.
func (d *Daemon) run(ctx context.Context) error {
	log, err := os.OpenFile(d.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	command := exec.CommandContext(ctx, d.program, d.args...)
	command.Stdout, command.Stderr = log, log
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = leave
	if err = command.Start(); err == nil {
		d.set(command.Process, nil)
		err = command.Wait()
	}
	return errors.Join(err, log.Close())
}

func (d *Daemon) set(p *os.Process, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.process, d.err = p, err
}

// PID returns the ID of the running process, or ErrEnded.
func (d *Daemon) PID() (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.process == nil {
		return 0, fmt.Errorf("%s does not run: %w\n%s", filepath.Base(d.program), errors.Join(d.err, ErrEnded), last(d.log))
	}
	return d.process.Pid, nil
}

// Stop stops the program and returns why it was given up, if it was.
func (d *Daemon) Stop() error {
	d.cancel()
	<-d.done
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

// last returns the end of a program's output.
func last(log string) string {
	text, err := os.ReadFile(log)
	if err != nil {
		return err.Error()
	}
	const enough = 3000
	return strings.TrimSpace(string(text[max(0, len(text)-enough):]))
}
