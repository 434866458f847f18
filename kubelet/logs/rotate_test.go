package logs_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/kubelet/logs"
)

// runtime has containers whose logs lie in a directory.
type runtime struct {
	dir string

	mu       sync.Mutex
	states   map[string]cri.ContainerState
	reopened []string
	broken   error
}

func (r *runtime) path(id string) string { return filepath.Join(r.dir, id+".log") }

func (r *runtime) ContainerStatus(_ context.Context, id string) (cri.ContainerStatus, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	state, ok := r.states[id]
	if !ok {
		return cri.ContainerStatus{}, cri.ErrNotFound
	}
	return cri.ContainerStatus{Container: cri.Container{ID: id, State: state}, LogPath: r.path(id)}, nil
}

func (r *runtime) ListContainers(context.Context, cri.Filter) ([]cri.Container, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := []cri.Container{{ID: "gone", State: cri.ContainerRunning}}
	for id, state := range r.states {
		all = append(all, cri.Container{ID: id, State: state})
	}
	return all, nil
}

func (r *runtime) ReopenContainerLog(_ context.Context, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reopened = append(r.reopened, id)
	if r.broken != nil {
		return r.broken
	}
	return os.WriteFile(r.path(id), nil, 0o600)
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func TestRotate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // rotated files are named by time
		r := &runtime{dir: t.TempDir(), states: map[string]cri.ContainerState{
			"big": cri.ContainerRunning, "small": cri.ContainerRunning, "ended": cri.ContainerExited, "removed": cri.ContainerRunning,
		}}
		store(t, r.path("small"), day+"01Z stdout F 1")
		store(t, r.path("ended"), strings.Repeat("x", 2000))
		rotator := logs.NewRotator(r, logs.RotatorOptions{MaxSize: 1000, MaxFiles: 3})
		for i := range 5 {
			store(t, r.path("big"), fmt.Sprintf("%s01Z stdout F %d%s", day, i, strings.Repeat("x", 1000)))
			if err := rotator.Rotate(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Duration(i%2) * time.Second) // two may be in the same second
		}
		got := strings.Join(names(t, r.dir), " ")
		if want := "big.log big.log.20000101-000001-001.gz big.log.20000101-000002 ended.log removed.log small.log"; got != want {
			t.Errorf("files %s, want %s", got, want)
		}
		text := read(t, r.path("big"), logs.Options{})
		if lines := strings.Split(text, "\n"); len(lines) != 3 || lines[0][0] != '3' || lines[1][0] != '4' {
			t.Errorf("%d lines are left", len(lines))
		}
	})
}

// TestRotateOften: what is rotated twice in a second is kept twice.
func TestRotateOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &runtime{dir: t.TempDir(), states: map[string]cri.ContainerState{"c": cri.ContainerRunning}}
		rotator := logs.NewRotator(r, logs.RotatorOptions{MaxSize: 10, MaxFiles: 9})
		want := ""
		for i := range 4 {
			store(t, r.path("c"), fmt.Sprintf("%s01Z stdout F %d", day, i))
			if err := rotator.Rotate(t.Context()); err != nil {
				t.Fatal(err)
			}
			want += fmt.Sprintln(i)
		}
		if got := read(t, r.path("c"), logs.Options{}); got != want {
			t.Errorf("left is %q in %v", got, names(t, r.dir))
		}
	})
}

// TestRotationFails: a runtime that does not reopen the log keeps writing to it.
func TestRotationFails(t *testing.T) {
	r := &runtime{dir: t.TempDir(), states: map[string]cri.ContainerState{"c": cri.ContainerRunning}, broken: errors.New("broken")}
	store(t, r.path("c"), strings.Repeat("x", 2000))
	rotator := logs.NewRotator(r, logs.RotatorOptions{MaxSize: 1000})
	if err := rotator.Rotate(t.Context()); !errors.Is(err, r.broken) || !strings.Contains(err.Error(), "log of container c") {
		t.Error(err)
	}
	if got := names(t, r.dir); len(got) != 1 || got[0] != "c.log" {
		t.Errorf("files %v", got)
	}
}

// TestRotationGoesOn: the failure of one log does not affect others, and all failures are returned.
func TestRotationGoesOn(t *testing.T) {
	r := &runtime{dir: t.TempDir(), states: map[string]cri.ContainerState{"a": cri.ContainerRunning, "b": cri.ContainerRunning}, broken: errors.New("broken")}
	store(t, r.path("a"), strings.Repeat("x", 999)) // with the line end exactly at the limit
	store(t, r.path("b"), strings.Repeat("x", 998))
	rotator := logs.NewRotator(r, logs.RotatorOptions{MaxSize: 1000})
	if err := rotator.Rotate(t.Context()); err == nil || len(r.reopened) != 1 || r.reopened[0] != "a" {
		t.Errorf("rotated %v: %v", r.reopened, err)
	}
	store(t, r.path("b"), strings.Repeat("x", 999))
	if err := rotator.Rotate(t.Context()); err == nil || !strings.Contains(err.Error(), "container a:") || !strings.Contains(err.Error(), "container b:") {
		t.Errorf("got %v", err)
	}
}

// TestRotationBrokeOff: the leftovers of a crash are cleaned up.
func TestRotationBrokeOff(t *testing.T) {
	r := &runtime{dir: t.TempDir(), states: map[string]cri.ContainerState{"c": cri.ContainerRunning}}
	log := r.path("c")
	store(t, log, strings.Repeat("x", 2000))
	store(t, log+".20000101-000000", "compressed, and not removed")
	store(t, log+".20000101-000000.gz", "compressed")
	store(t, log+".20000101-000001", "not compressed")
	store(t, log+".20000101-000001.tmp", "half compressed")
	if err := logs.NewRotator(r, logs.RotatorOptions{MaxSize: 1000, MaxFiles: 10}).Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := names(t, r.dir)
	if len(got) != 4 || got[1] != "c.log.20000101-000000.gz" || got[2] != "c.log.20000101-000001.gz" {
		t.Errorf("files %v", got)
	}
	if _, err := os.Stat(log); errors.Is(err, fs.ErrNotExist) {
		t.Error("no log is there")
	}
}

func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &runtime{dir: t.TempDir(), states: map[string]cri.ContainerState{"c": cri.ContainerRunning}}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- logs.NewRotator(r, logs.RotatorOptions{}).Run(ctx) }()
		time.Sleep(9 * time.Second)
		r.mu.Lock()
		early := len(r.reopened)
		r.mu.Unlock()
		time.Sleep(2 * time.Second)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if early != 0 || len(r.reopened) != 1 {
			t.Errorf("looked %d times before ten seconds, %d after", early, len(r.reopened))
		}
	})
}

func TestRemove(t *testing.T) {
	log := rotated(t)
	other := strings.Replace(log, "0.log", "10.log", 1)
	store(t, other, day+"01Z stdout F 1")
	for range 2 {
		if err := logs.Remove(log); err != nil {
			t.Error(err)
		}
	}
	if got := names(t, filepath.Dir(log)); len(got) != 1 || got[0] != "10.log" {
		t.Errorf("files %v are left", got)
	}
}
