package kubeletconfig

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/cpuset"

	"github.com/keelson-dev/keelson/internal/boundedquantity"
	"github.com/keelson-dev/keelson/kubelet/pinning"
	"github.com/keelson-dev/keelson/kubelet/pinning/cpus"
	"github.com/keelson-dev/keelson/kubelet/pinning/memory"
	"github.com/keelson-dev/keelson/kubelet/pinning/numa"
)

// pinned are the fields about what the node keeps for itself, and what it gives to containers alone.
type pinned struct {
	SystemReserved     map[string]string `json:"systemReserved"`
	KubeReserved       map[string]string `json:"kubeReserved"`
	ReservedSystemCPUs string            `json:"reservedSystemCPUs"`

	CPUManagerPolicy          string            `json:"cpuManagerPolicy"`
	CPUManagerPolicyOptions   map[string]string `json:"cpuManagerPolicyOptions"`
	CPUManagerReconcilePeriod string            `json:"cpuManagerReconcilePeriod"`

	MemoryManagerPolicy string        `json:"memoryManagerPolicy"`
	ReservedMemory      []reservation `json:"reservedMemory"`

	TopologyManagerPolicy        string            `json:"topologyManagerPolicy"`
	TopologyManagerScope         string            `json:"topologyManagerScope"`
	TopologyManagerPolicyOptions map[string]string `json:"topologyManagerPolicyOptions"`
}

// reservation is memory of a NUMA node that the node keeps for itself.
type reservation struct {
	NUMANode int                 `json:"numaNode"`
	Limits   corev1.ResourceList `json:"limits"`
}

// pinning reads them. What depends on the machine is checked when the node starts.
func (r *reader) pinning() {
	f, o := &r.f.pinned, &r.c.Host.Pinning
	o.Reserved.System = r.reserved("systemReserved", f.SystemReserved)
	o.Reserved.Kube = r.reserved("kubeReserved", f.KubeReserved)
	var err error
	p := &o.Policies.CPUs
	p.Policy, p.Options = f.CPUManagerPolicy, f.CPUManagerPolicyOptions
	p.Period = r.duration("cpuManagerReconcilePeriod", f.CPUManagerReconcilePeriod)
	if p.Reserved, err = cpuset.Parse(f.ReservedSystemCPUs); err != nil {
		r.wrong("reservedSystemCPUs", fmt.Errorf("unable to parse reservedSystemCPUs (--reserved-cpus) %v, error: %w", f.ReservedSystemCPUs, err))
	}
	r.oneOf("cpuManagerPolicy", p.Policy, pinning.CPUsShared, pinning.CPUsExclusive)
	if _, err := cpus.ParseOptions(p.Options); err != nil {
		r.wrong("cpuManagerPolicyOptions", err)
	} else if len(p.Options) > 0 && p.Policy != pinning.CPUsExclusive {
		r.wrong("cpuManagerPolicyOptions", fmt.Errorf("None policy: received unsupported options=%v", p.Options)) //nolint:staticcheck // upstream's words
	}
	r.memory()
	t := &o.Policies.Topology
	t.Policy, t.Scope, t.Options = f.TopologyManagerPolicy, f.TopologyManagerScope, f.TopologyManagerPolicyOptions
	r.oneOf("topologyManagerPolicy", t.Policy, numa.None, numa.BestEffort, numa.Restricted, numa.SingleNode)
	r.oneOf("topologyManagerScope", t.Scope, pinning.ScopeContainer, pinning.ScopePod)
	r.wrong("topologyManagerPolicyOptions", numa.CheckOptions(t.Options))
}

func (r *reader) memory() {
	m := &r.c.Host.Policies.Memory
	m.Policy = r.f.MemoryManagerPolicy
	r.oneOf("memoryManagerPolicy", m.Policy, pinning.MemoryShared, pinning.MemoryExclusive)
	seen := map[string]bool{}
	for _, of := range r.f.ReservedMemory {
		for _, name := range slices.Sorted(maps.Keys(of.Limits)) {
			key := fmt.Sprint(of.NUMANode, name)
			q := of.Limits[name]
			switch {
			case name != corev1.ResourceMemory && !strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix):
				r.wrong("reservedMemory", fmt.Errorf("the limit type %q for NUMA node %d is not supported, only %v is accepted", name, of.NUMANode, []string{"memory", "hugepages-<HugePageSize>"}))
			case q.IsZero():
				r.wrong("reservedMemory", fmt.Errorf("reserved memory may not be zero for NUMA node %d and resource %q", of.NUMANode, name))
			case seen[key]:
				r.wrong("reservedMemory", fmt.Errorf("the reserved memory has a duplicate value for NUMA node %d and resource %q", of.NUMANode, name))
			}
			seen[key] = true
		}
		m.Reserved = append(m.Reserved, memory.Reservation{Node: of.NUMANode, Limits: of.Limits})
	}
}

// oneOf checks a choice; none is the first.
func (r *reader) oneOf(name, value string, of ...string) {
	if value != "" && !slices.Contains(of, value) {
		r.wrong(name, fmt.Errorf("%q must be one of: %s", value, strings.Join(quoted(of), ", ")))
	}
}

func quoted(list []string) []string {
	var out []string
	for _, s := range list {
		out = append(out, strconv.Quote(s))
	}
	return out
}

// reserved reads amounts of resources.
func (r *reader) reserved(field string, amounts map[string]string) corev1.ResourceList {
	var out corev1.ResourceList
	for _, name := range slices.Sorted(maps.Keys(amounts)) {
		switch corev1.ResourceName(name) {
		case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, "pid":
		default:
			r.wrong(field, fmt.Errorf("cannot reserve %q resource", name))
			continue
		}
		q, err := boundedquantity.Parse(amounts[name])
		switch {
		case err != nil:
			r.wrong(field, fmt.Errorf("failed to parse quantity %q for %q resource: %w", amounts[name], name, err))
			continue
		case q.Sign() < 0:
			r.wrong(field, fmt.Errorf("resource quantity for %q cannot be negative: %v", name, amounts[name]))
			continue
		case name == string(corev1.ResourceCPU):
			q.SetMilli((q.ScaledValue(resource.Micro) + 500) / 1000)
		}
		if out == nil {
			out = corev1.ResourceList{}
		}
		out[corev1.ResourceName(name)] = q
	}
	return out
}
