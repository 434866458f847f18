package eviction_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/kubelet/eviction"
	"github.com/keelson-dev/keelson/kubelet/machine"
)

func TestNewNeedsANodeAndItsStatistics(t *testing.T) {
	w := newWorld()
	for name, create := range map[string]func() (*eviction.Evictor, error){
		"node":       func() (*eviction.Evictor, error) { return eviction.New(nil, w, eviction.Options{}) },
		"statistics": func() (*eviction.Evictor, error) { return eviction.New(w, nil, eviction.Options{}) },
	} {
		if e, err := create(); err == nil || e != nil {
			t.Errorf("without %s: %v", name, err)
		}
	}
}

// runBare runs an Evictor without options until the returned function is called.
func runBare(t *testing.T, w *world, o eviction.Options) (stop func()) {
	t.Helper()
	e, err := eviction.New(w, w, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// Without options, the default thresholds apply and nothing is notified.
func TestZeroOptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(use("large", 10*gibi-50*mebi, 0, 0, 0))
		stop := runBare(t, w, eviction.Options{})
		time.Sleep(5 * time.Second)
		if got := w.told(); len(got) != 1 || !strings.Contains(got[0], "evicts large") || len(w.Pods()) != 0 {
			t.Errorf("told %q", got)
		}
		stop()
	})
}

// Without a reclaimer, pods are evicted at once.
func TestNothingReclaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(use("writer", 0, 9*gibi, 0, 0))
		stop := runBare(t, w, eviction.Options{Thresholds: parse(t, eviction.Config{Hard: map[string]string{"nodefs.available": "20%"}})})
		time.Sleep(5 * time.Second)
		if got := w.told(); len(got) != 1 || !strings.Contains(got[0], "evicts writer") {
			t.Errorf("told %q", got)
		}
		stop()
	})
}

// short is a node on which one thing is short.
type short struct {
	*world
	signal eviction.Signal
}

func (s short) Summary(ctx context.Context) (*v1alpha1.Summary, error) {
	out, err := s.world.Summary(ctx)
	if err != nil {
		return nil, err
	}
	none := ptr[uint64](0)
	switch s.signal {
	case eviction.NodeFsAvailable:
		out.Node.Fs.AvailableBytes = none
	case eviction.NodeFsInodesFree:
		out.Node.Fs.InodesFree = none
	case eviction.ImageFsAvailable:
		out.Node.Runtime.ImageFs.AvailableBytes = none
	case eviction.ImageFsInodesFree:
		out.Node.Runtime.ImageFs.InodesFree = none
	case eviction.PIDAvailable:
		out.Node.Rlimit.NumOfRunningProcesses = out.Node.Rlimit.MaxPID
	case eviction.MemoryAvailable:
		out.Node.Memory.AvailableBytes, out.Node.Memory.WorkingSetBytes = none, ptr[uint64](10*gibi)
	}
	return out, nil
}

// Only what is on the short filesystem is reclaimed.
func TestWhatIsReclaimed(t *testing.T) {
	const both, containers, images = "reclaims containers, reclaims images", "reclaims containers", "reclaims images"
	one, dedicated, split := eviction.Layout{}, eviction.Layout{DedicatedImages: true}, eviction.Layout{DedicatedImages: true, SplitContainers: true}
	for _, tt := range []struct {
		signal eviction.Signal
		layout eviction.Layout
		want   string
	}{
		{eviction.MemoryAvailable, one, ""},
		{eviction.PIDAvailable, one, ""},
		{eviction.NodeFsAvailable, one, both},
		{eviction.NodeFsInodesFree, one, both},
		{eviction.ImageFsAvailable, one, both},
		{eviction.ImageFsInodesFree, one, both},
		{eviction.NodeFsAvailable, dedicated, ""},
		{eviction.NodeFsInodesFree, dedicated, ""},
		{eviction.ImageFsAvailable, dedicated, both},
		{eviction.ImageFsInodesFree, dedicated, both},
		{eviction.NodeFsAvailable, split, containers},
		{eviction.NodeFsInodesFree, split, containers},
		{eviction.ImageFsAvailable, split, images},
		{eviction.ImageFsInodesFree, split, images},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(use("p", 0, 0, 0, 0))
			e, err := eviction.New(w, short{w, tt.signal}, eviction.Options{
				Thresholds: []eviction.Threshold{{Signal: tt.signal, Value: eviction.Value{Share: 0.1}}}, Reclaimer: w,
				Layout: func(context.Context) (eviction.Layout, error) { return tt.layout, nil },
			})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			if err := e.Run(ctx); err != nil {
				t.Error(err)
			}
			var got []string
			evicted := false
			for _, line := range w.told() {
				_, what, _ := strings.Cut(line, " ")
				if strings.HasPrefix(what, "evicts p") {
					evicted = true
				} else {
					got = append(got, what)
				}
			}
			if strings.Join(got, ", ") != tt.want || !evicted {
				t.Errorf("%s of %+v: %v, evicted %v", tt.signal, tt.layout, got, evicted)
			}
		})
	}
}

// failing is a node on which reclaiming and some evictions fail.
type failing struct{ *world }

func (f failing) ReclaimContainers(context.Context) error { return errors.New("no containers") }
func (f failing) ReclaimImages(context.Context) error     { return errors.New("no images") }

func (f failing) Evict(ctx context.Context, e eviction.Eviction) error {
	if e.Pod.Name == "stubborn" {
		f.note("cannot evict stubborn")
		return errors.New("it stays")
	}
	return f.world.Evict(ctx, e)
}

// Failures are logged once, with their reason.
func TestFailuresAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		w := newWorld(use("stubborn", 0, 0, 0, 100*mebi), use("beyond", 0, 0, 0, 100*mebi))
		for _, pod := range w.pods {
			withVolume(pod).Spec.Volumes[0].EmptyDir.SizeLimit = ptr(list("x", "10Mi")["x"])
		}
		e, err := eviction.New(failing{w}, w, eviction.Options{
			Thresholds: []eviction.Threshold{}, Period: time.Minute,
			Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})),
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
		defer cancel()
		if err := e.Run(ctx); err != nil {
			t.Error(err)
		}
		message := `Usage of EmptyDir volume "v" exceeds the limit "10Mi". `
		// One was evicted, the other was not: it gets its time, as without failures.
		if got := w.told(); !slices.Equal(got, []string{"0s cannot evict stubborn", "0s evicts beyond in 1 s: " + message, "1m1s cannot evict stubborn"}) {
			t.Errorf("told %q", got)
		}
		if got := log.String(); strings.Count(got, "\n") != 2 || strings.Count(got, `msg="detecting pressure failed" error="evicting pod default/stubborn: it stays"`) != 2 {
			t.Errorf("logged %s", got)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		w := newWorld(use("writer", 0, 9*gibi, 0, 0))
		calls := 0
		stop := runBare(t, w, eviction.Options{
			Thresholds: parse(t, eviction.Config{Hard: map[string]string{"nodefs.available": "20%"}}), Reclaimer: failing{w},
			Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})),
			Layout: func(context.Context) (eviction.Layout, error) {
				if calls++; calls == 1 {
					return eviction.Layout{}, errors.New("not yet")
				}
				return eviction.Layout{}, nil
			},
		})
		time.Sleep(15 * time.Second)
		w.mu.Lock()
		w.failed = errors.New("the runtime is gone")
		w.mu.Unlock()
		time.Sleep(10 * time.Second)
		stop()
		for _, want := range []string{`error="looking at filesystems: not yet"`, `msg="reclaiming failed" signal=nodefs.available error="no containers\nno images"`, `error="the runtime is gone"`} {
			if strings.Count(log.String(), want) != 1 {
				t.Errorf("logged %s", &log)
			}
		}
		if n := strings.Count(log.String(), "\n"); n != 3 {
			t.Errorf("%d lines: %s", n, &log)
		}
	})
}

// Nothing is logged for a healthy node, nor at the end.
func TestQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		w := newWorld(use("p", 0, 0, 0, 0), use("large", 10*gibi-50*mebi, 0, 0, 0))
		stop := runBare(t, w, eviction.Options{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))})
		time.Sleep(time.Minute)
		w.mu.Lock()
		w.stuck = true
		w.pods = append(w.pods, newPod("large", 0, nil, nil))
		w.mu.Unlock()
		time.Sleep(11 * time.Second) // in the middle of an eviction
		stop()
		if log.Len() > 0 {
			t.Errorf("logged %s", &log)
		}
	})
}

type someImages struct {
	image, layers cri.FilesystemUsage
	err           error
}

func (i someImages) ImageFilesystem(context.Context) (cri.FilesystemUsage, cri.FilesystemUsage, error) {
	return i.image, i.layers, i.err
}

// A runtime that reports one filesystem has its writable layers there too.
func TestFindLayoutOfOneFilesystem(t *testing.T) {
	disk := func(path string) (machine.Filesystem, error) {
		id, ok := map[string]uint64{"/node": 1, "/images": 2}[path]
		if !ok {
			return machine.Filesystem{}, machine.ErrUnreadable
		}
		return machine.Filesystem{ID: id}, nil
	}
	got, err := eviction.FindLayout(someImages{image: cri.FilesystemUsage{Mountpoint: "/images"}}, "/node", disk)(t.Context())
	if want := (eviction.Layout{DedicatedImages: true}); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	broken := errors.New("broken")
	if _, err := eviction.FindLayout(someImages{err: broken}, "/node", disk)(t.Context()); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}
