package simulated

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/keelson-dev/keelson/cri"
)

// mostLines is how many lines are returned at once.
const mostLines = 1000

// WriteLog makes a running container write lines to its stdout now, besides those of its Program.
func (r *Runtime) WriteLog(id, text string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, ok := r.containers[id]
	if !ok {
		return fmt.Errorf("container %q: %w", id, cri.ErrNotFound)
	}
	if c.status.State != cri.ContainerRunning {
		return fmt.Errorf("container %q is %s: %w", id, c.status.State, cri.ErrInvalid)
	}
	now := time.Now()
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		c.written = append(c.written, cri.LogLine{At: now, Text: line})
	}
	if c.wake != nil {
		close(c.wake)
		c.wake = nil
	}
	return nil
}

// OpenLog reads what the container has written by its Program and by WriteLog.
func (r *Runtime) OpenLog(ctx context.Context, id string) (cri.Log, error) {
	if err := r.perform(ctx, r.containerOperation(List, id)); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	c, ok := r.containers[id]
	if !ok {
		return nil, fmt.Errorf("container %q: %w", id, cri.ErrNotFound)
	}
	return &logReader{runtime: r, container: c}, nil
}

// logReader is one reader's place in a container's log: the lines of its program and the written ones, by their times.
type logReader struct {
	runtime   *Runtime
	container *container
	scripted  int // lines returned so far
	written   int // lines returned so far
}

// moment is what a log depends on.
type moment struct {
	log          func(int) (LogLine, bool)
	started, end time.Time // up to which lines exist
	written      []cri.LogLine
	wake         <-chan struct{} // nil unless it was asked for
	running      bool
}

func (l *logReader) moment(wake bool) moment {
	l.runtime.mu.Lock()
	defer l.runtime.mu.Unlock()
	c := l.container
	m := moment{log: c.program.Log, started: c.status.StartedAt, end: time.Now(), written: c.written[l.written:]}
	switch c.status.State {
	case cri.ContainerExited:
		m.end = c.status.FinishedAt
	case cri.ContainerRunning:
		m.running = true
	}
	if m.started.IsZero() {
		m.log = nil // it never ran
	}
	if wake {
		if c.wake == nil {
			c.wake = make(chan struct{})
		}
		m.wake = c.wake
	}
	return m
}

// next returns the next line of the program, and when it is written.
func (l *logReader) next(m moment) (cri.LogLine, bool) {
	if m.log == nil {
		return cri.LogLine{}, false
	}
	line, ok := m.log(l.scripted)
	return cri.LogLine{At: m.started.Add(line.After), Stderr: line.Stderr, Text: line.Text}, ok
}

// Next implements cri.Log.
func (l *logReader) Next() []cri.LogLine {
	m := l.moment(false)
	var lines []cri.LogLine
	for len(lines) < mostLines {
		line, ok := l.next(m)
		switch {
		case ok && !line.At.After(m.end) && (len(m.written) == 0 || !line.At.After(m.written[0].At)):
			l.scripted++
			lines = append(lines, line)
		case len(m.written) > 0:
			lines = append(lines, m.written[0])
			l.written++
			m.written = m.written[1:]
		default:
			return lines
		}
	}
	return lines
}

// Wait implements cri.Log.
func (l *logReader) Wait(ctx context.Context) (bool, error) {
	m := l.moment(true)
	line, ok := l.next(m)
	due := ok && !line.At.After(m.end)
	switch {
	case due || len(m.written) > 0:
		return true, nil
	case !m.running:
		return false, nil
	}
	var written <-chan time.Time
	if ok {
		timer := time.NewTimer(line.At.Sub(m.end))
		defer timer.Stop()
		written = timer.C
	}
	select {
	case <-written:
	case <-m.wake:
	case <-l.container.done:
	case <-l.runtime.closing:
		return false, cri.ErrUnavailable
	case <-ctx.Done():
		return false, ctx.Err()
	}
	return true, nil
}
