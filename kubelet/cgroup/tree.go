package cgroup

import (
	"fmt"
	"log/slog"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/keelson-dev/keelson/podspec/qos"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/cri"
)

// Options configures a Tree. All fields are optional.
type Options struct {
	// Mount is where cgroups are mounted; empty is /sys/fs/cgroup.
	Mount string
	// Offered is what all pods together may use; empty leaves them unlimited.
	Offered corev1.ResourceList
	// MemoryCapacity is the machine's memory in bytes, which the OOM scores of burstable containers are relative to.
	MemoryCapacity int64
	// PodPids is the maximum number of processes and threads of a pod; 0 is unlimited.
	PodPids int64
	// Quotas sets how CPU limits are enforced.
	Quotas Quotas
	// Exclusive, if set, reports whether a pod has CPUs to itself: its CPU limit is then not enforced.
	Exclusive func(types.UID) bool
	// Logger records what the machine lacks, once each; nil discards it.
	Logger *slog.Logger
}

// Tree manages the cgroups of the pods of one node. It implements kubelet.Cgroups. Make one with New.
type Tree struct {
	root    string
	options Options
	log     *slog.Logger
	layout  layout
	machine Machine

	mu       sync.Mutex
	prepared bool
	pods     map[types.UID]applied
	shares   uint64 // of the burstable class, as last written
}

// applied is what was set for a pod.
type applied struct {
	parent    string
	limits    Limits
	burstable int64 // its contribution to its class, in thousandths of a CPU
}

// layout implements one version of cgroups. Paths are those of cgroups, with a leading slash.
//
//nolint:interfacebloat // what differs between the two versions of cgroups, both in this package
type layout interface {
	// create creates a cgroup and its missing parents.
	create(path string) error
	// limit applies the limits that are set.
	limit(path string, limits Limits) error
	// limits returns the limits of CPU and memory in force; those that cannot be read are 0.
	limits(path string) cri.Resources
	// dirs returns the directories of a cgroup: one, or with v1 one for each hierarchy.
	dirs(path string) []string
	// has reports whether a controller is available.
	has(controller string) bool
	unified() bool
	// shares returns the CPU shares of a cgroup; 0 if its version cannot tell.
	shares(path string) uint64
	// limitsSwap reports whether the use of swap can be limited.
	limitsSwap() bool
}

// The names below the root.
const (
	burstableName  = "burstable"
	bestEffortName = "besteffort"
	podPrefix      = "pod"
)

// New makes a Tree with its root at a path below the mount, such as /kubepods or /keelson/node-0/kubepods. It inspects
// the machine but changes nothing. It fails with ErrInvalid if the root is not an absolute path, and with
// ErrUnsupported if there are no cgroups.
func New(root string, o Options) (*Tree, error) {
	if !path.IsAbs(root) || path.Clean(root) != root || root == "/" {
		return nil, fmt.Errorf("%q: %w", root, ErrInvalid)
	}
	if o.Mount == "" {
		o.Mount = "/sys/fs/cgroup"
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	l, err := detect(o.Mount, o.Logger)
	if err != nil {
		return nil, err
	}
	t := &Tree{root: root, options: o, log: o.Logger, layout: l, pods: map[types.UID]applied{}}
	t.machine = t.look()
	return t, nil
}

// Root returns the path that the tree was made with.
func (t *Tree) Root() string { return t.root }

// PodPath returns the cgroup of a pod like Ensure, without creating it.
func (t *Tree) PodPath(pod *corev1.Pod) string {
	return path.Join(t.classPath(qos.Class(pod)), podPrefix+string(pod.UID))
}

// Dirs returns the directories of a cgroup of the tree: one with cgroup v2, one for each hierarchy with v1. They may
// not exist.
func (t *Tree) Dirs(cgroup string) []string { return t.layout.dirs(cgroup) }

// Unified reports whether the machine has cgroup v2.
func (t *Tree) Unified() bool { return t.layout.unified() }

func (t *Tree) classPath(class corev1.PodQOSClass) string {
	switch class {
	case corev1.PodQOSBurstable:
		return path.Join(t.root, burstableName)
	case corev1.PodQOSBestEffort:
		return path.Join(t.root, bestEffortName)
	default:
		return t.root
	}
}

func (t *Tree) classPaths() []string {
	return []string{t.root, path.Join(t.root, burstableName), path.Join(t.root, bestEffortName)}
}

func checkUID(uid types.UID) error {
	if uid == "" || strings.ContainsAny(string(uid), "/\x00\n") {
		return fmt.Errorf("pod UID %q: %w", uid, ErrInvalid)
	}
	return nil
}

// Resources returns the resources of one of a pod's containers, for the runtime.
func (t *Tree) Resources(pod *corev1.Pod, container *corev1.Container) cri.Resources {
	return Resources(pod, container, t.machine)
}

// quotas sets how the CPU limit of a pod is enforced.
func (t *Tree) quotas(uid types.UID) Quotas {
	q := t.options.Quotas
	q.Off = q.Off || t.options.Exclusive != nil && t.options.Exclusive(uid)
	return q
}

// Machine returns what containers' resources depend on here.
func (t *Tree) Machine() Machine { return t.machine }

func (t *Tree) look() Machine {
	out := Machine{
		MemoryCapacity: t.options.MemoryCapacity, Quotas: t.options.Quotas,
		Unified: t.layout.unified(), OOMGroup: t.layout.unified(),
	}
	if t.layout.has("hugetlb") {
		out.HugepageSizes = slices.Sorted(maps.Keys(pageSizes()))
	}
	out.Swap = t.layout.limitsSwap()
	return out
}
