package streams_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/cri/runtimetest"
	"github.com/keelson-dev/keelson/cri/simulated"
)

// TestFailures: clients learn what the runtime says.
func TestFailures(t *testing.T) {
	boom := errors.New("boom")
	r := serve(t, func(*simulated.Runtime, simulated.Process) simulated.Program {
		return simulated.Program{Streams: simulated.Streams{
			Exec: func(_ context.Context, _ []string, s cri.StreamIO) (int32, error) {
				if s.Resize != nil || s.Stdin != nil || s.Stderr != nil || s.TTY {
					return 0, errors.New("there are streams that nobody wants")
				}
				return 7, boom
			},
			Attach: func(context.Context, cri.StreamIO) error { return boom },
			Port:   func(context.Context, int32, io.ReadWriteCloser) error { return boom },
		}}
	})
	sandbox, id := start(t, r, r)
	for _, tty := range []bool{false, true} {
		at, err := r.Server.Attach(t.Context(), cri.AttachRequest{ContainerID: id, Streams: cri.Streams{Stdout: true, TTY: tty}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := (connector{}).Stream(t.Context(), at, runtimetest.Streams{Stdout: io.Discard, TTY: tty}); err == nil || !strings.Contains(err.Error(), "boom") {
			t.Errorf("attach: %v", err)
		}
	}
	for _, socket := range []bool{false, true} {
		at, err := r.Server.Exec(t.Context(), cri.ExecRequest{ContainerID: id, Command: []string{"x"}, Streams: cri.Streams{Stdout: true}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := (connector{socket}).Stream(t.Context(), at, runtimetest.Streams{Stdout: io.Discard}); err == nil || !strings.Contains(err.Error(), "boom") {
			t.Errorf("exec: %v", err)
		}
	}
	for {
		at, err := r.Server.PortForward(t.Context(), sandbox, nil)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := connector{}.Forward(t.Context(), at, 80)
		if err != nil && err.Error() == "Stream reset" {
			continue // upstream's library may end a stream before it has said that it exists
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(conn.(forwarded).failure)
		if err != nil || !strings.Contains(string(text), "error forwarding port 80") || !strings.Contains(string(text), "boom") {
			t.Errorf("port-forward: %q, %v", text, err)
		}
		_ = conn.Close()
		break
	}
}
