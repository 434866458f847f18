package stats_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/kubelet/machine"
	"github.com/keelson-dev/keelson/kubelet/stats"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s: %s", name, diff)
	}
}

// rich is a runtime with a pod of which everything is known, one of which only the containers' use is known, one of
// which nothing is, and some that do not count. Their use grows with time.
func rich(start time.Time) *runtime {
	now := time.Now()
	used := uint64(now.Sub(start))
	sandbox := func(id, namespace, name, uid string, state cri.SandboxState) cri.Sandbox {
		return cri.Sandbox{ID: id, State: state, CreatedAt: start.Add(-time.Hour), Metadata: cri.SandboxMetadata{Name: name, Namespace: namespace, UID: uid}}
	}
	container := func(id, sandbox, name string) cri.Container {
		return cri.Container{ID: id, SandboxID: sandbox, State: cri.ContainerRunning, CreatedAt: start.Add(-time.Minute), Metadata: cri.ContainerMetadata{Name: name},
			Image: cri.ImageSpec{Image: "example.com/" + name}}
	}
	stall := func(n uint64) *cri.Pressure {
		return &cri.Pressure{Full: cri.Stall{Total: n, Avg10: 1, Avg60: 2, Avg300: 3}, Some: cri.Stall{Total: n + 1, Avg10: 4, Avg60: 5, Avg300: 6}}
	}
	all := func(id string, n uint64) cri.ContainerStats {
		return cri.ContainerStats{
			ID: id, CPU: cri.CPUUsage{At: now, CoreNanoSeconds: used * n, Pressure: stall(10 * n)},
			Memory: cri.MemoryUsage{
				At: now.Add(-time.Second), WorkingSet: 100 * n, Available: 200 * n, Usage: 300 * n, RSS: 400 * n, PageFaults: 500 * n, MajorPageFaults: 600 * n, Pressure: stall(20 * n),
			},
			Swap:          cri.SwapUsage{At: now.Add(-2 * time.Second), Available: 700 * n, Used: 800 * n},
			IO:            cri.IOUsage{At: now.Add(-3 * time.Second), Pressure: stall(30 * n)},
			WritableLayer: cri.FilesystemUsage{At: now.Add(-4 * time.Second), UsedBytes: 900 * n, InodesUsed: 1000 * n},
		}
	}
	none := cri.ContainerStats{ID: "c5"}
	noPressure, noTime := all("c3", 3), all("c6", 4)
	noPressure.IO.Pressure, noPressure.Memory.Available = nil, 0
	noTime.IO.At = time.Time{}
	return &runtime{
		sandboxes: []cri.Sandbox{
			sandbox("s4", "b", "nothing", "uid-4", cri.SandboxReady), sandbox("s3", "b", "containers", "uid-3", cri.SandboxReady), sandbox("s2", "a", "web", "uid-2", cri.SandboxReady),
			sandbox("s5", "a", "api", "uid-1", cri.SandboxReady), sandbox("s6", "a", "gone", "uid-6", cri.SandboxNotReady), sandbox("s7", "a", "foreign", "", cri.SandboxReady),
		},
		containers: []cri.Container{
			container("c2", "s2", "side"), container("c1", "s2", "app"), container("c3", "s3", "x"), container("c4", "s3", "y"),
			container("c5", "s3", "z"), container("c6", "s5", "app"), container("c7", "s6", "app"), container("c8", "s7", "app"), container("c9", "nowhere", "app"),
		},
		pods: []cri.SandboxStats{
			{
				ID: "s2", CPU: cri.CPUUsage{At: now, CoreNanoSeconds: used * 3, Pressure: stall(1)}, Processes: 9,
				Memory:  cri.MemoryUsage{At: now, WorkingSet: 1, Available: 2, Usage: 3, RSS: 4, PageFaults: 5, MajorPageFaults: 6, Pressure: stall(2)},
				IO:      cri.IOUsage{At: now, Pressure: stall(3)},
				Network: []cri.InterfaceUsage{{Name: "eth0", RxBytes: 1, RxErrors: 2, TxBytes: 3, TxErrors: 4}, {Name: "eth1", RxBytes: 5}}, NetworkAt: now.Add(-time.Second),
				Containers: []cri.ContainerStats{all("c1", 1), all("c2", 2)},
			},
			{ID: "s3", Containers: []cri.ContainerStats{noPressure, all("c4", 4), none}},
			{ID: "s5", Memory: cri.MemoryUsage{At: now, WorkingSet: 7}, Containers: []cri.ContainerStats{noTime}},
		},
	}
}

type wholeMachine struct{ start time.Time }

func (m wholeMachine) Usage(now time.Time) machine.Usage {
	return machine.Usage{
		At: now, CPU: uint64(now.Sub(m.start)) / 4, Processes: 33, SwapUsed: 5, SwapAvailable: 6,
		Memory:  cri.MemoryUsage{At: now, WorkingSet: 1, Available: 2, Usage: 3, RSS: 4, PageFaults: 5, MajorPageFaults: 6},
		Network: []cri.InterfaceUsage{{Name: "eth0", RxBytes: 7, RxErrors: 8, TxBytes: 9, TxErrors: 10}},
	}
}

type twoFilesystems struct{}

func (twoFilesystems) ImageFilesystem(context.Context) (cri.FilesystemUsage, cri.FilesystemUsage, error) {
	return cri.FilesystemUsage{Mountpoint: "/images", UsedBytes: 77, InodesUsed: 7}, cri.FilesystemUsage{Mountpoint: "/layers", UsedBytes: 88, InodesUsed: 8}, nil
}

// TestGolden checks everything reported about a node.
func TestGolden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		c := collector(t, live{func() *runtime { return rich(start) }}, wholeMachine{start}, stats.Options{
			Started: start.Add(-24 * time.Hour), MaxProcesses: 1000, NodeDir: "/node", Images: twoFilesystems{},
			PodsMemory: func(now time.Time) (cri.MemoryUsage, error) { return cri.MemoryUsage{At: now, WorkingSet: 11}, nil },
			Disk: func(path string) (machine.Filesystem, error) {
				n := uint64(len(path))
				return machine.Filesystem{Capacity: 100 * n, Available: 50 * n, Used: 30 * n, Inodes: 10 * n, InodesFree: 5 * n, InodesUsed: 3 * n}, nil
			},
		})
		if _, err := c.Summary(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		summary, err := c.Summary(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		resources, err := c.Resources(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]any{"summary.json": summary, "resources.json": resources} {
			data, err := json.MarshalIndent(value, "", " ")
			if err != nil {
				t.Fatal(err)
			}
			golden(t, name, append(data, '\n'))
		}
		for name, handler := range map[string]http.Handler{"resource.txt": c.ResourceMetrics(), "cadvisor.txt": c.ContainerMetrics()} {
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
			if got := w.Header().Get("Content-Type"); w.Code != http.StatusOK || got != "text/plain; version=0.0.4; charset=utf-8" {
				t.Errorf("%s: %d, %s", name, w.Code, got)
			}
			golden(t, name, w.Body.Bytes())
		}
	})
}

// A node without limits and with minimal data reports nothing else.
func TestGoldenOfLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rich(time.Now())
		r.sandboxes, r.containers, r.pods = r.sandboxes[:2], r.containers[4:5], nil
		c := collector(t, r, wholeMachine{time.Now()}, stats.Options{
			PodsMemory: func(time.Time) (cri.MemoryUsage, error) { return cri.MemoryUsage{}, errors.New("no cgroups") },
			NodeDir:    "/node", Disk: func(string) (machine.Filesystem, error) { return machine.Filesystem{}, machine.ErrUnreadable },
		})
		summary, err := c.Summary(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		data, err := json.MarshalIndent(summary, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		golden(t, "little.json", append(data, '\n'))
	})
}

func TestNewNeedsWhatItAsks(t *testing.T) {
	r, m := busy(time.Now()), idle{}
	for name, create := range map[string]func() (*stats.Collector, error){
		"a node":    func() (*stats.Collector, error) { return stats.New("", r, m, stats.Options{}) },
		"a runtime": func() (*stats.Collector, error) { return stats.New("n", nil, m, stats.Options{}) },
		"a machine": func() (*stats.Collector, error) { return stats.New("n", r, nil, stats.Options{}) },
	} {
		if c, err := create(); err == nil || c != nil {
			t.Errorf("without %s: %v", name, err)
		}
	}
}

func TestVolumeDir(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "uid"}}
	for want, source := range map[string]corev1.VolumeSource{
		"/k/pods/uid/volumes/kubernetes.io~empty-dir/v":    {EmptyDir: &corev1.EmptyDirVolumeSource{}},
		"/k/pods/uid/volumes/kubernetes.io~configmap/v":    {ConfigMap: &corev1.ConfigMapVolumeSource{}},
		"/k/pods/uid/volumes/kubernetes.io~secret/v":       {Secret: &corev1.SecretVolumeSource{}},
		"/k/pods/uid/volumes/kubernetes.io~downward-api/v": {DownwardAPI: &corev1.DownwardAPIVolumeSource{}},
		"/k/pods/uid/volumes/kubernetes.io~projected/v":    {Projected: &corev1.ProjectedVolumeSource{}},
		"": {HostPath: &corev1.HostPathVolumeSource{}},
	} {
		if got := stats.VolumeDir("/k")(pod, &corev1.Volume{Name: "v", VolumeSource: source}); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}

// Failures are logged with their reasons until the context ends, and sampling continues at its pace.
func TestRunLogsFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, tt := range map[string]struct {
			r    *runtime
			want string
		}{
			"all":        {&runtime{err: errors.New("gone")}, `error="listing sandboxes: gone"`},
			"pods":       {&runtime{podsErr: errors.New("gone")}, `error="reading the statistics of sandboxes: gone"`},
			"containers": {&runtime{podsErr: cri.ErrUnsupported}, ""},
		} {
			var log bytes.Buffer
			c := collector(t, tt.r, idle{time.Now()}, stats.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
			if err := c.Run(ctx); err != nil {
				t.Error(err)
			}
			cancel()
			if got := strings.Count(log.String(), "\n"); tt.want == "" && got != 0 || tt.want != "" && (got != 3 || strings.Count(log.String(), tt.want) != 3) {
				t.Errorf("%s: logged %s", name, &log)
			}
		}
	})
}

// partly is a runtime of which one call fails.
type partly struct {
	*runtime
	containers, stats error
}

func (p partly) ListContainers(ctx context.Context, f cri.Filter) ([]cri.Container, error) {
	if p.containers != nil {
		return nil, p.containers
	}
	return p.runtime.ListContainers(ctx, f)
}

func (p partly) ListContainerStats(context.Context, cri.Filter) ([]cri.ContainerStats, error) {
	return nil, p.stats
}

func TestFailures(t *testing.T) {
	gone := errors.New("gone")
	r := busy(time.Now())
	r.podsErr = cri.ErrUnsupported
	for want, tt := range map[string]partly{
		"listing containers: gone":                   {runtime: r, containers: gone},
		"reading the statistics of containers: gone": {runtime: r, stats: gone},
	} {
		c := collector(t, tt, idle{}, stats.Options{})
		if _, err := c.Summary(t.Context()); !errors.Is(err, gone) || err.Error() != want {
			t.Errorf("%v, not %s", err, want)
		}
		if _, err := c.Resources(t.Context()); !errors.Is(err, gone) {
			t.Error(err)
		}
	}
	s, err := collector(t, partly{runtime: r, stats: cri.ErrUnsupported}, idle{}, stats.Options{}).Summary(t.Context())
	if err != nil || len(s.Pods) != 1 || len(s.Pods[0].Containers) != 2 || s.Pods[0].Containers[0].CPU != nil {
		t.Errorf("a runtime without statistics: %+v, %v", s, err)
	}
}

// The summary when the node's or the images' filesystem cannot be read.
func TestFilesystemsThatFail(t *testing.T) {
	var log bytes.Buffer
	c := collector(t, busy(time.Now()), idle{}, stats.Options{Images: noImages{}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	s, err := c.Summary(t.Context())
	if err != nil || s.Node.Runtime != nil || s.Node.Fs != nil || s.Pods[0].EphemeralStorage == nil || s.Pods[0].EphemeralStorage.CapacityBytes != nil {
		t.Errorf("%+v, %v", s, err)
	}
	if got := log.String(); !strings.Contains(got, `msg="asking for the filesystem of images failed" error="no images"`) {
		t.Errorf("logged %s", got)
	}
	log.Reset()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Summary(over); err != nil || log.Len() != 0 {
		t.Errorf("%v, logged %s", err, &log)
	}
}

type noImages struct{}

func (noImages) ImageFilesystem(context.Context) (cri.FilesystemUsage, cri.FilesystemUsage, error) {
	return cri.FilesystemUsage{}, cri.FilesystemUsage{}, errors.New("no images")
}

// Without options, this machine's disks are read, volumes are unknown, and empty paths are left out.
func TestZeroOptions(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "uid-web"}, Spec: corev1.PodSpec{Volumes: []corev1.Volume{{Name: "v"}}}}
	c := collector(t, busy(time.Now()), idle{}, stats.Options{NodeDir: t.TempDir(), Pods: func() []*corev1.Pod { return []*corev1.Pod{pod} }})
	s, err := c.Summary(t.Context())
	if err != nil || s.Node.Fs == nil || n(s.Node.Fs.CapacityBytes) == 0 || len(s.Pods[0].VolumeStats) != 0 {
		t.Errorf("%+v, %v", s, err)
	}
	c = collector(t, busy(time.Now()), idle{}, stats.Options{Disk: func(path string) (machine.Filesystem, error) {
		t.Errorf("asked for the disk of %q", path)
		return machine.Filesystem{}, nil
	}})
	if _, err := c.Summary(t.Context()); err != nil {
		t.Error(err)
	}
}

// Failures because of the end are not logged.
func TestEndIsNotLogged(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var log bytes.Buffer
	c := collector(t, live{func() *runtime { cancel(); return &runtime{err: context.Canceled} }}, idle{}, stats.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err := c.Run(ctx); err != nil || log.Len() > 0 {
		t.Errorf("%v, logged %s", err, &log)
	}
}

// A container without a creation time has no start time.
func TestNoStart(t *testing.T) {
	r := busy(time.Now())
	for i := range r.containers {
		r.containers[i].CreatedAt = time.Unix(0, 0)
	}
	for key := range scrape(t, collector(t, r, idle{}, stats.Options{}).ResourceMetrics()) {
		if strings.HasPrefix(key, "container_start_time_seconds") {
			t.Errorf("there is %s", key)
		}
	}
}
