package simulated_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/cri/runtimetest"
	"github.com/keelson-dev/keelson/cri/simulated"
)

// programs are those of the conformance suite, told apart by their images.
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

func TestConformance(t *testing.T) {
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
		return r
	}, runtimetest.Options{
		Sleeper:      runtimetest.Program{Image: "sleeper"},
		Stubborn:     runtimetest.Program{Image: "stubborn"},
		Failure:      runtimetest.Program{Image: "failure"},
		Success:      runtimetest.Program{Image: "success"},
		MissingImage: "missing",
		Pullable:     "pullable",
		Exec:         []string{"echo", "hello"}, ExecOutput: "[echo hello]\n",
	})
}

// start runs a pod with one container and returns the ids.
func start(t *testing.T, r *simulated.Runtime) (sandbox, container string) {
	t.Helper()
	ctx := context.Background()
	pod := cri.SandboxConfig{Metadata: cri.SandboxMetadata{Name: "p", Namespace: "n", UID: "u"}}
	sandbox, err := r.RunPodSandbox(ctx, pod)
	if err != nil {
		t.Fatal(err)
	}
	ref, err := r.PullImage(ctx, cri.ImageSpec{Image: "app"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	container, err = r.CreateContainer(ctx, sandbox, cri.ContainerConfig{Metadata: cri.ContainerMetadata{Name: "main"}, Image: cri.ImageSpec{Image: ref}}, pod)
	if err == nil {
		err = r.StartContainer(ctx, container)
	}
	if err != nil {
		t.Fatal(err)
	}
	return sandbox, container
}

func TestEnds(t *testing.T) {
	for name, c := range map[string]struct {
		program simulated.Program
		grace   time.Duration
		took    time.Duration
		code    int32
		reason  string
	}{
		"at once":            {simulated.Program{}, 30 * time.Second, 0, 0, "Completed"},
		"with its own code":  {simulated.Program{StopAfter: time.Second, StopCode: 143}, 30 * time.Second, time.Second, 143, "Error"},
		"too slowly":         {simulated.Program{StopAfter: time.Minute}, 30 * time.Second, 30 * time.Second, 137, "Error"},
		"stubborn":           {simulated.Program{IgnoresStop: true}, 30 * time.Second, 30 * time.Second, 137, "Error"},
		"no grace":           {simulated.Program{}, 0, 0, 137, "Error"},
		"by itself meantime": {simulated.Program{IgnoresStop: true, Exits: true, After: 5 * time.Second, ExitCode: 9}, 30 * time.Second, 5 * time.Second, 9, "Error"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := simulated.New(simulated.Options{Program: func(simulated.Process) simulated.Program { return c.program }})
				defer r.Close()
				_, id := start(t, r)
				began := time.Now()
				if err := r.StopContainer(t.Context(), id, c.grace); err != nil {
					t.Fatal(err)
				}
				status, err := r.ContainerStatus(t.Context(), id)
				if err != nil || time.Since(began) != c.took || status.ExitCode != c.code || status.Reason != c.reason {
					t.Errorf("ended after %v with %d %s, %v; want %v, %d %s", time.Since(began), status.ExitCode, status.Reason, err, c.took, c.code, c.reason)
				}
			})
		})
	}
}

func TestOutcomes(t *testing.T) {
	boom := errors.New("boom")
	synctest.Test(t, func(t *testing.T) {
		var out simulated.Outcome
		r := simulated.New(simulated.Options{Behave: func(op simulated.Operation) simulated.Outcome {
			if op.Verb == simulated.PullImage && op.Image == "app" {
				return out
			}
			return simulated.Outcome{}
		}})
		defer r.Close()
		pull := func(limit time.Duration) (time.Duration, error) {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			began := time.Now()
			_, err := r.PullImage(ctx, cri.ImageSpec{Image: "app"}, nil)
			return time.Since(began), err
		}
		for _, c := range []struct {
			out  simulated.Outcome
			took time.Duration
			err  error
		}{
			{simulated.Outcome{}, 0, nil},
			{simulated.Outcome{Err: boom}, 0, boom},
			{simulated.Outcome{Delay: time.Second}, time.Second, nil},
			{simulated.Outcome{Delay: time.Second, Err: boom}, time.Second, boom},
			{simulated.Outcome{Delay: time.Hour}, time.Minute, context.DeadlineExceeded},
			{simulated.Outcome{Hang: true}, time.Minute, context.DeadlineExceeded},
		} {
			out = c.out
			if took, err := pull(time.Minute); took != c.took || !errors.Is(err, c.err) {
				t.Errorf("%+v: took %v, %v; want %v, %v", c.out, took, err, c.took, c.err)
			}
		}
	})
}

func TestCloseEndsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := simulated.New(simulated.Options{
			Program: func(simulated.Process) simulated.Program {
				return simulated.Program{Exits: true, After: time.Hour}
			},
			Behave: func(op simulated.Operation) simulated.Outcome {
				return simulated.Outcome{Hang: op.Verb == simulated.StopSandbox}
			},
		})
		sandbox, container := start(t, r)
		stream, err := r.Events(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		results := make(chan error, 3)
		go func() { _, err := stream.Next(t.Context()); results <- err }()
		go func() { results <- r.StopContainer(t.Context(), container, 2*time.Hour) }()
		go func() { results <- r.StopPodSandbox(t.Context(), sandbox) }()
		synctest.Wait()
		// The container ends at the request of the stop, so the stream may have news of that.
		r.Close()
		r.Close()
		for range 3 {
			if err := <-results; err != nil && !errors.Is(err, cri.ErrUnavailable) {
				t.Errorf("after Close: %v", err)
			}
		}
		_, err = r.Version(t.Context())
		if !errors.Is(err, cri.ErrUnavailable) {
			t.Errorf("Version after Close: %v", err)
		}
	})
}

func TestReadersThatFallBehind(t *testing.T) {
	r := simulated.New(simulated.Options{EventBuffer: 2})
	defer r.Close()
	stream, err := r.Events(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	start(t, r)
	if _, err := stream.Next(t.Context()); !errors.Is(err, cri.ErrEventsLost) {
		t.Errorf("Next: %v, want %v", err, cri.ErrEventsLost)
	}
}

func TestAddresses(t *testing.T) {
	r := simulated.New(simulated.Options{Addresses: netip.MustParsePrefix("10.1.2.0/29")})
	defer r.Close()
	var ids []string
	run := func(i int) error {
		id, err := r.RunPodSandbox(t.Context(), cri.SandboxConfig{Metadata: cri.SandboxMetadata{Name: "p", Namespace: "n", UID: fmt.Sprint(i)}})
		if err == nil {
			ids = append(ids, id)
		}
		return err
	}
	seen := map[string]bool{}
	for i := range 5 {
		if err := run(i); err != nil {
			t.Fatal(err)
		}
		status, err := r.SandboxStatus(t.Context(), ids[i])
		if err != nil || seen[status.IPs[0]] {
			t.Errorf("addresses %v, %v", status.IPs, err)
		}
		seen[status.IPs[0]] = true
	}
	for _, reserved := range []string{"10.1.2.0", "10.1.2.1", "10.1.2.7"} {
		if seen[reserved] {
			t.Errorf("%s was given to a pod", reserved)
		}
	}
	if err := run(5); err == nil {
		t.Error("a sixth pod got one of five addresses")
	}
	if err := r.StopPodSandbox(t.Context(), ids[2]); err != nil {
		t.Fatal(err)
	}
	if err := run(6); err != nil {
		t.Errorf("an address that was given back: %v", err)
	}
}

func TestNormalize(t *testing.T) {
	for in, want := range map[string]string{
		"nginx":                 "docker.io/library/nginx:latest",
		"nginx:1.27":            "docker.io/library/nginx:1.27",
		"me/app":                "docker.io/me/app:latest",
		"localhost/app":         "localhost/app:latest",
		"registry:5000/app":     "registry:5000/app:latest",
		"docker.io/nginx":       "docker.io/library/nginx:latest",
		"ghcr.io/a/b@sha256:00": "ghcr.io/a/b@sha256:00",
	} {
		if got := simulated.Normalize(in); got != want {
			t.Errorf("%s is %s, want %s", in, got, want)
		}
	}
}

// TestUsage: what a container is said to use follows from its program and the time.
func TestUsage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := simulated.New(simulated.Options{Program: func(simulated.Process) simulated.Program {
			return simulated.Program{NanoCores: 250_000_000, Memory: 64 << 20}
		}})
		defer r.Close()
		sandbox, id := start(t, r)
		time.Sleep(time.Minute)
		list, err := r.ListContainerStats(t.Context(), cri.Filter{})
		if err != nil || len(list) != 1 || list[0].CPU.CoreNanoSeconds != 15e9 || list[0].CPU.NanoCores != 250_000_000 || list[0].Memory.WorkingSet != 64<<20 {
			t.Errorf("after a minute: %+v, %v", list, err)
		}
		pods, err := r.ListSandboxStats(t.Context(), cri.Filter{ID: sandbox})
		if err != nil || len(pods) != 1 || pods[0].CPU.CoreNanoSeconds != 15e9 || pods[0].Memory.WorkingSet != 64<<20 || len(pods[0].Network) != 1 {
			t.Errorf("after a minute: %+v, %v", pods, err)
		}
		for _, c := range []struct {
			limit int64
			left  uint64
		}{{-1, 0}, {64<<20 - 1, 0}, {80 << 20, 16 << 20}} {
			if err := r.UpdateContainerResources(t.Context(), id, cri.Resources{MemoryLimit: c.limit}); err != nil {
				t.Fatal(err)
			}
			if list, err := r.ListContainerStats(t.Context(), cri.Filter{}); err != nil || len(list) != 1 || list[0].Memory.Available != c.left {
				t.Errorf("with a limit of %d: %+v, %v; want %d bytes left", c.limit, list, err, c.left)
			}
		}
		if err := r.Exit(id, 0); err != nil {
			t.Fatal(err)
		}
		if list, err := r.ListContainerStats(t.Context(), cri.Filter{}); err != nil || len(list) != 0 {
			t.Errorf("after its end: %+v, %v", list, err)
		}
	})
}

// TestLoad: usage may change, and CPU time is counted by what is used when it is read.
func TestLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nano, memory := uint64(500_000_000), uint64(3<<20)
		r := simulated.New(simulated.Options{Program: func(simulated.Process) simulated.Program {
			return simulated.Program{NanoCores: 1, Memory: 1, Load: func() (uint64, uint64) { return nano, memory }}
		}})
		defer r.Close()
		_, id := start(t, r)
		want := func(when string, rate, spent, bytes uint64) {
			t.Helper()
			list, err := r.ListContainerStats(t.Context(), cri.Filter{})
			if err != nil || len(list) != 1 || list[0].CPU.NanoCores != rate || list[0].CPU.CoreNanoSeconds != spent || list[0].Memory.WorkingSet != bytes {
				t.Errorf("%s: %+v, %v", when, list, err)
			}
		}
		time.Sleep(10 * time.Second)
		want("after ten seconds", 500_000_000, 5e9, 3<<20)
		want("at once", 500_000_000, 5e9, 3<<20)
		nano, memory = 1_000_000_000, 0
		time.Sleep(10 * time.Second)
		want("after twenty seconds", 1_000_000_000, 15e9, 0)
		nano = 0
		time.Sleep(10 * time.Second)
		want("idle", 0, 15e9, 0)
		if use := r.Usage(); use.CoreNanoSeconds != 15e9 || use.Memory != 0 {
			t.Errorf("usage %+v", use)
		}
		if err := r.Exit(id, 0); err != nil {
			t.Fatal(err)
		}
		if use := r.Usage(); use.CoreNanoSeconds != 15e9 {
			t.Errorf("usage after its end %+v", use)
		}
	})
}
