package pinning_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/kubelet/pinning"
	"github.com/keelson-dev/keelson/kubelet/pinning/numa"
)

// without has one of the policies only.
func without(change func(*pinning.Settings)) pinning.Settings {
	s := static("", "")
	change(&s)
	return s
}

func onlyCPUs() pinning.Settings {
	return without(func(s *pinning.Settings) { s.Memory = pinning.MemorySettings{} })
}

func onlyMemory() pinning.Settings {
	return without(func(s *pinning.Settings) { s.CPUs = pinning.CPUSettings{} })
}

// runs runs an Allocator until the returned function is called.
func runs(t *testing.T, a *pinning.Allocator) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	synctest.Wait()
	return func() {
		t.Helper()
		synctest.Wait()
		select {
		case err := <-done:
			t.Errorf("it has ended early: %v", err)
			return
		default:
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// period lets one period pass.
func period() {
	time.Sleep(pinning.DefaultPeriod)
	synctest.Wait()
}

// TestRunsUntilTheEnd: without policies there is nothing to do until the context ends.
func TestRunsUntilTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := runs(t, start(t, t.TempDir(), newNode(), pinning.Settings{}))
		time.Sleep(time.Hour)
		end()
	})
}

// TestRunOnlyCPUs: containers are told their CPUs also if memory is not given away.
func TestRunOnlyCPUs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		a := start(t, t.TempDir(), n, onlyCPUs())
		own := pod("own", sized("main", 2, "1Gi"), sized("more", 1, "1Gi"))
		own.Spec.InitContainers = []corev1.Container{sized("init", 1, "1Gi")}
		own.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "init", ContainerID: "test://own-init", State: own.Status.ContainerStatuses[0].State}}
		nameless := pod("nameless", corev1.Container{Name: "main"})
		nameless.Status.ContainerStatuses[0].ContainerID = ""
		n.add(own, nameless)
		if r := a.Admit(own); r != nil {
			t.Fatal(r)
		}
		end := runs(t, a)
		for id, want := range map[string]string{"own-init": "4", "own-main": "1,5", "own-more": "4", "": ""} {
			if got := n.told(id); got != want {
				t.Errorf("%q is told %q, want %q", id, got, want)
			}
		}
		end()
	})
}

// TestRunOnlyMemory: what pods had that have ended is taken back, at the next period, and no container is told anything.
func TestRunOnlyMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, n := t.TempDir(), newNode()
		a, err := pinning.New(dir, machine(), n, nil, pinning.Options{Settings: onlyMemory()})
		if err != nil {
			t.Fatal(err)
		}
		own := pod("own", sized("main", 2, "1Gi"))
		n.add(own)
		if r := a.Admit(own); r != nil {
			t.Fatal(r)
		}
		end := runs(t, a)
		if got := read(t, dir, memoryFile); !strings.Contains(got, `"own"`) {
			t.Error(got)
		}
		n.remove("own")
		period()
		if got := read(t, dir, memoryFile); strings.Contains(got, `"own"`) {
			t.Errorf("of a pod that has ended: %s", got)
		}
		forget(t, dir)
		period()
		if got := read(t, dir, cpuFile) + read(t, dir, memoryFile); got != "nonenone" {
			t.Errorf("nothing has changed: %s", got)
		}
		end()
	})
}

// ended are the pods of a node of which one is not live any more.
type ended struct {
	*node
	uid types.UID
}

func (e ended) Live(uid types.UID) bool { return uid != e.uid && e.node.Live(uid) }

// TestRunTells: containers of pods that have ended are told nothing, and who was away is told again.
func TestRunTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		a, err := pinning.New(t.TempDir(), machine(), ended{n, "old"}, n, pinning.Options{Settings: onlyCPUs()})
		if err != nil {
			t.Fatal(err)
		}
		shares := pod("shares", corev1.Container{Name: "main"})
		n.add(pod("old", corev1.Container{Name: "main"}), shares)
		end := runs(t, a)
		n.remove("shares")
		period()
		n.add(shares)
		period()
		if got := n.told("shares-main"); got != "0-7 0-7" {
			t.Errorf("told %q", got)
		}
		if got := n.told("old-main"); got != "" {
			t.Errorf("a container of a pod that has ended is told %q", got)
		}
		end()
	})
}

// journal is what was logged.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

// take returns what was logged since the last time.
func (j *journal) take() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	text := j.text.String()
	j.text.Reset()
	return text
}

// hanging never answers about a container, until the caller gives up.
type hanging struct{ *node }

func (h hanging) UpdateContainerResources(ctx context.Context, id string, r cri.Resources) error {
	if id != "stuck-main" {
		return h.node.UpdateContainerResources(ctx, id, r)
	}
	<-ctx.Done()
	return ctx.Err()
}

// TestRuntimeHangs: a runtime that does not answer about one container delays the others by two minutes.
func TestRuntimeHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		var log journal
		a, err := pinning.New(t.TempDir(), machine(), n, hanging{n}, pinning.Options{Settings: onlyCPUs(), Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		n.add(pod("stuck", corev1.Container{Name: "main"}))
		end := runs(t, a)
		time.Sleep(2*time.Minute - time.Second)
		synctest.Wait()
		if got := log.take(); got != "" {
			t.Errorf("given up early: %s", got)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got := log.take(); strings.Count(got, "failed to update container") != 1 || !strings.Contains(got, "pod=default/stuck container=main cpus=0-7") {
			t.Errorf("%s", got)
		}
		period()
		end()
		if got := log.take(); got != "" {
			t.Errorf("that this ends is no failure of the runtime: %s", got)
		}
	})
}

// TestNoRuntime: only CPUs need a runtime that can update containers.
func TestNoRuntime(t *testing.T) {
	for name, c := range map[string]struct {
		settings pinning.Settings
		want     error
	}{
		"nothing": {pinning.Settings{}, nil},
		"memory":  {onlyMemory(), nil},
		"CPUs":    {onlyCPUs(), cri.ErrUnsupported},
	} {
		if _, err := pinning.New(t.TempDir(), machine(), newNode(), nil, pinning.Options{Settings: c.settings}); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// TestPinWithoutQuota: a container that has no quota, because the node enforces none, gets none.
func TestPinWithoutQuota(t *testing.T) {
	n := newNode()
	a := start(t, t.TempDir(), n, static("", ""))
	if r := a.Admit(pod("own", sized("main", 2, "1Gi"))); r != nil {
		t.Fatal(r)
	}
	var r cri.Resources
	if a.Pin("own", "main", &r); r.CPUQuota != 0 || r.CPUs != "1,5" {
		t.Errorf("%+v", r)
	}
}

// TestTogetherByMemory: the memory of all containers decides where a pod is, as their CPUs do.
func TestTogetherByMemory(t *testing.T) {
	n := newNode()
	a := start(t, t.TempDir(), n, static(numa.SingleNode, pinning.ScopePod))
	if r := a.Admit(pod("own", sized("main", 1, "1900Mi"), sized("more", 1, "1900Mi"))); r != nil {
		t.Fatal(r)
	}
	if got := pinned(a, "own", "main") + "; " + pinned(a, "own", "more"); got != "2 on 1, quota -1; 6 on 1, quota -1" {
		t.Error(got)
	}
}

// TestFirstRefused: a pod is refused because of its first container, whatever comes behind it.
func TestFirstRefused(t *testing.T) {
	n := newNode()
	for topology, want := range map[string]string{"": pinning.ReasonUnexpected, numa.SingleNode: pinning.ReasonTopology} {
		a := start(t, t.TempDir(), n, static(topology, ""))
		if r := a.Admit(pod("own", sized("main", 8, "1Gi"), sized("more", 1, "1Gi"))); r == nil || r.Reason != want || a.Exclusive("own") {
			t.Errorf("%s: %+v, want %s", topology, r, want)
		}
	}
}

// TestResizeOfMany: the first container that differs decides, and one that was not there before does not.
func TestResizeOfMany(t *testing.T) {
	a := start(t, t.TempDir(), newNode(), static("", ""))
	given := pod("a", sized("main", 1, "1Gi"), sized("more", 1, "1Gi"))
	for name, c := range map[string]struct {
		wanted *corev1.Pod
		want   bool
	}{
		"the first":           {pod("a", sized("main", 2, "1Gi"), sized("more", 1, "1Gi")), true},
		"the second":          {pod("a", sized("main", 1, "1Gi"), sized("more", 1, "2Gi")), true},
		"none":                {given, false},
		"written differently": {pod("a", sized("main", 1, "1024Mi"), sized("more", 1, "1Gi")), false},
		"a new one":           {pod("a", sized("main", 1, "1Gi"), sized("more", 1, "1Gi"), sized("new", 1, "1Gi")), false},
	} {
		if r := a.AdmitResize(given, c.wanted); (r != nil) != c.want {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// TestAny: which settings need to know the machine.
func TestAny(t *testing.T) {
	for name, c := range map[string]struct {
		settings pinning.Settings
		want     bool
	}{
		"nothing": {pinning.Settings{Reserved: corev1.ResourceList{"cpu": resource.MustParse("1")}}, false},
		"by name": {pinning.Settings{
			CPUs: pinning.CPUSettings{Policy: pinning.CPUsShared}, Memory: pinning.MemorySettings{Policy: pinning.MemoryShared}, Topology: pinning.TopologySettings{Policy: numa.None},
		}, false},
		"CPUs":     {pinning.Settings{CPUs: pinning.CPUSettings{Policy: pinning.CPUsExclusive}}, true},
		"memory":   {pinning.Settings{Memory: pinning.MemorySettings{Policy: pinning.MemoryExclusive}}, true},
		"topology": {pinning.Settings{Topology: pinning.TopologySettings{Policy: numa.BestEffort}}, true},
	} {
		if got := c.settings.Any(); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
