package garbage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/internal/pause"
	"github.com/keelson-dev/keelson/kubelet/machine"
)

// Runtime is what a Collector cleans up.
//
//nolint:interfacebloat // composed of the narrow ones that it asks for
type Runtime interface {
	cri.Sandboxes
	cri.SandboxReader
	cri.Containers
	cri.ContainerReader
	cri.Puller
	cri.ImageReader
}

// Pods is what a Collector needs to know from a kubelet.
type Pods interface {
	// Known reports whether the kubelet knows all its pods. Until then, no pod counts as gone.
	Known() bool
	// Gone reports whether a pod no longer exists and has been cleaned up.
	Gone(uid types.UID) bool
	// Ended reports whether no container of a pod runs or will run again. The pod itself may still exist.
	Ended(uid types.UID) bool
}

// Options configures a Collector. All fields are optional.
type Options struct {
	// Containers is the policy for dead containers; nil keeps the newest of each name.
	Containers *ContainerPolicy
	// Images is the policy for images; nil removes them when their filesystem is 85 % full until it is 80 % full, but
	// none within two minutes of its first sight.
	Images *ImagePolicy
	// ContainerPeriod is how often containers are collected, 1 min by default, and ImagePeriod how often images are, 5
	// min by default.
	ContainerPeriod, ImagePeriod time.Duration
	// ImageUses returns the names of images used by something other than containers, such as volumes; nil means none.
	ImageUses func() []string
	// Filesystem reports where images are; nil is the runtime, if it is a cri.FilesystemReader. Without one, images are
	// removed only for their age. Disk defaults to machine.Disk.
	Filesystem cri.FilesystemReader
	Disk       func(path string) (machine.Filesystem, error)
	// LogDir holds the pods' log directories, named NAMESPACE_NAME_UID, and LinkDir the links to container logs; if
	// empty, they are not cleaned up.
	LogDir, LinkDir string
	// Recorder records events about Node; nil drops them.
	Recorder events.Recorder
	Node     corev1.ObjectReference
	// Collected is called with the reason for each image removed: age or space. It must be quick.
	Collected func(reason string)
	// Logger records what happens; nil discards it.
	Logger *slog.Logger
}

// Collector removes garbage. Make one with New.
type Collector struct {
	runtime Runtime
	pods    Pods
	options Options
	log     *slog.Logger

	mu        sync.Mutex // one pass at a time
	inventory Inventory
}

// New makes a Collector, which does nothing until Run. It fails with ErrPolicy.
func New(runtime Runtime, pods Pods, o Options) (*Collector, error) {
	if runtime == nil || pods == nil {
		return nil, errors.New("garbage collection needs a runtime and pods")
	}
	if o.Containers == nil {
		o.Containers = &ContainerPolicy{PerName: 1, Total: -1}
	}
	if o.Images == nil {
		o.Images = &ImagePolicy{High: 85, Low: 80, MinAge: 2 * time.Minute}
	}
	if err := o.Images.check(); err != nil {
		return nil, err
	}
	if o.Containers.MinAge < 0 {
		return nil, fmt.Errorf("%w: invalid minimum garbage collection age: %v", ErrPolicy, o.Containers.MinAge)
	}
	o.ContainerPeriod = cmp.Or(o.ContainerPeriod, time.Minute)
	o.ImagePeriod = cmp.Or(o.ImagePeriod, 5*time.Minute)
	if o.ImageUses == nil {
		o.ImageUses = func() []string { return nil }
	}
	if o.Filesystem == nil {
		o.Filesystem, _ = runtime.(cri.FilesystemReader)
	}
	if o.Disk == nil {
		o.Disk = machine.Disk
	}
	if o.Recorder == nil {
		o.Recorder = events.Discard()
	}
	if o.Collected == nil {
		o.Collected = func(string) {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Collector{runtime: runtime, pods: pods, options: o, log: o.Logger}, nil
}

// Run collects garbage regularly until the context ends, and then returns nil.
func (c *Collector) Run(ctx context.Context) error {
	var group sync.WaitGroup
	group.Go(func() {
		for pause.For(ctx, c.options.ContainerPeriod) == nil {
			if err := c.CollectContainers(ctx); err != nil && ctx.Err() == nil {
				c.failed("ContainerGCFailed", err)
			}
		}
	})
	group.Go(func() {
		failures := 0
		for more := true; more; more = pause.For(ctx, c.options.ImagePeriod) == nil {
			err := c.CollectImages(ctx)
			switch {
			case err == nil:
				failures = 0
			case ctx.Err() == nil:
				// The first failure is common: the runtime has only just started.
				if failures++; failures > 1 {
					c.failed("ImageGCFailed", err)
				} else {
					c.log.Info("collecting images failed once", "error", err)
				}
			}
		}
	})
	group.Wait()
	return nil
}

func (c *Collector) failed(reason string, err error) {
	c.log.Warn("garbage collection failed", "reason", reason, "error", err)
	c.event(reason, err.Error())
}

func (c *Collector) event(reason, message string) {
	c.options.Recorder.Record(events.Event{
		Regarding: c.options.Node, Type: corev1.EventTypeWarning, Reason: reason, Message: message,
	})
}

// CollectContainers removes dead containers according to the policy, sandboxes without containers, and the logs of pods
// that are gone. It continues after failures and returns them all.
func (c *Collector) CollectContainers(ctx context.Context) error {
	return c.collectContainers(ctx, c.pods.Gone)
}

// ReclaimContainers also removes the containers of pods that have ended. It implements
// eviction.Reclaimer.
func (c *Collector) ReclaimContainers(ctx context.Context) error {
	return c.collectContainers(ctx, func(uid types.UID) bool { return c.pods.Gone(uid) || c.pods.Ended(uid) })
}

func (c *Collector) collectContainers(ctx context.Context, gone func(types.UID) bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.pods.Known() {
		gone = func(types.UID) bool { return false }
	}
	containers, err := c.runtime.ListContainers(ctx, cri.Filter{})
	if err != nil {
		return fmt.Errorf("listing containers: %w", err)
	}
	var failures []error
	removed := map[string]bool{}
	for _, dead := range Containers(ours(containers), *c.options.Containers, gone, time.Now()) {
		if err := c.removeContainer(ctx, dead); err != nil {
			failures = append(failures, err)
			continue
		}
		removed[dead.ID] = true
	}
	containers = slices.DeleteFunc(containers, func(c cri.Container) bool { return removed[c.ID] })
	sandboxes, err := c.runtime.ListSandboxes(ctx, cri.Filter{})
	if err != nil {
		return errors.Join(append(failures, fmt.Errorf("listing sandboxes: %w", err))...)
	}
	for _, dead := range Sandboxes(sandboxes, containers, gone) {
		// It should have been stopped long ago; if not, its network must not leak.
		err := c.runtime.StopPodSandbox(ctx, dead.ID)
		if err == nil {
			err = c.runtime.RemovePodSandbox(ctx, dead.ID)
		}
		if err != nil {
			failures = append(failures, fmt.Errorf("removing sandbox %s: %w", dead.ID, err))
		}
	}
	failures = append(failures, c.collectLogs(c.pods.Gone), c.collectLinks(containers))
	return errors.Join(failures...)
}

// ours returns the containers that a kubelet created.
func ours(list []cri.Container) []cri.Container {
	return slices.DeleteFunc(slices.Clone(list), func(c cri.Container) bool { return c.Labels[cri.LabelPodUID] == "" })
}

func (c *Collector) removeContainer(ctx context.Context, dead cri.Container) error {
	if dead.State == cri.ContainerUnknown { // it may be running
		if err := c.runtime.StopContainer(ctx, dead.ID, 0); err != nil && !errors.Is(err, cri.ErrNotFound) {
			return fmt.Errorf("stopping container %s: %w", dead.ID, err)
		}
	}
	if err := c.runtime.RemoveContainer(ctx, dead.ID); err != nil {
		return fmt.Errorf("removing container %s: %w", dead.ID, err)
	}
	return nil
}
