package host

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/kubelet"
	"github.com/keelson-dev/keelson/kubelet/cgroup"
	"github.com/keelson-dev/keelson/kubelet/eviction"
	"github.com/keelson-dev/keelson/kubelet/machine"
	"github.com/keelson-dev/keelson/kubelet/pinning"
	"github.com/keelson-dev/keelson/kubelet/pinning/cpus"
	"github.com/keelson-dev/keelson/kubelet/pinning/memory"
	"github.com/keelson-dev/keelson/kubelet/pinning/numa"
)

// reserved is what pods cannot use of a capacity.
func (h *Host) reserved(capacity corev1.ResourceList) []corev1.ResourceList {
	return append(h.options.Reserved.lists(), eviction.Reserved(h.options.Upkeep.Thresholds, capacity))
}

// pinning gives containers CPUs and memory to themselves.
func (h *Host) pinning(r kubelet.Registration) (*pinning.Allocator, error) {
	settings := h.options.Policies
	m, err := hardware(&settings)
	if err != nil {
		return nil, err
	}
	settings.Reserved = corev1.ResourceList{}
	for _, list := range h.reserved(r.Capacity) {
		for name, quantity := range list {
			sum := settings.Reserved[name]
			sum.Add(quantity)
			settings.Reserved[name] = sum
		}
	}
	resizer, _ := h.runtime.(cri.Resizer)
	pins, err := pinning.New(h.options.Dir, m, pinnable{h}, resizer, pinning.Options{Settings: settings, Logger: h.options.Logger})
	if err != nil {
		return nil, fmt.Errorf("pinning on node %s: %w", h.parts.Name, err)
	}
	return pins, nil
}

// hardware is the machine, as far as the settings are about it.
func hardware(s *pinning.Settings) (pinning.Machine, error) {
	m := pinning.Machine{CPUs: cpus.Topology{}, Memory: memory.Machine{}}
	if !s.Any() {
		return m, nil
	}
	list, nodes, err := machine.Reader{}.Topology()
	for _, c := range list {
		m.CPUs[c.ID] = cpus.CPU{Core: c.Core, Socket: c.Socket, Node: c.Node, Cache: c.Cache}
	}
	for _, n := range nodes {
		m.Nodes = append(m.Nodes, numa.Node{ID: n.ID, Distances: n.Distances})
		m.Memory[n.ID] = memory.NodeMemory{Memory: n.Memory, Hugepages: n.Hugepages}
	}
	return m, err
}

// offered is what all pods together may use: processes are counted if some are reserved.
func (h *Host) offered(capacity corev1.ResourceList, found machine.Machine) corev1.ResourceList {
	const processes = corev1.ResourceName("pid")
	out := machine.Allocatable(capacity, h.options.Reserved.lists()...)
	reserved := int64(0)
	for _, list := range h.options.Reserved.lists() {
		q := list[processes]
		reserved += q.Value()
	}
	if reserved > 0 {
		out[processes] = *resource.NewQuantity(max(1, int64(found.MaxProcesses)-reserved), resource.DecimalSI) //nolint:gosec // a number of processes
	}
	return out
}

// overrideCPU makes the number of reserved CPUs, if they are named, the amount that is reserved.
func (p *Pinning) overrideCPU() {
	named := p.Policies.CPUs.Reserved.Size()
	if named == 0 {
		return
	}
	p.Reserved.System, p.Reserved.Kube = p.Reserved.System.DeepCopy(), p.Reserved.Kube.DeepCopy()
	delete(p.Reserved.Kube, corev1.ResourceCPU)
	if p.Reserved.System == nil {
		p.Reserved.System = corev1.ResourceList{}
	}
	p.Reserved.System[corev1.ResourceCPU] = resource.MustParse(strconv.Itoa(named))
}

// exclusive reports whether a pod has CPUs to itself.
func (h *Host) exclusive(uid types.UID) bool { return h.pins != nil && h.pins.Exclusive(uid) }

// pinnable are the pods of the node's kubelet, once there is one.
type pinnable struct{ *Host }

// Pods implements pinning.Pods.
func (p pinnable) Pods() []*corev1.Pod { return p.kubelet.Pods() }

// Live implements pinning.Pods.
func (p pinnable) Live(uid types.UID) bool { return p.kubelet.Live(uid) }

// pinned are the cgroups of pods whose containers may be pinned.
type pinned struct {
	*cgroup.Tree
	pins *pinning.Allocator
}

// Resources implements kubelet.Cgroups.
func (p pinned) Resources(pod *corev1.Pod, c *corev1.Container) cri.Resources {
	r := p.Tree.Resources(pod, c)
	p.pins.Pin(pod.UID, c.Name, &r)
	return r
}

// allocator lets pins admit pods.
type allocator struct{ *pinning.Allocator }

// Admit implements kubelet.Admitter.
func (a allocator) Admit(pod *corev1.Pod) *kubelet.Refusal {
	return refusalOf(a.Allocator.Admit(pod))
}

// AdmitResize implements kubelet.Allocator.
func (a allocator) AdmitResize(given, wanted *corev1.Pod) *kubelet.Refusal {
	return refusalOf(a.Allocator.AdmitResize(given, wanted))
}

func refusalOf(r *pinning.Refusal) *kubelet.Refusal {
	if r == nil {
		return nil
	}
	return &kubelet.Refusal{Reason: r.Reason, Message: r.Message}
}
