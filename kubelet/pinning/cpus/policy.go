package cpus

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/utils/cpuset"

	"github.com/keelson-dev/keelson/kubelet/pinning/numa"
	"github.com/keelson-dev/keelson/podspec/qos"
	"github.com/keelson-dev/keelson/podspec/restart"
)

// AlignmentReason is the reason in the status of a pod that is refused because of an AlignmentError.
const AlignmentReason = "SMTAlignmentError"

// AlignmentError says that a container cannot have whole cores.
type AlignmentError struct {
	// Requested is how many CPUs the container requests, PerCore how many a core has.
	Requested, PerCore int
	// Available is how many CPUs of whole cores there are; -1 if Requested is not a multiple of PerCore.
	Available int
}

// Error implements error.
func (e *AlignmentError) Error() string {
	if e.Available >= 0 {
		return fmt.Sprintf("SMT Alignment Error: not enough free physical CPUs: available physical CPUs = %d, requested CPUs = %d, CPUs per core = %d", e.Available, e.Requested, e.PerCore)
	}
	return fmt.Sprintf("SMT Alignment Error: requested %d cpus not multiple cpus per core = %d", e.Requested, e.PerCore)
}

// Policy is the static policy. Make one with New.
type Policy struct {
	topology Topology
	reserved cpuset.CPUSet
	// cores are the reserved CPUs with all others of their cores.
	cores   cpuset.CPUSet
	options Options
}

// New returns the policy for a machine. Reserved are the CPUs that are not handed out; if it is empty, they are chosen, as many as
// amount is, rounded up.
func New(t Topology, reserved cpuset.CPUSet, amount resource.Quantity, o Options) (*Policy, error) {
	if len(t) == 0 {
		return nil, errors.New("could not detect number of cpus")
	}
	if amount.Sign() <= 0 {
		return nil, errors.New("[cpumanager] the static policy requires systemreserved.cpu + kubereserved.cpu to be greater than zero")
	}
	p := &Policy{topology: t, reserved: reserved, options: o}
	count := int((amount.MilliValue() + 999) / 1000)
	if reserved.IsEmpty() {
		p.reserved, _ = p.take(t.All(), count) // too many are noticed below
	}
	if p.reserved.Size() != count {
		return nil, fmt.Errorf("new static policy error: [cpumanager] unable to reserve the required amount of CPUs (size of %s did not equal %d)", p.reserved, count)
	}
	cores := map[int]bool{}
	for _, id := range p.reserved.List() {
		c, known := t[id]
		if !known {
			return nil, fmt.Errorf("new static policy error: [cpumanager] unable to build the reserved physical CPUs from the reserved set: unknown CPU ID: %d", id)
		}
		cores[c.Core] = true
	}
	p.cores = t.where(func(c CPU) bool { return cores[c.Core] })
	return p, nil
}

// Reserved are the CPUs that no container gets to itself.
func (p *Policy) Reserved() cpuset.CPUSet { return p.reserved }

func (p *Policy) take(free cpuset.CPUSet, count int) (cpuset.CPUSet, error) {
	if !p.options.AcrossNodes {
		return p.topology.takePacked(free, count, p.options.ByCache)
	}
	group := 1
	if p.options.FullCores {
		group = p.topology.PerCore()
	}
	return p.topology.takeDistributed(free, count, group)
}

// Wanted is how many CPUs a container is to have to itself.
func Wanted(pod *corev1.Pod, c *corev1.Container) int {
	request := c.Resources.Requests[corev1.ResourceCPU]
	if qos.Class(pod) != corev1.PodQOSGuaranteed || resourcehelper.IsPodLevelResourcesSet(pod) || request.Value()*1000 != request.MilliValue() {
		return 0
	}
	return int(request.Value())
}

// wantedAtOnce is how many CPUs the containers of a pod are to have to themselves, when most of them run.
func wantedAtOnce(pod *corev1.Pod) int {
	sidecars, most, sum := 0, 0, 0
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		want := Wanted(pod, c)
		if restart.Sidecar(c) {
			sidecars += want
		} else {
			most = max(most, sidecars+want)
		}
	}
	for i := range pod.Spec.Containers {
		sum += Wanted(pod, &pod.Spec.Containers[i])
	}
	return max(most, sum+sidecars)
}

// Allocate returns the state in which a container, if it is to have CPUs to itself, has them: some of the affinity's, if there are
// enough. It changes nothing for a container that already has some. The containers of a pod are to be asked for in their order.
func (p *Policy) Allocate(s State, pod *corev1.Pod, c *corev1.Container, affinity numa.Mask) (State, error) {
	count := Wanted(pod, c)
	if _, own := s.Of(pod.UID, c.Name); own || count == 0 {
		return s, nil
	}
	if err := p.aligned(s, count); err != nil {
		return s, err
	}
	set, err := p.choose(s.Shared.Difference(p.reserved).Union(s.reusable(pod, c.Name)), count, affinity)
	if err != nil {
		return s, err
	}
	next := s.Clone()
	next.Shared = s.Shared.Difference(set)
	if next.Own[pod.UID] == nil {
		next.Own[pod.UID] = map[string]cpuset.CPUSet{}
	}
	next.Own[pod.UID][c.Name] = set
	return next, nil
}

// choose takes CPUs, those of the affinity first.
func (p *Policy) choose(free cpuset.CPUSet, count int, affinity numa.Mask) (cpuset.CPUSet, error) {
	near := free.Intersection(p.topology.onNodes(affinity))
	set, err := p.take(near, min(near.Size(), count))
	if err != nil {
		return set, err
	}
	rest, err := p.take(free.Difference(set), count-set.Size())
	return set.Union(rest), err
}

// aligned reports whether so many CPUs can be whole cores.
func (p *Policy) aligned(s State, count int) error {
	if !p.options.FullCores {
		return nil
	}
	per := p.topology.PerCore()
	if count%per != 0 {
		return &AlignmentError{count, per, -1}
	}
	if available := s.Shared.Difference(p.cores).Size(); count > available {
		return &AlignmentError{count, per, available}
	}
	return nil
}

// Hints says on which NUMA nodes a container's own CPUs could be.
func (p *Policy) Hints(s State, pod *corev1.Pod, c *corev1.Container) numa.Hints {
	count := Wanted(pod, c)
	if count == 0 {
		return nil
	}
	if set, own := s.Of(pod.UID, c.Name); own {
		if set.Size() != count {
			return numa.Hints{string(corev1.ResourceCPU): {}}
		}
		return p.hints(set, cpuset.New(), count)
	}
	return p.hints(s.Shared.Difference(p.reserved), s.reusable(pod, c.Name), count)
}

// PodHints says on which NUMA nodes the own CPUs of all containers of a pod could be.
func (p *Policy) PodHints(s State, pod *corev1.Pod) numa.Hints {
	count := wantedAtOnce(pod)
	if count == 0 {
		return nil
	}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if set, own := s.Of(pod.UID, list[i].Name); own && set.Size() != Wanted(pod, &list[i]) {
				return numa.Hints{string(corev1.ResourceCPU): {}}
			}
		}
	}
	assigned := s.assigned(pod.UID)
	if assigned.Size() == count {
		return p.hints(assigned, cpuset.New(), count)
	}
	return p.hints(s.Shared.Difference(p.reserved), assigned, count)
}

// hints lists the sets of NUMA nodes with enough free CPUs, and with all that are to be used again.
func (p *Policy) hints(free, again cpuset.CPUSet, count int) numa.Hints {
	all, left, kept := p.topology.sizes(node), p.topology.only(free).sizes(node), p.topology.only(again).sizes(node)
	var nodes []int
	for n := range numa.MaxNode + 1 {
		if all[n] > 0 {
			nodes = append(nodes, n)
		}
	}
	least := len(nodes)
	hints := []numa.Hint{}
	for _, m := range numa.Subsets(nodes) {
		have, size, used := 0, 0, 0
		for _, n := range m.Nodes() {
			size += all[n]
			have += left[n] + kept[n]
			used += kept[n]
		}
		if size >= count {
			least = min(least, m.Len())
		}
		if have >= count && used == sum(kept) {
			hints = append(hints, numa.Hint{Nodes: m})
		}
	}
	for i := range hints {
		hints[i].Preferred = hints[i].Nodes.Len() == least
	}
	return numa.Hints{string(corev1.ResourceCPU): hints}
}

func sum(of map[int]int) (total int) {
	for _, n := range of {
		total += n
	}
	return total
}
