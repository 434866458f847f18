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

// Runtime is what a Collector asks about pods. When it is a cri.StatsReader too it is asked what they
// use; otherwise pods and containers are told of without that.
type Runtime interface {
	cri.SandboxReader
	cri.ContainerReader
}

// Machine is what a Collector asks about the machine; machine.Reader is one.
type Machine interface {
	Usage(now time.Time) machine.Usage
}

// Disk tells how full the filesystem of a path is; machine.Disk does.
type Disk func(path string) (machine.Filesystem, error)

// Options of a Collector. All may be left at their zero values.
type Options struct {
	// Images tells where the runtime keeps images and writable layers; nil leaves that out.
	Images cri.FilesystemReader
	// Pods are the node's pods, whose volumes are measured; nil measures none.
	Pods func() []*corev1.Pod
	// PodsMemory is what all pods together use, as cgroup.Tree's Memory tells; nil leaves that out,
	// and so do errors.
	PodsMemory func(now time.Time) (cri.MemoryUsage, error)
	// Volume is the directory of a pod's volume, or empty; nil knows none. VolumeDir makes one.
	Volume func(pod *corev1.Pod, volume *corev1.Volume) string
	// NodeDir is on the node's main filesystem; empty leaves that out. LogDir is where containers'
	// logs are, as in kubelet.Host; empty leaves them out.
	NodeDir, LogDir string
	// Started is since when the node runs.
	Started time.Time
	// MaxProcesses is how many processes the machine can have; 0 is not known.
	MaxProcesses uint64
	// Period is how often Run samples: 10 s. DiskAge is how long what a directory takes is taken
	// for true: 1 min.
	Period, DiskAge time.Duration
	// Disk is asked about filesystems; nil is machine.Disk.
	Disk Disk
	// Logger is told about failures; nil discards.
	Logger *slog.Logger
}

// Collector collects what a node uses. Make one with New.
type Collector struct {
	node    string
	runtime Runtime
	reader  cri.StatsReader // nil when the runtime cannot tell
	machine Machine
	options Options
	log     *slog.Logger

	mu       sync.Mutex
	rates    rates
	gathered time.Time // when somebody asked last

	trees trees
}

// New makes a Collector for the node of that name. It asks nobody yet.
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

// Run samples regularly until the context ends, and returns nil then. Samples that others have asked for
// count: asking costs the runtime some milliseconds for each pod.
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

// Summary is everything that is known.
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

// Resources is CPU, memory and swap alone, which is quick.
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

// addPods tells of all pods as of one container.
func (c *Collector) addPods(out *v1alpha1.Summary, at time.Time) {
	if c.options.PodsMemory == nil {
		return
	}
	use, err := c.options.PodsMemory(at)
	if err != nil {
		c.log.Debug("what all pods use is not known", "error", err)
		return
	}
	out.Node.SystemContainers = append(out.Node.SystemContainers, v1alpha1.ContainerStats{
		Name: v1alpha1.SystemContainerPods, StartTime: metav1.NewTime(c.options.Started), Memory: memory(use, use.Available > 0),
	})
}
