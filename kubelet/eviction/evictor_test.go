package eviction_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/kubelet/eviction"
	"github.com/keelson-dev/keelson/kubelet/machine"
)

// world is a node with 10 GiB of memory and disk, whose pods use fixed amounts until they are evicted.
type world struct {
	start time.Time

	mu     sync.Mutex
	pods   []*corev1.Pod
	uses   map[string]v1alpha1.PodStats
	images uint64 // bytes of unused ones
	system uint64 // memory used by other processes than pods
	failed error  // of Summary
	stuck  bool   // Evict does not return
	blind  error  // of Summary after images were reclaimed
	log    []string
}

func (w *world) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, fmt.Sprintf("%v ", time.Since(w.start))+fmt.Sprintf(format, args...))
}

func (w *world) told() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	log := w.log
	w.log = nil
	return log
}

func (w *world) Pods() []*corev1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.pods)
}

func (w *world) Evict(ctx context.Context, e eviction.Eviction) error {
	w.note("evicts %s in %d s: %s", e.Pod.Name, e.Grace, e.Message)
	if w.stuck {
		<-ctx.Done()
		return ctx.Err()
	}
	time.Sleep(time.Duration(e.Grace) * time.Second)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pods = slices.DeleteFunc(w.pods, func(p *corev1.Pod) bool { return p.UID == e.Pod.UID })
	return nil
}

func (w *world) Summary(context.Context) (*v1alpha1.Summary, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed != nil {
		return nil, w.failed
	}
	memory, disk := w.system, w.images
	var pods []v1alpha1.PodStats
	for _, pod := range w.pods {
		use := w.uses[pod.Name]
		pods = append(pods, use)
		memory += *use.Memory.WorkingSetBytes
		disk += *use.EphemeralStorage.UsedBytes
	}
	return summary(time.Now(), 10*gibi-memory, 10*gibi-disk, pods...), nil
}

func (w *world) ReclaimContainers(context.Context) error {
	w.note("reclaims containers")
	return nil
}

func (w *world) ReclaimImages(context.Context) error {
	w.note("reclaims images")
	w.mu.Lock()
	defer w.mu.Unlock()
	w.images, w.failed = 0, w.blind
	return nil
}

// run runs an Evictor over the world until the test ends.
func (w *world) run(t *testing.T, o eviction.Options) *eviction.Evictor {
	t.Helper()
	o.Recorder = events.Func(func(e events.Event) { w.note("event %s %s: %s", e.Regarding.Kind, e.Reason, e.Message) })
	o.Node = corev1.ObjectReference{Kind: "Node"}
	o.Changed = func() { w.note("conditions changed") }
	o.Evicted = func(signal string) { w.note("counts %s", signal) }
	o.Reclaimer = w
	e, err := eviction.New(w, w, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return e
}

func newWorld(uses ...v1alpha1.PodStats) *world {
	w := &world{start: time.Now(), uses: map[string]v1alpha1.PodStats{}}
	for _, use := range uses {
		w.pods = append(w.pods, newPod(use.PodRef.Name, 0, nil, nil))
		w.uses[use.PodRef.Name] = use
	}
	return w
}

func (w *world) expect(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	if got := w.told(); !reflect.DeepEqual(got, want) {
		t.Errorf("told\n%q\nnot\n%q", got, want)
	}
}

func TestMemoryPressure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(use("large", 4*gibi, 0, 0, 0), use("larger", 5*gibi, 0, 0, 0), use("critical", gibi-50*mebi, 0, 0, 0))
		w.pods[2].Spec.Priority = ptr[int32](2_000_000_000)
		e := w.run(t, eviction.Options{})
		time.Sleep(5 * time.Second)
		message := "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. Container c was using 5Gi, request is 0, has larger consumption of memory. "
		w.expect(t,
			"0s conditions changed",
			"0s event Node EvictionThresholdMet: Attempting to reclaim memory",
			"0s event Pod Evicted: "+message,
			"0s counts memory.available",
			"0s evicts larger in 1 s: "+message)
		if got := fmt.Sprint(e.Conditions()); got != "[MemoryPressure]" {
			t.Errorf("conditions %s", got)
		}
		if message, ok := e.Admit(newPod("new", 0, nil, nil)); ok || message != "The node had condition: [MemoryPressure]. " {
			t.Errorf("a pod is admitted: %q", message)
		}
		time.Sleep(301 * time.Second)
		w.expect(t, "5m2s conditions changed")
		if len(e.Conditions()) != 0 || len(w.Pods()) != 2 {
			t.Errorf("conditions %v, %d pods", e.Conditions(), len(w.Pods()))
		}
		if _, ok := e.Admit(newPod("new", 0, nil, nil)); !ok {
			t.Error("a pod is not admitted")
		}
	})
}

// TestReclaim: images are removed before pods are evicted.
func TestReclaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		thresholds := parse(t, eviction.Config{Hard: map[string]string{"nodefs.available": "20%"}})
		w := newWorld(use("writer", 0, 2*gibi, 0, 0), use("idle", 0, 0, 0, 0))
		w.images = 7 * gibi
		w.run(t, eviction.Options{Thresholds: thresholds})
		time.Sleep(15 * time.Second)
		w.expect(t, "0s conditions changed", "0s event Node EvictionThresholdMet: Attempting to reclaim ephemeral-storage",
			"0s reclaims containers", "0s reclaims images")

		// If that is not enough, the pod that writes the most is evicted.
		w.mu.Lock()
		w.uses["writer"] = use("writer", 0, 9*gibi, 0, 0)
		w.mu.Unlock()
		time.Sleep(10 * time.Second)
		message := "The node was low on resource: ephemeral-storage. Threshold quantity: 2147483680, available: 1Gi. Container c was using 9Gi, request is 0, has larger consumption of ephemeral-storage. "
		w.expect(t, "20s event Node EvictionThresholdMet: Attempting to reclaim ephemeral-storage",
			"20s reclaims containers", "20s reclaims images", "20s event Pod Evicted: "+message,
			"20s counts nodefs.available", "20s evicts writer in 1 s: "+message)
	})
}

func TestLocalStorageIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(use("fine", 0, 0, 0, mebi), use("beyond", 0, 0, 0, 100*mebi), use("critical", 0, 0, 0, 100*mebi))
		for _, pod := range w.pods {
			withVolume(pod).Spec.Volumes[0].EmptyDir.SizeLimit = ptr(list("x", "10Mi")["x"])
		}
		w.pods[2].Spec.Priority = ptr[int32](2_000_000_000)
		w.run(t, eviction.Options{Thresholds: []eviction.Threshold{}})
		time.Sleep(30 * time.Second)
		message := `Usage of EmptyDir volume "v" exceeds the limit "10Mi". `
		w.expect(t, "0s event Pod Evicted: "+message, "0s counts emptydirfs.limit", "0s evicts beyond in 1 s: "+message)
	})
}

// TestTroubles: an Evictor continues if observations fail, or if a pod does not end.
func TestTroubles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(use("large", 10*gibi-50*mebi, 0, 0, 0))
		w.failed, w.stuck = errors.New("the runtime is gone"), true
		calls := 0
		w.run(t, eviction.Options{Layout: func(context.Context) (eviction.Layout, error) {
			if calls++; calls == 1 {
				return eviction.Layout{}, errors.New("not yet")
			}
			return eviction.Layout{}, nil
		}})
		time.Sleep(35 * time.Second)
		w.expect(t)
		w.mu.Lock()
		w.failed = nil
		w.mu.Unlock()
		time.Sleep(50 * time.Second)
		synctest.Wait()
		if log := w.told(); len(log) != 9 { // the conditions, and two per attempt
			t.Errorf("told %q", log)
		}
	})
}

// TestCriticalPodsStay: critical pods stay even if they use the most or nothing else is left.
func TestCriticalPodsStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(use("static", 9*gibi, 0, 0, 0), use("other", gibi-50*mebi, 0, 0, 0))
		w.pods[0].Annotations = map[string]string{"kubernetes.io/config.source": "file"}
		w.system = 200 * mebi
		w.run(t, eviction.Options{})
		time.Sleep(time.Minute)
		w.mu.Lock()
		w.uses["static"] = use("static", 10*gibi-250*mebi, 0, 0, 0)
		w.mu.Unlock()
		time.Sleep(5 * time.Minute)
		if pods := w.Pods(); len(pods) != 1 || pods[0].Name != "static" {
			t.Errorf("%d pods are left", len(pods))
		}
		evicted := slices.DeleteFunc(w.told(), func(line string) bool { return !strings.Contains(line, "evicts") })
		if len(evicted) != 1 || !strings.Contains(evicted[0], "evicts other") {
			t.Errorf("told %q", evicted)
		}
	})
}

// TestOneReasonAtATime: a pod over its own limit is evicted first, and then the node is checked again.
func TestOneReasonAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(use("writer", 100*mebi, 0, 0, 100*mebi), use("large", 10*gibi-150*mebi, 0, 0, 0))
		withVolume(w.pods[0]).Spec.Volumes[0].EmptyDir.SizeLimit = ptr(list("x", "10Mi")["x"])
		w.run(t, eviction.Options{})
		time.Sleep(time.Minute)
		message := `Usage of EmptyDir volume "v" exceeds the limit "10Mi". `
		w.expect(t, "0s conditions changed", // after the eviction there is enough memory
			"0s event Pod Evicted: "+message, "0s counts emptydirfs.limit", "0s evicts writer in 1 s: "+message)
	})
}

// TestPatience: a pod gets its grace period, and the Evictor's patience on top, before anything else is done.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(use("large", 10*gibi-50*mebi, 0, 0, 0))
		w.pods[0].Spec.TerminationGracePeriodSeconds = ptr[int64](100)
		w.stuck = true
		thresholds := parse(t, eviction.Config{Soft: map[string]string{"memory.available": "1Gi"}, SoftGracePeriod: map[string]string{"memory.available": "20s"}})
		w.run(t, eviction.Options{Thresholds: thresholds, MaxGrace: 60})
		time.Sleep(4 * time.Minute)
		var times []string
		for _, line := range w.told() {
			if at, rest, _ := strings.Cut(line, " "); strings.HasPrefix(rest, "evicts large in 60 s") {
				times = append(times, at)
			}
		}
		if got := strings.Join(times, " "); got != "20s 2m0s 3m40s" { // 60 s, 30 s and the period of 10 s
			t.Errorf("evicts at %s", got)
		}
	})
}

// TestBlindAfterReclaim: a reclaim counts as sufficient only if an observation shows it.
func TestBlindAfterReclaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(use("writer", 0, 2*gibi, 0, 0))
		w.images, w.blind = 7*gibi, errors.New("the runtime is gone")
		w.run(t, eviction.Options{Thresholds: parse(t, eviction.Config{Hard: map[string]string{"nodefs.available": "20%"}})})
		time.Sleep(5 * time.Second)
		log := w.told()
		if len(log) == 0 || !strings.Contains(log[len(log)-1], "evicts writer") {
			t.Errorf("told %q", log)
		}
	})
}

func TestFindLayout(t *testing.T) {
	for _, test := range []struct {
		node, images, layers uint64
		want                 eviction.Layout
	}{
		{1, 1, 1, eviction.Layout{}},
		{1, 2, 2, eviction.Layout{DedicatedImages: true}},
		{1, 2, 1, eviction.Layout{DedicatedImages: true, SplitContainers: true}},
	} {
		find := eviction.FindLayout(images{}, "/node", func(path string) (machine.Filesystem, error) {
			id, ok := map[string]uint64{"/node": test.node, "/images": test.images, "/layers": test.layers}[path]
			if !ok {
				return machine.Filesystem{}, machine.ErrUnreadable
			}
			return machine.Filesystem{ID: id}, nil
		})
		if got, err := find(t.Context()); err != nil || got != test.want {
			t.Errorf("%+v: %+v, %v", test, got, err)
		}
	}
	find := eviction.FindLayout(images{}, "/missing", machine.Disk)
	if _, err := find(t.Context()); !errors.Is(err, machine.ErrUnreadable) {
		t.Errorf("a filesystem that cannot be read: %v", err)
	}
}

type images struct{}

func (images) ImageFilesystem(context.Context) (cri.FilesystemUsage, cri.FilesystemUsage, error) {
	return cri.FilesystemUsage{Mountpoint: "/images"}, cri.FilesystemUsage{Mountpoint: "/layers"}, nil
}

func Example() {
	thresholds, err := eviction.Parse(eviction.Default())
	if err != nil {
		fmt.Println(err)
		return
	}
	core := eviction.NewCore(thresholds, 5*time.Minute)
	pods := []*corev1.Pod{newPod("modest", 0, list("memory", "1Gi"), nil), newPod("greedy", 0, nil, nil)}
	seen := summary(time.Now(), 64*mebi, 5*gibi, use("modest", gibi/2, 0, 0, 0), use("greedy", 2*gibi, 0, 0, 0))
	for _, threshold := range core.Look(time.Now(), eviction.Observe(seen)) {
		first := eviction.Rank(pods, eviction.StatsOf(seen), threshold.Signal, eviction.Layout{})[0]
		fmt.Println(threshold.Signal, core.Conditions(), first.Name)
	}
	// Output: memory.available [MemoryPressure] greedy
}
