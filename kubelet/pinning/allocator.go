package pinning

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/cpuset"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/internal/pause"
)

// The names of the files.
const (
	cpuFile    = "cpu_manager_state"
	memoryFile = "memory_manager_state"
)

// Pods are the pods of a node.
type Pods interface {
	// Pods returns them with their newest status.
	Pods() []*corev1.Pod
	// Live reports whether a pod uses resources of the node, or may soon.
	Live(uid types.UID) bool
}

// Options of an Allocator. The zero value gives nothing away.
type Options struct {
	Settings
	// Logger records what cannot be written or updated; nil discards it.
	Logger *slog.Logger
}

// Allocator gives containers CPUs and memory of a node to themselves. Make one with New.
type Allocator struct {
	policies
	settings Settings
	dir      string
	pods     Pods
	runtime  cri.Resizer
	log      *slog.Logger

	mu   sync.Mutex
	have decisions
	told map[string]cpuset.CPUSet // the CPUs of containers, by ID, as the runtime was told last
}

// New makes an Allocator that keeps its files in a directory, and reads those of an earlier one. The runtime may be nil if it cannot
// update containers; then nothing can be pinned.
func New(dir string, m Machine, pods Pods, runtime cri.Resizer, o Options) (*Allocator, error) {
	o.CPUs.Period = cmp.Or(o.CPUs.Period, DefaultPeriod)
	a := &Allocator{settings: o.Settings, dir: dir, pods: pods, runtime: runtime, log: o.Logger, told: map[string]cpuset.CPUSet{}}
	if a.log == nil {
		a.log = slog.New(slog.DiscardHandler)
	}
	var err error
	if a.policies, err = o.policies(m); err != nil {
		return nil, err
	}
	if a.policies.cpus != nil && runtime == nil {
		return nil, fmt.Errorf("the container runtime cannot update containers: %w", cri.ErrUnsupported)
	}
	if err := a.restore(); err != nil {
		return nil, err
	}
	return a, nil
}

// Exclusive reports whether a container of a pod has CPUs to itself.
func (a *Allocator) Exclusive(uid types.UID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.have.cpus.Own[uid]) > 0
}

// Pin adds to the resources of a container, which is about to be created, where it is to run. The CPU limit of one with CPUs to itself
// is not enforced.
func (a *Allocator) Pin(uid types.UID, container string, r *cri.Resources) {
	a.mu.Lock()
	defer a.mu.Unlock()
	set, own := a.have.cpus.Of(uid, container)
	r.CPUs, r.MemoryNodes = set.String(), cpuset.New(a.have.memory.Of(uid, container)...).String()
	if own && r.CPUPeriod != 0 {
		r.CPUQuota = -1
	}
}

// Run writes the files and keeps containers on their CPUs, until the context ends; then it returns nil.
func (a *Allocator) Run(ctx context.Context) error {
	a.mu.Lock()
	a.save()
	a.mu.Unlock()
	if a.policies.cpus == nil && a.policies.memory == nil {
		<-ctx.Done()
		return nil
	}
	for ctx.Err() == nil {
		a.reconcile(ctx)
		_ = pause.For(ctx, a.settings.CPUs.Period)
	}
	return nil
}

// updateTimeout bounds the update of one container.
const updateTimeout = 2 * time.Minute

// reconcile takes back what pods have left and tells the runtime which CPUs the containers that run are to have.
func (a *Allocator) reconcile(ctx context.Context) {
	a.mu.Lock()
	if a.takeBack("") {
		a.save()
	}
	a.mu.Unlock()
	seen := map[string]bool{}
	for _, pod := range a.pods.Pods() {
		if !a.pods.Live(pod.UID) {
			continue
		}
		for id, name := range running(pod) {
			seen[id] = true
			a.update(ctx, pod, name, id)
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for id := range a.told {
		if !seen[id] {
			delete(a.told, id)
		}
	}
}

// update tells the runtime the CPUs of a container, if they have changed.
func (a *Allocator) update(ctx context.Context, pod *corev1.Pod, name, id string) {
	a.mu.Lock()
	want, _ := a.have.cpus.Of(pod.UID, name)
	told, known := a.told[id]
	a.mu.Unlock()
	if want.IsEmpty() || known && told.Equals(want) {
		return
	}
	call, cancel := context.WithTimeout(ctx, updateTimeout)
	defer cancel()
	if err := a.runtime.UpdateContainerResources(call, id, cri.Resources{CPUs: want.String()}); err != nil {
		if ctx.Err() == nil {
			a.log.Error("failed to update container", "pod", pod.Namespace+"/"+pod.Name, "container", name, "cpus", want.String(), "error", err)
		}
		return
	}
	a.mu.Lock()
	a.told[id] = want
	a.mu.Unlock()
}

// takeBack takes back what pods have left that are not live any more, except one. It reports whether there was anything. The lock
// is held.
func (a *Allocator) takeBack(except types.UID) bool {
	live := func(uid types.UID) bool { return uid == except || a.pods.Live(uid) }
	before := len(a.have.cpus.Own) + len(a.have.memory.Own)
	a.have.cpus, a.have.memory = a.have.cpus.Without(live), a.have.memory.Without(live)
	return len(a.have.cpus.Own)+len(a.have.memory.Own) != before
}
