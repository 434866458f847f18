package connect_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/util/exec"

	"github.com/keelson-dev/keelson/authn"
)

// keyboard is an input that goes on when its line is read, as a terminal's does.
type keyboard struct {
	line  io.Reader
	until <-chan struct{}
}

func (k keyboard) Read(p []byte) (int, error) {
	n, err := k.line.Read(p)
	if err == io.EOF {
		<-k.until
	}
	return n, err
}

// slow is a client that takes its time over what it is sent.
type slow struct{ bytes.Buffer }

func (s *slow) Write(p []byte) (int, error) {
	time.Sleep(time.Millisecond)
	return s.Buffer.Write(p)
}

// TestLastWords: what a command writes right before it ends arrives, on a terminal and without one, however the client
// connects and many at once.
func TestLastWords(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.pod(t, "p", "main")
	config := w.config(t, "admin", authn.GroupMasters)
	const times, side = 20, 4
	for _, c := range []struct {
		name, script, want string
		tty                bool
	}{
		{"terminal", "echo ready; read line; echo one; echo got $line; exit 5", "one\r\ngot input\r\n", true},
		{"pipes", "echo ready; read line; echo one; echo got $line; exit 5", "one\ngot input\n", false},
	} {
		u := w.at("p", "exec", command(corev1.PodExecOptions{Command: []string{"sh", "-c", c.script}, Stdin: true, Stdout: true, Stderr: !c.tty, TTY: c.tty}))
		for name := range executors(t, config, u) {
			t.Run(c.name+" by "+name, func(t *testing.T) {
				var running sync.WaitGroup
				for range side {
					e := executors(t, config, u)[name] // that of SPDY is for one command at a time
					running.Go(func() {
						for i := range times {
							if err := lastWords(t.Context(), e, c.tty, c.want); err != nil {
								t.Errorf("%d: %v", i, err)
							}
						}
					})
				}
				running.Wait()
			})
		}
	}
}

func lastWords(ctx context.Context, e remotecommand.Executor, tty bool, want string) error {
	ended := make(chan struct{})
	defer close(ended)
	out := &slow{}
	in := keyboard{bytes.NewReader([]byte("input\n")), ended}
	o := remotecommand.StreamOptions{Stdin: in, Stdout: out, Tty: tty}
	if !tty {
		o.Stderr = io.Discard
	}
	err := e.StreamWithContext(ctx, o)
	var exit exec.CodeExitError
	if !errors.As(err, &exit) || exit.Code != 5 || !strings.HasSuffix(out.String(), want) {
		return fmt.Errorf("wrote %q and ended with %w", out.String(), err)
	}
	return nil
}
