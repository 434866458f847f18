package runtimetest

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/keelson-dev/keelson/cri"
)

// ready waits until the runtime answers again.
func (s suite) ready(t *testing.T) {
	t.Helper()
	s.eventually(t, "the runtime is ready again", func() bool {
		status, err := s.runtime.Status(s.context(t))
		if err != nil && !errors.Is(err, cri.ErrUnavailable) {
			t.Errorf("Status: %v", err)
		}
		return err == nil && status.Runtime.Ready && status.Network.Ready
	})
}

// restart checks that pods survive the runtime's own process, and that streams of events do not.
func (s suite) restart(t *testing.T) {
	if s.Restart == nil {
		return
	}
	ctx := s.context(t)
	sandbox, id := s.running(t, s.Sleeper)
	before := s.state(t, id)
	failed := make(chan error, 1)
	if source, ok := s.runtime.(cri.EventSource); ok {
		stream, err := source.Events(ctx)
		if err != nil {
			t.Fatalf("Events: %v", err)
		}
		defer stream.Close()
		go func() {
			for {
				if _, err := stream.Next(ctx); err != nil {
					failed <- err
					return
				}
			}
		}()
	} else {
		failed <- cri.ErrUnavailable
	}
	s.Restart(t, func() {
		is(t, "a stream of events of a runtime that went away", <-failed, cri.ErrUnavailable)
		_, err := s.runtime.Version(s.short(t))
		is(t, "Version of a runtime that is away", err, cri.ErrUnavailable)
		_, err = s.runtime.ListContainers(s.short(t), cri.Filter{})
		is(t, "ListContainers of a runtime that is away", err, cri.ErrUnavailable)
		_, err = s.runtime.PullImage(s.short(t), cri.ImageSpec{Image: s.Sleeper.Image}, nil)
		is(t, "PullImage of a runtime that is away", err, cri.ErrUnavailable)
	})
	s.ready(t)
	after := s.state(t, id)
	if after.State != cri.ContainerRunning || !after.StartedAt.Equal(before.StartedAt) || after.SandboxID != sandbox {
		t.Errorf("after the restart the container is %+v, was %+v", after, before)
	}
	if status, err := s.runtime.SandboxStatus(ctx, sandbox); err != nil || status.State != cri.SandboxReady || len(status.IPs) == 0 {
		t.Errorf("after the restart the sandbox is %+v, %v", status, err)
	}
	s.events(t)
	if err := s.runtime.StopContainer(ctx, id, s.Patience); err != nil {
		t.Errorf("StopContainer: %v", err)
	}
	if status := s.state(t, id); status.ExitCode != 0 {
		t.Errorf("stopped after the restart: exit code %d", status.ExitCode)
	}
}

// restartProcesses checks that events during the restart are known afterwards. The exit code may be lost: when
// containerd starts, it clears a container whose process is gone, and reports "Unknown".
func (s suite) restartProcesses(t *testing.T) {
	if s.Restart == nil {
		return
	}
	var dir string
	_, id := s.shell(t, "while ! test -e /signals/go; do sleep 0.05; done; touch /signals/gone; exit 6", func(_ *cri.SandboxConfig, c *cri.ContainerConfig) {
		dir = t.TempDir()
		c.Mounts = []cri.Mount{{ContainerPath: "/signals", HostPath: dir}}
	})
	s.Restart(t, func() {
		write(t, filepath.Join(dir, "go"), "")
		s.eventually(t, "the container ends", func() bool {
			_, err := os.Stat(filepath.Join(dir, "gone"))
			return err == nil
		})
	})
	s.ready(t)
	status := s.exited(t, id)
	lost := status.ExitCode == 255 && status.Reason == "Unknown"
	if status.ExitCode != 6 && !lost || status.FinishedAt.IsZero() {
		t.Errorf("a container that ended while the runtime was away ended with code %d, %q at %v, want 6", status.ExitCode, status.Reason, status.FinishedAt)
	}
}
