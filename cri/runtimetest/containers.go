package runtimetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/keelson-dev/keelson/cri"
)

func (s suite) containerLife(t *testing.T) {
	ctx, sandboxConfig := s.context(t), pod(t, "pod")
	sandbox := s.sandbox(t, sandboxConfig)
	want := config(sandboxConfig, "main", s.Sleeper, s.pull(t, s.Sleeper))
	want.Metadata.Attempt = 4
	id := s.container(t, sandbox, want, false)

	status := s.state(t, id)
	switch {
	case status.ID != id, status.SandboxID != sandbox, status.Metadata != want.Metadata:
		t.Errorf("a new container is %+v", status)
	case status.State != cri.ContainerCreated, status.CreatedAt.IsZero(), !status.StartedAt.IsZero():
		t.Errorf("a new container is %s, created %v, started %v", status.State, status.CreatedAt, status.StartedAt)
	case status.Annotations["runtimetest"] != "main", status.Labels[cri.LabelContainerName] != "main":
		t.Errorf("labels and annotations are %v and %v", status.Labels, status.Annotations)
	case status.ImageRef == "":
		t.Error("a container without an image reference")
	}
	if err := s.runtime.StartContainer(ctx, id); err != nil {
		t.Fatalf("StartContainer: %v", err)
	}
	status = s.state(t, id)
	if status.State != cri.ContainerRunning || status.StartedAt.IsZero() || !status.FinishedAt.IsZero() {
		t.Errorf("a started container is %s, started %v, finished %v", status.State, status.StartedAt, status.FinishedAt)
	}
	s.settle(t, id, s.Sleeper)
	is(t, "StartContainer a second time", s.runtime.StartContainer(ctx, id), cri.ErrInvalid)
	if err := s.runtime.StopContainer(ctx, id, s.Patience); err != nil {
		t.Fatalf("StopContainer: %v", err)
	}
	status = s.state(t, id)
	if status.State != cri.ContainerExited || status.ExitCode != 0 || status.Reason != "Completed" || status.FinishedAt.Before(status.StartedAt) {
		t.Errorf("a stopped container is %+v", status)
	}
	is(t, "StartContainer after its end", s.runtime.StartContainer(ctx, id), cri.ErrInvalid)
	for range 2 {
		if err := s.runtime.RemoveContainer(ctx, id); err != nil {
			t.Errorf("RemoveContainer: %v", err)
		}
	}
	_, err := s.runtime.ContainerStatus(ctx, id)
	is(t, "ContainerStatus of a removed container", err, cri.ErrNotFound)
}

func (s suite) containerUnknown(t *testing.T) {
	ctx := s.context(t)
	_, err := s.runtime.ContainerStatus(ctx, "unknown")
	is(t, "ContainerStatus", err, cri.ErrNotFound)
	is(t, "StartContainer", s.runtime.StartContainer(ctx, "unknown"), cri.ErrNotFound)
	if err := s.runtime.StopContainer(ctx, "unknown", 0); err != nil {
		is(t, "StopContainer", err, cri.ErrNotFound)
	}
	_, err = s.runtime.ExecSync(ctx, "unknown", []string{"true"}, 0)
	is(t, "ExecSync", err, cri.ErrNotFound)
	if err := s.runtime.RemoveContainer(ctx, "unknown"); err != nil {
		t.Errorf("RemoveContainer: %v", err)
	}
}

func (s suite) containerImage(t *testing.T) {
	sandboxConfig := pod(t, "pod")
	sandbox := s.sandbox(t, sandboxConfig)
	missing := Program{Image: "runtimetest.invalid/never/pulled:1"}
	_, err := s.runtime.CreateContainer(s.context(t), sandbox, config(sandboxConfig, "main", missing, missing.Image), sandboxConfig)
	is(t, "CreateContainer without its image", err, cri.ErrNotFound)
}

func (s suite) containerFilters(t *testing.T) {
	ctx, ref := s.context(t), s.pull(t, s.Sleeper)
	a, b := pod(t, "a"), pod(t, "b")
	sandboxA, sandboxB := s.sandbox(t, a), s.sandbox(t, b)
	one := s.container(t, sandboxA, config(a, "one", s.Sleeper, ref), false)
	two := s.container(t, sandboxA, config(a, "two", s.Sleeper, ref), true)
	other := s.container(t, sandboxB, config(b, "one", s.Sleeper, ref), false)
	for _, c := range []struct {
		what   string
		filter cri.Filter
		want   []string
	}{
		{"by sandbox", cri.Filter{SandboxID: sandboxA}, []string{two, one}},
		{"by uid", cri.Filter{Labels: map[string]string{cri.LabelPodUID: b.Metadata.UID}}, []string{other}},
		{"by uid and name", cri.Filter{Labels: map[string]string{cri.LabelPodUID: a.Metadata.UID, cri.LabelContainerName: "one"}}, []string{one}},
		{"by id", cri.Filter{ID: two}, []string{two}},
		{"by id and the wrong sandbox", cri.Filter{ID: two, SandboxID: sandboxB}, nil},
	} {
		list, err := s.runtime.ListContainers(ctx, c.filter)
		if err != nil {
			t.Fatalf("ListContainers: %v", err)
		}
		var got []string
		for _, item := range list {
			got = append(got, item.ID)
			if status := s.state(t, item.ID); status.State != item.State || status.SandboxID != item.SandboxID {
				t.Errorf("list and status disagree: %+v and %+v", item, status)
			}
		}
		same(t, c.what, got, c.want)
	}
}

func (s suite) exitCodes(t *testing.T) {
	for _, c := range []struct {
		program Program
		code    int32
		reason  string
	}{{s.Success, 0, "Completed"}, {s.Failure, 3, "Error"}} {
		_, id := s.running(t, c.program)
		status := s.exited(t, id)
		if status.ExitCode != c.code || status.Reason != c.reason || status.FinishedAt.IsZero() {
			t.Errorf("ended with code %d, reason %q at %v, want %d, %q", status.ExitCode, status.Reason, status.FinishedAt, c.code, c.reason)
		}
		if err := s.runtime.StopContainer(s.context(t), id, 0); err != nil {
			t.Errorf("StopContainer of one that has exited: %v", err)
		}
		if again := s.state(t, id); again.ExitCode != c.code || !again.FinishedAt.Equal(status.FinishedAt) {
			t.Errorf("stopping changed how it ended: %+v", again)
		}
	}
}

func (s suite) stopTwice(t *testing.T) {
	ctx := s.context(t)
	sandbox, id := s.running(t, s.Sleeper)
	done := make(chan error)
	for range 3 {
		go func() { done <- s.runtime.StopContainer(ctx, id, s.Patience) }()
	}
	for range 3 {
		if err := <-done; err != nil {
			t.Errorf("StopContainer: %v", err)
		}
	}
	created := s.container(t, sandbox, config(*s.pods[sandbox], "second", s.Sleeper, s.pull(t, s.Sleeper)), false)
	if err := s.runtime.StopContainer(ctx, created, 0); err != nil {
		t.Errorf("StopContainer of one that never ran: %v", err)
	}
}

func (s suite) stopByForce(t *testing.T) {
	for _, grace := range []time.Duration{0, time.Second} {
		_, id := s.running(t, s.Stubborn)
		start := time.Now()
		if err := s.runtime.StopContainer(s.context(t), id, grace); err != nil {
			t.Fatalf("StopContainer: %v", err)
		}
		if took := time.Since(start); took < grace || took > grace+s.Patience {
			t.Errorf("stopping with %v grace took %v", grace, took)
		}
		if status := s.state(t, id); status.State != cri.ContainerExited || status.ExitCode != 137 || status.Reason != "Error" {
			t.Errorf("a container that was ended by force is %+v", status)
		}
	}
}

func (s suite) stopGivenUp(t *testing.T) {
	_, id := s.running(t, s.Stubborn)
	ctx, cancel := context.WithTimeout(s.context(t), 50*time.Millisecond)
	defer cancel()
	err := s.runtime.StopContainer(ctx, id, time.Hour)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("StopContainer that was given up: %v", err)
	}
	if status := s.state(t, id); status.State != cri.ContainerRunning {
		t.Errorf("the container is %s", status.State)
	}
	if err := s.runtime.StopContainer(s.context(t), id, 0); err != nil {
		t.Errorf("StopContainer with a shorter grace: %v", err)
	}
	s.exited(t, id)
}

func (s suite) removeRunning(t *testing.T) {
	sandbox, id := s.running(t, s.Stubborn)
	if err := s.runtime.RemoveContainer(s.context(t), id); err != nil {
		t.Fatalf("RemoveContainer: %v", err)
	}
	_, err := s.runtime.ContainerStatus(s.context(t), id)
	is(t, "ContainerStatus", err, cri.ErrNotFound)
	if status, err := s.runtime.SandboxStatus(s.context(t), sandbox); err != nil || status.State != cri.SandboxReady {
		t.Errorf("its sandbox is %+v, %v", status, err)
	}
}

func (s suite) exec(t *testing.T) {
	ctx := s.context(t)
	sandbox, id := s.running(t, s.Sleeper)
	if s.Exec != nil {
		result, err := s.runtime.ExecSync(ctx, id, s.Exec, s.Patience)
		if err != nil || result.ExitCode != 0 || string(result.Stdout) != s.ExecOutput {
			t.Errorf("ExecSync: %+v, %v", result, err)
		}
	}
	created := s.container(t, sandbox, config(*s.pods[sandbox], "second", s.Sleeper, s.pull(t, s.Sleeper)), false)
	if _, err := s.runtime.ExecSync(ctx, created, []string{"true"}, s.Patience); err == nil {
		t.Error("a command runs in a container that does not")
	}
}
