package runtimetest

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/keelson-dev/keelson/cri"
)

// Connector connects to the URLs returned by a cri.Streamer, as kubectl does.
type Connector interface {
	// Stream connects the given streams to a URL of Exec or Attach, and returns when the session is over. The code is
	// the command's.
	Stream(ctx context.Context, url string, streams Streams) (code int, err error)
	// Forward connects to a port by a URL of PortForward.
	Forward(ctx context.Context, url string, port int32) (io.ReadWriteCloser, error)
}

// Streams are the client's ends of a connection.
type Streams struct {
	Stdin          io.Reader // nil: not connected
	Stdout, Stderr io.Writer // nil: not connected
	TTY            bool      // they are a terminal's
}

func (s suite) streamer(t *testing.T) (cri.Streamer, bool) {
	t.Helper()
	streamer, ok := s.runtime.(cri.Streamer)
	return streamer, ok && s.Connect != nil
}

func (s suite) execStream(t *testing.T) {
	streamer, ok := s.streamer(t)
	if !ok {
		return
	}
	ctx := s.context(t)
	_, id := s.shell(t, idle, nil)
	url, err := streamer.Exec(ctx, cri.ExecRequest{
		ContainerID: id, Command: []string{"sh", "-c", "read word; echo out $word; echo err >&2; exit 4"},
		Streams: cri.Streams{Stdin: true, Stdout: true, Stderr: true},
	})
	if err != nil {
		t.Fatalf("Exec: %v", err)
	}
	var stdout, stderr bytes.Buffer
	code, err := s.Connect.Stream(ctx, url, Streams{Stdin: strings.NewReader("word\n"), Stdout: &stdout, Stderr: &stderr})
	if err != nil || code != 4 || stdout.String() != "out word\n" || stderr.String() != "err\n" {
		t.Errorf("code %d, stdout %q, stderr %q, %v", code, &stdout, &stderr, err)
	}
	if _, err := s.Connect.Stream(ctx, url, Streams{Stdout: io.Discard}); err == nil {
		t.Error("a URL holds for two connections")
	}
	url, err = streamer.Exec(ctx, cri.ExecRequest{ContainerID: id, Command: []string{"head", "-c", "5000000", "/dev/zero"}, Streams: cri.Streams{Stdout: true}})
	if err != nil {
		t.Fatalf("Exec: %v", err)
	}
	stdout.Reset()
	if code, err := s.Connect.Stream(ctx, url, Streams{Stdout: &stdout}); err != nil || code != 0 || stdout.Len() != 5_000_000 {
		t.Errorf("of 5,000,000 bytes %d arrive, code %d, %v", stdout.Len(), code, err)
	}
}

func (s suite) execTerminal(t *testing.T) {
	streamer, ok := s.streamer(t)
	if !ok {
		return
	}
	ctx := s.context(t)
	_, id := s.shell(t, idle, nil)
	url, err := streamer.Exec(ctx, cri.ExecRequest{
		ContainerID: id, Command: []string{"sh", "-c", "test -t 0 && test -t 1 && echo terminal; echo err >&2"},
		Streams: cri.Streams{Stdin: true, Stdout: true, TTY: true},
	})
	if err != nil {
		t.Fatalf("Exec: %v", err)
	}
	var stdout bytes.Buffer
	keyboard, hand := io.Pipe() // nobody types
	defer func() { _ = hand.Close() }()
	code, err := s.Connect.Stream(ctx, url, Streams{Stdin: keyboard, Stdout: &stdout, TTY: true})
	if got := strings.ReplaceAll(stdout.String(), "\r", ""); err != nil || code != 0 || got != "terminal\nerr\n" {
		t.Errorf("code %d, stdout %q, %v", code, got, err)
	}
}

func (s suite) attachStream(t *testing.T) {
	streamer, ok := s.streamer(t)
	if !ok {
		return
	}
	ctx := s.context(t)
	_, id := s.shell(t, "while read word; do echo got $word; echo err >&2; done; echo end", func(_ *cri.SandboxConfig, c *cri.ContainerConfig) {
		c.Stdin, c.StdinOnce = true, true
	})
	url, err := streamer.Attach(ctx, cri.AttachRequest{ContainerID: id, Streams: cri.Streams{Stdin: true, Stdout: true, Stderr: true}})
	if err != nil {
		t.Fatalf("Attach: %v", err)
	}
	var stdout, stderr bytes.Buffer
	if _, err := s.Connect.Stream(ctx, url, Streams{Stdin: strings.NewReader("one\ntwo\n"), Stdout: &stdout, Stderr: &stderr}); err != nil {
		t.Fatalf("attach: %v", err)
	}
	if stdout.String() != "got one\ngot two\nend\n" || stderr.String() != "err\nerr\n" {
		t.Errorf("stdout %q, stderr %q", &stdout, &stderr)
	}
	if status := s.exited(t, id); status.ExitCode != 0 {
		t.Errorf("it ended with %d", status.ExitCode)
	}
}

func (s suite) portForward(t *testing.T) {
	streamer, ok := s.streamer(t)
	if !ok {
		return
	}
	ctx := s.context(t)
	sandbox, _ := s.shell(t, answering, nil)
	s.eventually(t, "a forwarded port answers", func() bool {
		url, err := streamer.PortForward(ctx, sandbox, []int32{8080})
		if err != nil {
			t.Fatalf("PortForward: %v", err)
		}
		conn, err := s.Connect.Forward(ctx, url, 8080)
		if err != nil {
			t.Fatalf("Forward: %v", err)
		}
		defer func() { _ = conn.Close() }()
		answer, _ := io.ReadAll(conn)
		return string(answer) == "hello\n"
	})
}
