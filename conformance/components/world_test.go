package components_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/internal/clusterprocess"
	"github.com/keelson-dev/keelson/internal/upstream"
)

// patience bounds every wait; on an idle machine each takes seconds.
const patience = 2 * time.Minute

// world is a running cluster: examples/cluster, or upstream's.
type world struct {
	dir    string
	config *rest.Config
	api    kubernetes.Interface
}

// newWorld starts examples/cluster; flags may disable components that others replace.
func newWorld(t *testing.T, flags ...string) *world {
	t.Helper()
	program, err := clusterprocess.Build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return started(t, program, t.TempDir(), flags...)
}

// started starts the program in a directory.
func started(t *testing.T, program clusterprocess.Program, dir string, flags ...string) *world {
	t.Helper()
	// The context of a test ends before its cleanups.
	process, err := program.Start(context.WithoutCancel(t.Context()), dir, flags...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := process.Interrupt(); err != nil {
			t.Error(err)
		}
	})
	config, err := process.Config()
	if err != nil {
		t.Fatal(err)
	}
	return worldOf(t, dir, config)
}

// worldOf is a cluster whose certificates are in a directory.
func worldOf(t *testing.T, dir string, config *rest.Config) *world {
	t.Helper()
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return &world{dir: dir, config: config, api: api}
}

// process is a program that runs beside the test.
type process struct {
	command *exec.Cmd
	ended   chan error
	stopped bool
}

// upstreams runs one of upstream's programs.
func upstreams(t *testing.T, name string, args ...string) {
	t.Helper()
	kubernetes, err := upstream.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	path, err := kubernetes.Build(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	start(t, path, args...)
}

// start runs a program until it is stopped, or the test ends. It must not end by itself.
func start(t *testing.T, path string, args ...string) *process {
	t.Helper()
	name := filepath.Base(path)
	log, err := os.Create(filepath.Join(t.TempDir(), name+".log"))
	if err != nil {
		t.Fatal(err)
	}
	p := &process{command: exec.Command(path, args...), ended: make(chan error, 1)}
	p.command.Stdout, p.command.Stderr = log, log
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.ended <- p.command.Wait() }()
	t.Cleanup(func() {
		p.stop(t)
		if text, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("the last of %s:\n%s", name, text[max(0, len(text)-8000):])
		}
		_ = log.Close()
	})
	return p
}

// stop stops the program gracefully, once.
func (p *process) stop(t *testing.T) {
	t.Helper()
	if p.stopped {
		return
	}
	p.stopped = true
	select {
	case err := <-p.ended:
		t.Errorf("%s ended by itself: %v", p.command.Path, err)
		return
	default:
	}
	_ = p.command.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(patience):
		_ = p.command.Process.Kill()
		<-p.ended
		t.Errorf("%s did not end when it was asked to", p.command.Path)
	}
}

// eventually waits until look returns an empty string. On timeout it reports the last one.
func eventually(t *testing.T, what string, look func(ctx context.Context) (missing string, err error)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	last := "nothing was seen"
	for {
		missing, err := look(ctx)
		switch {
		case err == nil && missing == "":
			return
		case err == nil:
			last = missing
		case ctx.Err() == nil: // otherwise the wait ended
			last = err.Error()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s: after %v: %s", what, patience, last)
		}
	}
}

// differ describes the difference.
func differ(got, want any) string {
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		return fmt.Sprintf("got %s, want %s", g, w)
	}
	return ""
}
