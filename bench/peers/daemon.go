package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// errEnded: a program ends by itself again and again.
var errEnded = errors.New("it ends by itself")

const (
	// mostStarts is how often a program is started before it is given up.
	mostStarts = 20
	// again is how long after its end it is started again.
	again = 100 * time.Millisecond
	// leave is how long it has to end when it is asked to.
	leave = 10 * time.Second
)

// daemon is a program that is started again when it ends.
type daemon struct {
	program, log string
	args         []string
	cancel       context.CancelFunc
	done         chan struct{}

	mu      sync.Mutex
	process *os.Process
	err     error
}

// startDaemon starts a program that writes to a log. Whoever calls it calls stop.
func startDaemon(program string, args []string, log string) *daemon {
	ctx, cancel := context.WithCancel(context.Background())
	d := &daemon{program: program, args: args, log: log, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(d.done)
		d.keep(ctx)
	}()
	return d
}

func (d *daemon) keep(ctx context.Context) {
	for range mostStarts {
		err := d.run(ctx)
		d.set(nil, nil)
		if ctx.Err() != nil {
			return
		}
		if pause(ctx, again) != nil {
			return
		}
		d.set(nil, err)
	}
	d.set(nil, fmt.Errorf("%s: %w, %d times\n%s", filepath.Base(d.program), errEnded, mostStarts, last(d.log)))
}

// run runs the program once.
func (d *daemon) run(ctx context.Context) error {
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

func (d *daemon) set(p *os.Process, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.process, d.err = p, err
}

// pid is the number of the process that runs.
func (d *daemon) pid() (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.process == nil {
		return 0, fmt.Errorf("%s does not run: %w\n%s", filepath.Base(d.program), errors.Join(d.err, errEnded), last(d.log))
	}
	return d.process.Pid, nil
}

// stop ends the program and returns why it was given up, if it was.
func (d *daemon) stop() error {
	d.cancel()
	<-d.done
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}
