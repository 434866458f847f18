package stats

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/internal/pause"
	"github.com/keelson-dev/keelson/kubelet/machine"
)

// Runtime is what a Collector needs from the container runtime. If it is also a cri.StatsReader, it reports what pods
// use; otherwise pods and containers are listed without that.
type Runtime interface {
	cri.SandboxReader
	cri.ContainerReader
}

// Machine reports the use of the machine; machine.Reader implements it.
type Machine interface {
	Usage(now time.Time) machine.Usage
}

// Disk returns how full the filesystem of a path is, like machine.Disk.
type Disk func(path string) (machine.Filesystem, error)

// Options configures a Collector. All fields are optional.
type Options struct {
	// Images reports where the runtime keeps images and writable layers; nil leaves them out.
	Images cri.FilesystemReader
	// Pods returns the node's pods, whose volumes are measured; nil measures none.
	Pods func() []*corev1.Pod
	// PodsMemory returns how much memory all pods together use, like cgroup.Tree's Memory; if nil or failing, it is
	// left out.
	PodsMemory func(now time.Time) (cri.MemoryUsage, error)
	// Volume returns the directory of a pod's volume, or empty; nil knows none. VolumeDir makes such a function.
	Volume func(pod *corev1.Pod, volume *corev1.Volume) string
	// NodeDir is a directory on the node's main filesystem; empty leaves that out. LogDir is the directory of container
	// logs, as in kubelet.Host; empty leaves them out.
	NodeDir, LogDir string
	// Started is when the node was started.
	Started time.Time
	// MaxProcesses is the maximum number of processes on the machine; 0 if unknown.
	MaxProcesses uint64
	// Period is how often Run samples; 10 s by default. DiskAge is how long the measured size of a directory is reused;
	// 1 min by default.
	Period, DiskAge time.Duration
	// Disk measures filesystems; nil is machine.Disk.
	Disk Disk
	// Logger records failures; nil discards them.
	Logger *slog.Logger
}

// Collector collects what a node and its pods use. Make one with New.
type Collector struct {
	node    string
	runtime Runtime
	reader  cri.StatsReader // nil if the runtime has no statistics
	machine Machine
	options Options
	log     *slog.Logger

	mu       sync.Mutex
	rates    rates
	gathered time.Time // when the last sample was taken

	trees trees
}

// New makes a Collector for the node of that name. It does no I/O.
func New(node string, runtime Runtime, m Machine, o Options) (*Collector, error) {
	if node == "" || runtime == nil || m == nil {
		return nil, errors.New("statistics need a node name, a runtime and a machine")
	}
	o.Period = cmp.Or(o.Period, 10*time.Second)
	o.DiskAge = cmp.Or(o.DiskAge, time.Minute)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Disk == nil {
		o.Disk = machine.Disk
	}
	if o.Pods == nil {
		o.Pods = func() []*corev1.Pod { return nil }
	}
	if o.Volume == nil {
		o.Volume = func(*corev1.Pod, *corev1.Volume) string { return "" }
	}
	reader, _ := runtime.(cri.StatsReader)
	return &Collector{
		node: node, runtime: runtime, reader: reader, machine: m, options: o, log: o.Logger,
		rates: rates{}, trees: trees{age: o.DiskAge, known: map[string]measured{}},
	}, nil
}

// Run samples regularly until the context ends, and then returns nil. It skips a sample if a recent call took one,
// because each costs the runtime some milliseconds per pod.
func (c *Collector) Run(ctx context.Context) error {
	wait := time.Duration(0)
	for pause.For(ctx, wait) == nil {
		c.mu.Lock()
		age := time.Since(c.gathered)
		c.mu.Unlock()
		if wait = c.options.Period - age; wait > 0 {
			continue
		}
		wait = c.options.Period
		if _, err := c.gather(ctx); err != nil && ctx.Err() == nil {
			c.log.Warn("collecting statistics failed", "error", err)
		}
	}
	return nil
}

// Summary returns everything that is known.
func (c *Collector) Summary(ctx context.Context) (*v1alpha1.Summary, error) {
	s, err := c.gather(ctx)
	if err != nil {
		return nil, err
	}
	out := summarise(s)
	c.addPods(out, s.at)
	c.addFilesystems(ctx, out, s)
	return out, nil
}

// Resources returns only CPU, memory and swap, which is quick.
func (c *Collector) Resources(ctx context.Context) (*v1alpha1.Summary, error) {
	s, err := c.gather(ctx)
	if err != nil {
		return nil, err
	}
	out := summarise(s)
	c.addPods(out, s.at)
	out.Node.Network, out.Node.Rlimit = nil, nil
	for i := range out.Pods {
		out.Pods[i].Network, out.Pods[i].ProcessStats = nil, nil
	}
	return out, nil
}

// addPods reports all pods together as one system container.
func (c *Collector) addPods(out *v1alpha1.Summary, at time.Time) {
	if c.options.PodsMemory == nil {
		return
	}
	use, err := c.options.PodsMemory(at)
	if err != nil {
		c.log.Debug("the usage of all pods together is unknown", "error", err)
		return
	}
	out.Node.SystemContainers = append(out.Node.SystemContainers, v1alpha1.ContainerStats{
		Name: v1alpha1.SystemContainerPods, StartTime: metav1.NewTime(c.options.Started), Memory: memory(use, use.Available > 0),
	})
}
