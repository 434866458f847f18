package remote_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/cri/remote"
	"github.com/keelson-dev/keelson/cri/runtimetest"
	"github.com/keelson-dev/keelson/cri/serve"
	"github.com/keelson-dev/keelson/cri/simulated"
)

// socket serves a runtime, and can be shut and opened again.
type socket struct {
	path    string
	runtime serve.Runtime

	mu     sync.Mutex
	cancel context.CancelFunc
	done   chan error
}

func serveAt(t testing.TB, runtime serve.Runtime) *socket {
	t.Helper()
	s := &socket{path: filepath.Join(t.TempDir(), "cri.sock"), runtime: runtime}
	s.open(t)
	t.Cleanup(func() { s.shut(t) })
	return s
}

func (s *socket) open(t testing.TB) {
	t.Helper()
	listener, err := net.Listen("unix", s.path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancel, s.done = cancel, make(chan error, 1)
	go func() { s.done <- serve.New(s.runtime).Run(ctx, listener) }()
}

func (s *socket) shut(t testing.TB) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancel == nil {
		return
	}
	s.cancel()
	if err := <-s.done; err != nil {
		t.Errorf("Run: %v", err)
	}
	s.cancel = nil
}

func programs(p simulated.Process) simulated.Program {
	switch p.Image {
	case "stubborn":
		return simulated.Program{IgnoresStop: true}
	case "failure":
		return simulated.Program{Exits: true, After: 20 * time.Millisecond, ExitCode: 3}
	case "success":
		return simulated.Program{Exits: true, After: 20 * time.Millisecond}
	default:
		return simulated.Program{Exec: func(command []string) cri.ExecResult {
			return cri.ExecResult{Stdout: fmt.Appendln(nil, command)}
		}}
	}
}

// TestOverSocket holds client and server together to the contract: the simulated runtime passes it
// through a socket as it does without.
func TestOverSocket(t *testing.T) {
	var current *socket
	runtimetest.Run(t, func(t *testing.T) runtimetest.Runtime {
		r := simulated.New(simulated.Options{
			Program: programs,
			Behave: func(op simulated.Operation) simulated.Outcome {
				if op.Verb == simulated.PullImage && op.Image == "missing" {
					return simulated.Outcome{Err: fmt.Errorf("pulling: %w", cri.ErrNotFound)}
				}
				return simulated.Outcome{}
			},
		})
		t.Cleanup(r.Close)
		current = serveAt(t, r)
		return dial(t, current.path)
	}, runtimetest.Options{
		Sleeper:      runtimetest.Program{Image: "sleeper"},
		Stubborn:     runtimetest.Program{Image: "stubborn"},
		Failure:      runtimetest.Program{Image: "failure"},
		Success:      runtimetest.Program{Image: "success"},
		MissingImage: "missing",
		Pullable:     "pullable",
		Exec:         []string{"echo", "hello"}, ExecOutput: "[echo hello]\n",
		Restart: func(t *testing.T, away func()) {
			t.Helper()
			current.shut(t)
			away()
			current.open(t)
		},
	})
}

func dial(t testing.TB, path string) *remote.Runtime {
	t.Helper()
	client, err := remote.New(path, remote.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return client
}

// TestOutcomes: errors keep their kind through the socket, and their text is gRPC's.
func TestOutcomes(t *testing.T) {
	var mu sync.Mutex
	var next error
	r := simulated.New(simulated.Options{Behave: func(op simulated.Operation) simulated.Outcome {
		mu.Lock()
		defer mu.Unlock()
		return simulated.Outcome{Err: next}
	}})
	defer r.Close()
	client := dial(t, serveAt(t, r).path)
	for _, c := range []struct {
		err, want  error
		list, pull string
	}{
		{fmt.Errorf("image: %w", cri.ErrNotFound), cri.ErrNotFound, "rpc error: code = NotFound desc = image: not found", "rpc error: code = NotFound desc = image: not found"},
		{errors.New("boom"), nil, "rpc error: code = Unknown desc = boom", "boom"},
		{
			fmt.Errorf("%w: no route", cri.ErrRegistryUnavailable), cri.ErrRegistryUnavailable,
			"rpc error: code = Unknown desc = RegistryUnavailable: no route", "RegistryUnavailable: no route",
		},
		{cri.ErrInvalid, cri.ErrInvalid, "rpc error: code = FailedPrecondition desc = " + cri.ErrInvalid.Error(), "rpc error: code = FailedPrecondition desc = " + cri.ErrInvalid.Error()},
	} {
		mu.Lock()
		next = c.err
		mu.Unlock()
		_, list := client.ListSandboxes(t.Context(), cri.Filter{})
		_, pull := client.PullImage(t.Context(), cri.ImageSpec{Image: "a"}, nil)
		for _, got := range []struct {
			err  error
			text string
		}{{list, c.list}, {pull, c.pull}} {
			if want := c.err.Error(); got.err == nil || cri.Description(fmt.Errorf("wrapped: %w", got.err)) != "wrapped: "+want {
				t.Errorf("described as %q, want %q", cri.Description(got.err), want)
			}
			if got.err == nil || got.err.Error() != got.text || c.want != nil && !errors.Is(got.err, c.want) {
				t.Errorf("error %v, want %v as %q", got.err, c.want, got.text)
			}
		}
	}
}

// TestDeadlines: a runtime that hangs ends with the caller's context, by its error.
func TestDeadlines(t *testing.T) {
	r := simulated.New(simulated.Options{Behave: func(simulated.Operation) simulated.Outcome { return simulated.Outcome{Hang: true} }})
	defer r.Close()
	client := dial(t, serveAt(t, r).path)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := client.RunPodSandbox(ctx, cri.SandboxConfig{Metadata: cri.SandboxMetadata{Name: "a", Namespace: "b", UID: "c"}}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("past the deadline: %v", err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { _, err := client.Version(ctx); done <- err }()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	_, err := client.ExecSync(t.Context(), "a", []string{"sleep", "9"}, time.Millisecond)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.HasPrefix(err.Error(), `command timed out: "sleep 9" timed out after 1ms`) {
		t.Errorf("a command that takes too long: %v", err)
	}
}

// TestLongLists: a list that does not fit into the largest message arrives whole all the same.
func TestLongLists(t *testing.T) {
	r := simulated.New(simulated.Options{})
	defer r.Close()
	client := dial(t, serveAt(t, r).path)
	const pods = 60
	long := map[string]string{"long": strings.Repeat("x", 300_000)}
	ref, err := client.PullImage(t.Context(), cri.ImageSpec{Image: "app"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range pods {
		pod := cri.SandboxConfig{Metadata: cri.SandboxMetadata{Name: "a", Namespace: "b", UID: fmt.Sprint(i)}, Annotations: long}
		id, err := client.RunPodSandbox(t.Context(), pod)
		if err != nil {
			t.Fatal(err)
		}
		c := cri.ContainerConfig{Metadata: cri.ContainerMetadata{Name: "c"}, Image: cri.ImageSpec{Image: ref}, Annotations: long}
		if id, err = client.CreateContainer(t.Context(), id, c, pod); err == nil {
			err = client.StartContainer(t.Context(), id)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	seen := map[string]bool{}
	count := func(n int, ids func(int) string, err error) {
		t.Helper()
		if err != nil || n != pods {
			t.Errorf("%d of %d, %v", n, pods, err)
		}
		for i := range n {
			if id := ids(i); seen[id] {
				t.Errorf("%s is told twice", id)
			} else {
				seen[id] = true
			}
		}
		clear(seen)
	}
	sandboxes, err := client.ListSandboxes(t.Context(), cri.Filter{})
	count(len(sandboxes), func(i int) string { return sandboxes[i].ID }, err)
	containers, err := client.ListContainers(t.Context(), cri.Filter{})
	count(len(containers), func(i int) string { return containers[i].ID }, err)
	stats, err := client.ListContainerStats(t.Context(), cri.Filter{})
	count(len(stats), func(i int) string { return stats[i].ID }, err)
	sandboxStats, err := client.ListSandboxStats(t.Context(), cri.Filter{})
	count(len(sandboxStats), func(i int) string { return sandboxStats[i].ID }, err)
}

// bare serves nothing but a version.
type bare struct {
	v1.UnimplementedRuntimeServiceServer
}

func (bare) Version(context.Context, *v1.VersionRequest) (*v1.VersionResponse, error) {
	return &v1.VersionResponse{RuntimeName: "bare", RuntimeVersion: "1"}, nil
}

func (bare) ListContainers(context.Context, *v1.ListContainersRequest) (*v1.ListContainersResponse, error) {
	return nil, status.Error(codes.Canceled, "shutting down")
}

// TestBareRuntime: what a runtime does not do is cri.ErrUnsupported.
func TestBareRuntime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cri.sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	v1.RegisterRuntimeServiceServer(server, bare{})
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	defer func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	client := dial(t, path)
	ctx := t.Context()
	for name, call := range map[string]func() error{
		"Exec":         func() error { _, err := client.Exec(ctx, cri.ExecRequest{}); return err },
		"CgroupDriver": func() error { _, err := client.CgroupDriver(ctx); return err },
		"Stats":        func() error { _, err := client.ListSandboxStats(ctx, cri.Filter{}); return err },
		"Images":       func() error { _, err := client.ListImages(ctx); return err },
		"Events": func() error {
			stream, err := client.Events(ctx)
			if err != nil {
				return err
			}
			defer stream.Close()
			_, err = stream.Next(ctx)
			return err
		},
	} {
		if err := call(); !errors.Is(err, cri.ErrUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := client.ListContainers(ctx, cri.Filter{}); !errors.Is(err, cri.ErrUnavailable) {
		t.Errorf("a runtime that is shutting down: %v", err)
	}
}

// TestSlowReader: a reader of events that falls behind is told so, and holds nobody up.
func TestSlowReader(t *testing.T) {
	r := simulated.New(simulated.Options{})
	defer r.Close()
	client, err := remote.New(serveAt(t, r).path, remote.Options{EventBuffer: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	stream, err := client.Events(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	for i := range 3 {
		if _, err := client.RunPodSandbox(t.Context(), cri.SandboxConfig{Metadata: cri.SandboxMetadata{Name: "a", Namespace: "b", UID: fmt.Sprint(i)}}); err != nil {
			t.Fatal(err)
		}
	}
	for err == nil {
		_, err = stream.Next(t.Context())
	}
	if !errors.Is(err, cri.ErrEventsLost) {
		t.Errorf("Next: %v", err)
	}
	stream.Close()
}
