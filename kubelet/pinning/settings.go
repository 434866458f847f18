package pinning

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/cpuset"

	"github.com/keelson-dev/keelson/kubelet/pinning/cpus"
	"github.com/keelson-dev/keelson/kubelet/pinning/memory"
	"github.com/keelson-dev/keelson/kubelet/pinning/numa"
)

// Names of policies of CPUs and of memory, of scopes, and the default of CPUSettings.Period. The policies of where are those of package numa.
const (
	CPUsShared    = "none"
	CPUsExclusive = "static"

	MemoryShared    = "None"
	MemoryExclusive = "Static"

	ScopeContainer = "container"
	ScopePod       = "pod"

	DefaultPeriod = 10 * time.Second
)

// Settings are the fields of a KubeletConfiguration about pinning. The zero value pins nothing, which is upstream's default.
type Settings struct {
	// CPUs, Memory and Topology are those of upstream's CPU manager, memory manager and topology manager.
	CPUs     CPUSettings
	Memory   MemorySettings
	Topology TopologySettings
	// Reserved is what the node keeps for itself, in all.
	Reserved corev1.ResourceList
}

// Any reports whether anything is given to containers alone, so that the machine has to be known.
func (s *Settings) Any() bool {
	return cmp.Or(s.CPUs.Policy, CPUsShared) != CPUsShared || cmp.Or(s.Memory.Policy, MemoryShared) != MemoryShared ||
		cmp.Or(s.Topology.Policy, numa.None) != numa.None
}

// CPUSettings are about CPUs.
type CPUSettings struct {
	// Policy is CPUsShared or CPUsExclusive; Options are those of the latter.
	Policy  string
	Options map[string]string
	// Reserved are the CPUs that no container gets to itself; if empty, they are chosen by the amount in Settings.Reserved.
	Reserved cpuset.CPUSet
	// Period is how often the containers that share CPUs are updated.
	Period time.Duration
}

// MemorySettings are about memory.
type MemorySettings struct {
	// Policy is MemoryShared or MemoryExclusive.
	Policy string
	// Reserved is on which NUMA nodes the memory in Settings.Reserved is.
	Reserved []memory.Reservation
}

// TopologySettings are about where on the machine the resources of a container, or with ScopePod of all containers of a pod
// together, are to be.
type TopologySettings struct {
	// Policy is one of package numa, with its Options; Scope is ScopeContainer or ScopePod.
	Policy, Scope string
	Options       map[string]string
}

// Machine is the machine's hardware.
type Machine struct {
	// CPUs are those online, Nodes the NUMA nodes, Memory what each of these has.
	CPUs   cpus.Topology
	Nodes  []numa.Node
	Memory memory.Machine
}

// policies are what decides.
type policies struct {
	cpus     *cpus.Policy   // nil: all are shared
	memory   *memory.Policy // nil: all is shared
	topology *numa.Policy
	byPod    bool
}

func (s *Settings) policies(m Machine) (policies, error) {
	var p policies
	var err error
	if p.topology, err = numa.New(s.Topology.Policy, s.Topology.Options, m.Nodes); err != nil {
		return p, err
	}
	switch scope := cmp.Or(s.Topology.Scope, ScopeContainer); scope {
	case ScopeContainer:
	case ScopePod:
		p.byPod = true
	default:
		return p, fmt.Errorf("unknown scope: %q", scope)
	}
	switch policy := cmp.Or(s.CPUs.Policy, CPUsShared); policy {
	case CPUsShared:
		if len(s.CPUs.Options) > 0 {
			err = fmt.Errorf("new none policy error: None policy: received unsupported options=%v", s.CPUs.Options)
		}
	case CPUsExclusive:
		p.cpus, err = s.exclusive(m)
	default:
		err = fmt.Errorf("unknown policy: %q", policy)
	}
	if err != nil {
		return p, err
	}
	switch policy := cmp.Or(s.Memory.Policy, MemoryShared); policy {
	case MemoryShared:
	case MemoryExclusive:
		p.memory, err = memory.New(m.Memory, s.Memory.Reserved, s.Reserved)
	default:
		err = fmt.Errorf("unknown policy: %q", policy)
	}
	return p, err
}

func (s *Settings) exclusive(m Machine) (*cpus.Policy, error) {
	amount, known := s.Reserved[corev1.ResourceCPU]
	if !known {
		return nil, errors.New("[cpumanager] unable to determine reserved CPU resources for static policy")
	}
	options, err := cpus.ParseOptions(s.CPUs.Options)
	if err != nil {
		return nil, fmt.Errorf("new static policy error: %w", err)
	}
	if all := m.CPUs.All(); !s.CPUs.Reserved.IsSubsetOf(all) {
		return nil, fmt.Errorf("reserved-cpus: %s is not a subset of online-cpus: %s", s.CPUs.Reserved, all)
	}
	return cpus.New(m.CPUs, s.CPUs.Reserved, amount, options)
}
