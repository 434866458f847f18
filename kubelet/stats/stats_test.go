package stats_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/kubelet/machine"
	"github.com/keelson-dev/keelson/kubelet/stats"
)

func collector(t testing.TB, r stats.Runtime, m stats.Machine, o stats.Options) *stats.Collector {
	t.Helper()
	c, err := stats.New("node-0", r, m, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// n renders a number, nil being unknown.
func n(p *uint64) uint64 {
	if p == nil {
		return 1<<64 - 1
	}
	return *p
}

func equal(t *testing.T, what string, got *uint64, want uint64) {
	t.Helper()
	if n(got) != want {
		t.Errorf("%s is %d, not %d", what, n(got), want)
	}
}

func TestSummary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		c := collector(t, live{func() *runtime { return busy(start) }}, idle{start}, stats.Options{
			Started: start, MaxProcesses: 100,
			PodsMemory: func(now time.Time) (cri.MemoryUsage, error) {
				return cri.MemoryUsage{At: now, WorkingSet: 6 << 20, Available: 1 << 20}, nil
			},
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- c.Run(ctx) }()
		time.Sleep(25 * time.Second)
		synctest.Wait()
		s, err := c.Summary(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if s.Node.NodeName != "node-0" || *s.Node.Rlimit.MaxPID != 100 || *s.Node.Rlimit.NumOfRunningProcesses != 12 {
			t.Errorf("node %+v", s.Node)
		}
		equal(t, "the node's rate", s.Node.CPU.UsageNanoCores, 100_000_000)
		equal(t, "the node's CPU time", s.Node.CPU.UsageCoreNanoSeconds, 2_500_000_000)
		equal(t, "the node's memory", s.Node.Memory.AvailableBytes, 12<<20)
		if list := s.Node.SystemContainers; len(list) != 1 || list[0].Name != "pods" {
			t.Errorf("system containers %+v", list)
		} else {
			equal(t, "the pods' memory", list[0].Memory.AvailableBytes, 1<<20)
		}
		if len(s.Pods) != 1 || s.Pods[0].PodRef.Name != "web" || len(s.Pods[0].Containers) != 2 {
			t.Fatalf("pods %+v", s.Pods)
		}
		pod := s.Pods[0]
		equal(t, "the pod's rate", pod.CPU.UsageNanoCores, 1_000_000_000)
		equal(t, "the pod's memory", pod.Memory.WorkingSetBytes, 3<<20)
		equal(t, "the pod's available memory", pod.Memory.AvailableBytes, 7<<20)
		equal(t, "received", pod.Network.RxBytes, 10)
		equal(t, "processes", pod.ProcessStats.ProcessCount, 5)
		for i, name := range []string{"app", "side"} {
			container := pod.Containers[i]
			if container.Name != name || container.Memory.AvailableBytes != nil {
				t.Errorf("container %+v", container)
			}
			equal(t, name+"'s rate", container.CPU.UsageNanoCores, 500_000_000)
			equal(t, name+"'s memory", container.Memory.WorkingSetBytes, 1<<20)
			equal(t, name+"'s layer", container.Rootfs.UsedBytes, 4096)
		}
		equal(t, "ephemeral storage", pod.EphemeralStorage.UsedBytes, 8192)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestRun: samples are taken regularly, unless a call has recently taken one.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var mu sync.Mutex
		var asked []time.Duration
		c := collector(t, live{func() *runtime {
			mu.Lock()
			defer mu.Unlock()
			if at := time.Since(start); len(asked) == 0 || asked[len(asked)-1] != at {
				asked = append(asked, at)
			}
			return busy(start)
		}}, idle{start}, stats.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- c.Run(ctx) }()
		time.Sleep(17 * time.Second)
		if _, err := c.Resources(ctx); err != nil {
			t.Error(err)
		}
		time.Sleep(21 * time.Second)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if got := fmt.Sprint(asked); got != "[0s 10s 17s 27s 37s]" {
			t.Errorf("asked at %s", got)
		}
	})
}

// TestPartial: a runtime that reports less gives a smaller summary.
func TestPartial(t *testing.T) {
	start := time.Now().Add(-time.Second)
	r := busy(start)
	r.podsErr = cri.ErrUnsupported
	c := collector(t, r, idle{start}, stats.Options{})
	s, err := c.Summary(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pod := s.Pods[0]
	equal(t, "the sum of memory", pod.Memory.WorkingSetBytes, 2<<20)
	for i := range r.stats { // the sum is what is known of either
		measured := &r.stats[i].CPU
		measured.NanoCores, measured.NanoCoresMeasured = 42, true
		again, err := collector(t, r, idle{start}, stats.Options{}).Summary(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "the sum of rates", again.Pods[0].CPU.UsageNanoCores, 42)
		measured.NanoCoresMeasured = false
	}
	if pod.CPU.UsageNanoCores != nil || pod.Network != nil {
		t.Errorf("what nobody can know: %+v", pod)
	}

	s, err = collector(t, struct {
		cri.SandboxReader
		cri.ContainerReader
	}{r, r}, idle{start}, stats.Options{}).Summary(t.Context())
	if err != nil || len(s.Pods) != 1 || len(s.Pods[0].Containers) != 2 || s.Pods[0].CPU != nil {
		t.Errorf("a runtime without statistics: %+v, %v", s, err)
	}

	r.podsErr = cri.ErrUnavailable
	if _, err := c.Summary(t.Context()); !errors.Is(err, cri.ErrUnavailable) {
		t.Errorf("statistics fail: %v", err)
	}
	r.err = cri.ErrUnavailable
	if _, err := c.Resources(t.Context()); !errors.Is(err, cri.ErrUnavailable) {
		t.Errorf("the runtime is gone: %v", err)
	}
}

// TestRates: a rate is known from the second reading on, but not after a restart of the container, and the runtime's
// own measurement takes precedence.
func TestRates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		r := busy(start)
		c := collector(t, r, idle{start}, stats.Options{})
		rate := func(total uint64) *uint64 {
			t.Helper()
			r.pods[0].Containers[0].CPU.At, r.pods[0].Containers[0].CPU.CoreNanoSeconds = time.Now(), total
			s, err := c.Resources(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return s.Pods[0].Containers[0].CPU.UsageNanoCores
		}
		if got := rate(0); got != nil {
			t.Errorf("the first: %d", *got)
		}
		time.Sleep(time.Second)
		equal(t, "after a second", rate(1_000_000_000), 1_000_000_000)
		time.Sleep(9 * time.Second)
		equal(t, "after ten seconds", rate(1_000_000_000), 100_000_000)
		time.Sleep(time.Second)
		equal(t, "after eleven seconds", rate(1_000_000_000), 90_909_090)
		if got := rate(5); got != nil {
			t.Errorf("started again: %d", *got)
		}
		r.pods[0].Containers[0].CPU.NanoCores, r.pods[0].Containers[0].CPU.NanoCoresMeasured = 42, true
		equal(t, "measured", rate(6), 42)
	})
}

// TestRatesOverTime: two readings at least five seconds apart are kept, and those of what is gone are dropped.
func TestRatesOverTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := busy(time.Now())
		pods := r.pods
		c := collector(t, r, idle{time.Now()}, stats.Options{})
		rate := func(total uint64) *uint64 {
			t.Helper()
			pods[0].Containers[0].CPU.At, pods[0].Containers[0].CPU.CoreNanoSeconds = time.Now(), total
			s, err := c.Resources(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if s.Pods[0].Containers[0].CPU == nil {
				return nil
			}
			return s.Pods[0].Containers[0].CPU.UsageNanoCores
		}
		none := func(what string, got *uint64) {
			t.Helper()
			if got != nil {
				t.Errorf("%s: %d", what, *got)
			}
		}
		none("the first", rate(0))
		none("at the same time", rate(1e9))
		time.Sleep(4 * time.Second)
		equal(t, "after four seconds", rate(4e9), 1e9)
		time.Sleep(time.Second)
		equal(t, "after five", rate(10e9), 2e9) // this one is kept
		time.Sleep(4 * time.Second)
		equal(t, "after nine, from the first", rate(18e9), 2e9)
		time.Sleep(time.Second)
		equal(t, "after ten, from the one after five", rate(25e9), 3e9)
		time.Sleep(5 * time.Second)
		none("started again", rate(1e9))
		time.Sleep(2 * time.Second)
		equal(t, "a little later", rate(3e9), 1e9)
		time.Sleep(3 * time.Second)
		equal(t, "since then", rate(6e9), 1e9)
		r.pods = nil
		none("gone", rate(0))
		r.pods = pods
		time.Sleep(5 * time.Second)
		none("back", rate(20e9))
	})
}

func TestVolumes(t *testing.T) {
	dir := t.TempDir()
	logs := filepath.Join(dir, "logs")
	kubelet := filepath.Join(dir, "kubelet")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "uid-web"}}
	volume := func(name string, source corev1.VolumeSource) string {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: source})
		return stats.VolumeDir(kubelet)(pod, &pod.Spec.Volumes[len(pod.Spec.Volumes)-1])
	}
	disk := volume("disk", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})
	memory := volume("memory", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}})
	volume("host", corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}})
	volume("missing", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{}})
	fill(t, filepath.Join(volume("config", corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}), "key"), 1)
	claimed := filepath.Join(dir, "claimed")
	volume("claim", corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}})
	fill(t, filepath.Join(claimed, "file"), 1<<20)
	fill(t, filepath.Join(disk, "a", "b"), 64<<10)
	fill(t, filepath.Join(memory, "m"), 32<<10)
	if err := os.Link(filepath.Join(disk, "a", "b"), filepath.Join(disk, "again")); err != nil {
		t.Fatal(err)
	}
	fill(t, filepath.Join(logs, "default_web_uid-web", "app", "0.log"), 16<<10)

	synctest.Test(t, func(t *testing.T) {
		r := busy(time.Now())
		c := collector(t, r, idle{time.Now()}, stats.Options{
			Images: images{}, NodeDir: dir, LogDir: logs,
			Volume: func(pod *corev1.Pod, volume *corev1.Volume) string {
				if volume.PersistentVolumeClaim != nil {
					return claimed
				}
				return stats.VolumeDir(kubelet)(pod, volume)
			},
			Pods: func() []*corev1.Pod { return []*corev1.Pod{pod} },
			Disk: func(string) (machine.Filesystem, error) {
				return machine.Filesystem{Capacity: 1000, Available: 400, Inodes: 50, InodesFree: 20}, nil
			},
		})
		var config, inodes uint64
		look := func() (disk, memory, logs, ephemeral uint64) {
			s, err := c.Summary(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got := s.Pods[0]
			if len(got.VolumeStats) != 4 || got.VolumeStats[0].Name != "disk" || got.VolumeStats[1].Name != "memory" {
				t.Fatalf("volumes %+v", got.VolumeStats)
			}
			equal(t, "available", got.VolumeStats[0].AvailableBytes, 400)
			if ref := got.VolumeStats[3].PVCRef; ref == nil || ref.Name != "data" || ref.Namespace != "default" || got.VolumeStats[0].PVCRef != nil {
				t.Errorf("the claim %+v", ref)
			}
			config = n(got.VolumeStats[2].UsedBytes)
			inodes = n(got.EphemeralStorage.InodesUsed)
			equal(t, "of images", s.Node.Runtime.ImageFs.UsedBytes, 77)
			equal(t, "of layers", s.Node.Runtime.ContainerFs.UsedBytes, 77)
			equal(t, "capacity", s.Node.Fs.CapacityBytes, 1000)
			return n(got.VolumeStats[0].UsedBytes), n(got.VolumeStats[1].UsedBytes), n(got.Containers[0].Logs.UsedBytes), n(got.EphemeralStorage.UsedBytes)
		}
		onDisk, inMemory, logged, all := look()
		if onDisk < 64<<10 || onDisk > 100<<10 {
			t.Errorf("a file with two names takes %d", onDisk)
		}
		if inMemory < 32<<10 || logged < 16<<10 {
			t.Errorf("%d in memory, logs %d", inMemory, logged)
		}
		if all != onDisk+logged+config+8192 || config == 0 {
			t.Errorf("%d of %d, %d, %d and two layers is ephemeral", all, onDisk, logged, config)
		}
		if inodes != 3+2+2+4 { // of the disk, the configuration, the logs and two layers
			t.Errorf("%d inodes are ephemeral", inodes)
		}
		fill(t, filepath.Join(disk, "more"), 64<<10)
		if again, _, _, _ := look(); again != onDisk {
			t.Errorf("measured again at once: %d", again)
		}
		time.Sleep(time.Minute)
		if later, _, _, _ := look(); later < onDisk+64<<10 {
			t.Errorf("not measured again after a minute: %d", later)
		}
	})
}

// images are on a filesystem of their own.
type images struct{}

func (images) ImageFilesystem(context.Context) (cri.FilesystemUsage, cri.FilesystemUsage, error) {
	return cri.FilesystemUsage{Mountpoint: "/images", UsedBytes: 77, InodesUsed: 7}, cri.FilesystemUsage{}, nil
}

func fill(t *testing.T, file string, bytes int) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, bytesOf(bytes), 0o600); err != nil {
		t.Fatal(err)
	}
}

func bytesOf(n int) []byte { return bytes.Repeat([]byte{'x'}, n) }

// scrape reads metrics into a map from each sample's name and ordered labels to its value.
func scrape(t *testing.T, handler http.Handler) map[string]float64 {
	t.Helper()
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(w.Body.Bytes()))
	if err != nil {
		t.Fatalf("%v in\n%s", err, w.Body)
	}
	out := map[string]float64{}
	for name, family := range families {
		for _, m := range family.GetMetric() {
			key := name
			for _, l := range m.GetLabel() {
				key += " " + l.GetName() + "=" + l.GetValue()
			}
			out[key] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return out
}

func TestMetrics(t *testing.T) {
	start := time.Now().Add(-10 * time.Second)
	r := busy(start)
	c := collector(t, r, idle{start}, stats.Options{})
	got := scrape(t, c.ResourceMetrics())
	for key, want := range map[string]float64{
		"container_memory_working_set_bytes container=app namespace=default pod=web": 1 << 20,
		"pod_memory_working_set_bytes namespace=default pod=web":                     3 << 20,
		"node_memory_working_set_bytes":                                              4 << 20,
		"node_swap_usage_bytes":                                                      3,
		"resource_scrape_error":                                                      0,
		"scrape_error":                                                               0,
	} {
		if value, ok := got[key]; !ok || value != want {
			t.Errorf("%s is %v, not %v", key, value, want)
		}
	}
	for _, key := range []string{
		"container_cpu_usage_seconds_total container=side namespace=default pod=web", "pod_cpu_usage_seconds_total namespace=default pod=web",
		"container_start_time_seconds container=app namespace=default pod=web", "node_cpu_usage_seconds_total",
	} {
		if got[key] <= 0 {
			t.Errorf("%s is missing", key)
		}
	}
	got = scrape(t, c.ContainerMetrics())
	id := "container=app id=/kubepods/poduid-web/c1 image=example.com/app name=c1 namespace=default pod=web"
	if got["container_memory_usage_bytes "+id] != 2<<20 || got["container_fs_usage_bytes "+id] != 4096 {
		t.Errorf("cAdvisor's: %v", got)
	}
	if got["container_network_transmit_bytes_total interface=eth0 namespace=default pod=web"] != 20 {
		t.Errorf("cAdvisor's network: %v", got)
	}
	r.err = cri.ErrUnavailable
	if got = scrape(t, c.ResourceMetrics()); got["resource_scrape_error"] != 1 || len(got) != 2 {
		t.Errorf("a failing runtime: %v", got)
	}
	w := httptest.NewRecorder()
	c.ContainerMetrics().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	if w.Code != http.StatusInternalServerError {
		t.Errorf("a failing runtime: %d", w.Code)
	}
}
