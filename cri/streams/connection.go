package streams

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"

	"github.com/keelson-dev/keelson/cri"
)

// connection is a client's connection, and the calls to the runtime that it is for.
type connection struct {
	http.ResponseWriter
	cancel context.CancelFunc

	mu    sync.Mutex
	taken net.Conn
	ended bool
	calls sync.WaitGroup
}

// Hijack implements http.Hijacker, with a connection that tells when the client is gone: net/http does not.
func (c *connection) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffer, err := http.NewResponseController(c.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	_ = conn.SetDeadline(time.Time{})
	w := &watched{Conn: conn, from: buffer.Reader, gone: c.cancel}
	c.mu.Lock()
	c.taken = w
	c.mu.Unlock()
	return w, bufio.NewReadWriter(bufio.NewReader(w), bufio.NewWriter(w)), nil
}

// Unwrap lets http.ResponseController reach what is wrapped.
func (c *connection) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// close closes a connection that was taken over.
func (c *connection) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.taken != nil {
		_ = c.taken.Close()
	}
}

// call runs a call to the runtime, unless the connection has ended.
func (c *connection) call(f func() error) error {
	c.mu.Lock()
	if c.ended {
		c.mu.Unlock()
		return net.ErrClosed
	}
	c.calls.Add(1)
	c.mu.Unlock()
	defer c.calls.Done()
	return f()
}

// end ends the calls and waits for them.
func (c *connection) end() {
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	c.cancel()
	c.calls.Wait()
}

// watched is a connection that tells when nothing more can be read from it. It may be closed twice: the SPDY library waits a
// second for somebody to take the error of the second time.
type watched struct {
	net.Conn
	from    *bufio.Reader // what was read already
	gone    func()
	closing sync.Once
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.from.Read(p)
	if err != nil {
		w.gone()
	}
	return n, err
}

func (w *watched) Close() error {
	var err error
	w.closing.Do(func() { err = w.Conn.Close() })
	w.gone()
	return err
}

// command connects the library's streams to a container.
type command struct {
	runtime cri.StreamHandler
	*connection
	wanted cri.Streams
}

// io returns the wanted streams.
func (c command) io(in io.Reader, out, errs io.Writer, tty bool, resize <-chan remotecommand.TerminalSize) (cri.StreamIO, func()) {
	s := cri.StreamIO{TTY: tty}
	if c.wanted.Stdin {
		s.Stdin = in
	}
	if c.wanted.Stdout {
		s.Stdout = out
	}
	if c.wanted.Stderr {
		s.Stderr = errs
	}
	if !tty {
		return s, func() {}
	}
	sizes, done := make(chan cri.TerminalSize), make(chan struct{})
	var passing sync.WaitGroup
	passing.Go(func() {
		defer close(sizes)
		for {
			select {
			case size, ok := <-resize:
				if !ok {
					return
				}
				select {
				case sizes <- cri.TerminalSize(size):
				case <-done:
					return
				}
			case <-done:
				return
			}
		}
	})
	s.Resize = sizes
	return s, func() {
		close(done)
		passing.Wait()
	}
}

// ExecInContainer implements the library's Executor.
//
//nolint:revive // its parameters are the library's
func (c command) ExecInContainer(ctx context.Context, _, _, id string, args []string, in io.Reader, out, errs io.WriteCloser, tty bool,
	resize <-chan remotecommand.TerminalSize, _ time.Duration,
) error {
	return c.call(func() error {
		s, end := c.io(in, out, errs, tty, resize)
		defer end()
		code, err := c.runtime.HandleExec(ctx, id, args, s)
		if err == nil && code != 0 {
			return utilexec.CodeExitError{Err: fmt.Errorf("exit status %d", code), Code: int(code)}
		}
		return err
	})
}

// AttachContainer implements the library's Attacher.
//
//nolint:revive // its parameters are the library's
func (c command) AttachContainer(ctx context.Context, _, _, id string, in io.Reader, out, errs io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize) error {
	return c.call(func() error {
		s, end := c.io(in, out, errs, tty, resize)
		defer end()
		return c.runtime.HandleAttach(ctx, id, s)
	})
}

// forwarder connects the library's streams to ports.
type forwarder struct {
	runtime cri.StreamHandler
	*connection
	ctx context.Context //nolint:containedctx // the library passes none of the connection's
}

// PortForward implements the library's PortForwarder.
func (f forwarder) PortForward(_ context.Context, sandboxID, _ string, port int32, stream io.ReadWriteCloser) error {
	return f.call(func() error { return f.runtime.HandlePort(f.ctx, sandboxID, port, stream) })
}

// splitLast splits a path before its last element.
func splitLast(path string) (before, last string) {
	i := strings.LastIndexByte(path, '/')
	return path[:i+1], path[i+1:]
}
