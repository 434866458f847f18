package simulated

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/internal/inmemory"
)

// target is a running container, with what may be read of it without the lock.
type target struct {
	*container
	program Program
	started time.Time
}

// runningContainer returns a container's program while it runs.
func (r *Runtime) runningContainer(id string) (target, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, ok := r.containers[id]
	if !ok {
		return target{}, fmt.Errorf("container %q: %w", id, cri.ErrNotFound)
	}
	if c.status.State != cri.ContainerRunning {
		return target{}, fmt.Errorf("container %q is %s: %w", id, c.status.State, cri.ErrInvalid)
	}
	return target{c, c.program, c.status.StartedAt}, nil
}

// whileRunning returns a context that ends with the container and the runtime. The function returned must be called.
func (r *Runtime) whileRunning(ctx context.Context, done <-chan struct{}) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-done:
		case <-r.closing:
		case <-ctx.Done():
		}
		cancel()
	})
	return ctx, func() {
		cancel()
		watching.Wait()
	}
}

// HandleExec calls the Streams.Exec, or else the Exec, of the container's program.
func (r *Runtime) HandleExec(ctx context.Context, id string, command []string, s cri.StreamIO) (int32, error) {
	op := r.containerOperation(Exec, id)
	op.Command = command
	if err := r.perform(ctx, op); err != nil {
		return 0, err
	}
	c, err := r.runningContainer(id)
	if err != nil {
		return 0, err
	}
	switch {
	case c.program.Streams.Exec != nil:
		return r.exec(ctx, c, command, s)
	case c.program.Exec != nil:
		result := c.program.Exec(command)
		return result.ExitCode, errors.Join(put(s.Stdout, result.Stdout), put(cmp.Or(s.Stderr, s.Stdout), result.Stderr))
	}
	return 0, fmt.Errorf("container %q is simulated and no Program.Streams.Exec is set for its image %q: %w",
		c.process.Container.Name, c.process.Image, cri.ErrUnsupported)
}

func (r *Runtime) exec(ctx context.Context, c target, command []string, s cri.StreamIO) (int32, error) {
	ctx, end := r.whileRunning(ctx, c.done)
	defer end()
	s.Stdin = until(ctx, s.Stdin)
	return c.program.Streams.Exec(ctx, command, s)
}

// until returns a reader of from that fails when the context ends. It reads ahead, and stops only when from does.
func until(ctx context.Context, from io.Reader) io.Reader {
	if from == nil {
		return nil
	}
	out, in := io.Pipe()
	context.AfterFunc(ctx, func() { _ = out.CloseWithError(ctx.Err()) })
	go func() {
		_, err := io.Copy(in, from)
		_ = in.CloseWithError(err)
	}()
	return out
}

// endingConn is a connection whose reads end with a context.
type endingConn struct {
	io.ReadWriteCloser
	reader io.Reader
}

func (c endingConn) Read(p []byte) (int, error) { return c.reader.Read(p) }

// put writes text to a stream that may not be connected.
func put(to io.Writer, text []byte) error {
	if to == nil || len(text) == 0 {
		return nil
	}
	_, err := to.Write(text)
	return err
}

// HandleAttach calls the Streams.Attach of the container's program, or sends what the container writes to its log.
func (r *Runtime) HandleAttach(ctx context.Context, id string, s cri.StreamIO) error {
	if err := r.perform(ctx, r.containerOperation(Attach, id)); err != nil {
		return err
	}
	c, err := r.runningContainer(id)
	if err != nil {
		return err
	}
	ctx, end := r.whileRunning(ctx, c.done)
	defer end()
	if attach := c.program.Streams.Attach; attach != nil {
		s.Stdin = until(ctx, s.Stdin)
		return attach(ctx, s)
	}
	err = copyLog(ctx, &logReader{runtime: r, container: c.container}, s)
	if ctx.Err() != nil {
		return nil // the container has ended, or nobody is attached any more
	}
	return err
}

// copyLog sends what is written to a log from now on.
func copyLog(ctx context.Context, log *logReader, s cri.StreamIO) error {
	for len(log.Next()) > 0 {
		continue // it was written before
	}
	for {
		more, err := log.Wait(ctx)
		lines := log.Next() // also what was written just before the end
		for _, line := range lines {
			to := s.Stdout
			if line.Stderr && !s.TTY {
				to = s.Stderr
			}
			end := "\n"
			if s.TTY {
				end = "\r\n"
			}
			if err := put(to, []byte(line.Text+end)); err != nil {
				return err
			}
		}
		if !more {
			return err
		}
	}
}

// HandlePort calls the Streams.Port of a program of the sandbox.
func (r *Runtime) HandlePort(ctx context.Context, sandboxID string, port int32, conn io.ReadWriteCloser) error {
	if err := r.perform(ctx, r.sandboxOperation(PortForward, sandboxID)); err != nil {
		return err
	}
	c, err := r.listening(sandboxID, port)
	if err != nil {
		return err
	}
	ctx, end := r.whileRunning(ctx, c.done)
	defer end()
	return c.program.Streams.Port(ctx, port, endingConn{conn, until(ctx, conn)})
}

// listening returns the container that serves a sandbox's ports.
func (r *Runtime) listening(sandboxID string, port int32) (target, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, ok := r.sandboxes[sandboxID]
	if !ok {
		return target{}, fmt.Errorf("sandbox %q: %w", sandboxID, cri.ErrNotFound)
	}
	for _, c := range r.containersOf(s) {
		if c.status.State == cri.ContainerRunning && c.program.Streams.Port != nil {
			return target{c, c.program, c.status.StartedAt}, nil
		}
	}
	return target{}, fmt.Errorf("connection refused: nothing listens on port %d of pod %s/%s, which is simulated: no Program.Streams.Port is set for its containers",
		port, s.status.Metadata.Namespace, s.status.Metadata.Name)
}

// DialPort connects to a port of a sandbox, as another pod would: it fails if nothing listens there.
func (r *Runtime) DialPort(ctx context.Context, sandboxID string, port int32) (net.Conn, error) {
	if _, err := r.listening(sandboxID, port); err != nil {
		return nil, err
	}
	client, server := inmemory.Pipe()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, cri.ErrUnavailable
	}
	r.timers.Go(func() {
		ctx, end := r.whileRunning(context.WithoutCancel(ctx), r.closing)
		defer end()
		defer context.AfterFunc(ctx, func() { _ = server.Close() })()
		_ = r.HandlePort(ctx, sandboxID, port, server) // the client sees the connection end
		_ = server.Close()
	})
	return client, nil
}

// HTTP returns a Streams.Port that serves HTTP/1.1 on every port.
func HTTP(h http.Handler) func(ctx context.Context, port int32, conn io.ReadWriteCloser) error {
	return func(ctx context.Context, _ int32, conn io.ReadWriteCloser) error {
		server := inmemory.NewServer(h)
		defer server.Close()
		pipe, err := server.Dial(ctx, nil)
		if err != nil {
			return err
		}
		stop := context.AfterFunc(ctx, func() { _ = pipe.Close() })
		defer stop()
		go func() {
			_, _ = io.Copy(pipe, conn) // ends with the client, or when the pipe is closed
			if half, ok := pipe.(interface{ CloseWrite() error }); ok {
				_ = half.CloseWrite()
			}
		}()
		_, err = io.Copy(conn, pipe)
		_ = pipe.Close()
		if ctx.Err() != nil || errors.Is(err, net.ErrClosed) || errors.Is(err, io.ErrClosedPipe) {
			return nil // the container has ended, or the client is gone
		}
		return err
	}
}
