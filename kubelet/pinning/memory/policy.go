package memory

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/keelson-dev/keelson/kubelet/pinning/numa"
	"github.com/keelson-dev/keelson/podspec/qos"
	"github.com/keelson-dev/keelson/podspec/restart"
)

// Machine is the memory of each NUMA node, by number.
type Machine map[int]NodeMemory

// NodeMemory is the memory of a node in bytes, and that of huge pages by their size.
type NodeMemory struct {
	// Memory is all that it has, Hugepages what of it is set aside for huge pages of each size.
	Memory    uint64
	Hugepages map[uint64]uint64
}

// Reservation is memory of a NUMA node that the node keeps for itself.
type Reservation struct {
	// Node is the number of the NUMA node, Limits how much of each resource is reserved on it.
	Node   int
	Limits corev1.ResourceList
}

// Policy is the static policy. Make one with New.
type Policy struct{ initial State }

// New returns the policy for a machine of which some memory is reserved on each node: in all as much as amounts say.
func New(m Machine, reserved []Reservation, amounts corev1.ResourceList) (*Policy, error) {
	sums := corev1.ResourceList{}
	on := map[int]map[corev1.ResourceName]uint64{}
	for _, r := range reserved {
		if _, known := m[r.Node]; !known {
			return nil, fmt.Errorf("the reserved memory configuration references a NUMA node %d that does not exist on this machine", r.Node)
		}
		if on[r.Node] == nil {
			on[r.Node] = map[corev1.ResourceName]uint64{}
		}
		for name, q := range r.Limits {
			size, exact := q.AsInt64()
			if !exact {
				return nil, errors.New("could not covert a variable of type Quantity to int64")
			}
			on[r.Node][name] = uint64(max(size, 0))
			sum := sums[name]
			sum.Add(q)
			sums[name] = sum
		}
	}
	if err := sameAmounts(sums, amounts); err != nil {
		return nil, err
	}
	if q := sums[corev1.ResourceMemory]; q.Sign() <= 0 {
		return nil, errors.New("[memorymanager] you should specify the system reserved memory")
	}
	return &Policy{initial(m, on)}, nil
}

// sameAmounts checks that what is reserved on all nodes is what the node keeps for itself.
func sameAmounts(sums, amounts corev1.ResourceList) error {
	names := slices.AppendSeq(slices.Collect(maps.Keys(sums)), maps.Keys(amounts))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if !counted(name) {
			continue
		}
		if have, want := sums[name], amounts[name]; !have.Equal(want) {
			return fmt.Errorf("the total amount %q of type %q is not equal to the value %q determined by Node Allocatable feature", have.String(), name, want.String())
		}
	}
	return nil
}

func counted(name corev1.ResourceName) bool {
	return name == corev1.ResourceMemory || strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// initial is the state of a machine of which nothing is given away.
func initial(m Machine, reserved map[int]map[corev1.ResourceName]uint64) State {
	s := State{Nodes: map[int]Node{}}
	for id, n := range m {
		memory := map[corev1.ResourceName]Table{}
		add := func(name corev1.ResourceName, total, other uint64) {
			keep := reserved[id][name]
			left := total - min(total, keep+other)
			memory[name] = Table{Total: total, SystemReserved: keep, Allocatable: left, Free: left}
		}
		pages := uint64(0)
		for size, total := range n.Hugepages {
			name := corev1.ResourceHugePagesPrefix + resource.NewQuantity(int64(size), resource.BinarySI).String()
			add(corev1.ResourceName(name), total, 0)
			pages += total
		}
		add(corev1.ResourceMemory, n.Memory, pages)
		s.Nodes[id] = Node{Memory: memory, Group: []int{id}}
	}
	return s
}

// amounts are bytes of each resource.
type amounts map[corev1.ResourceName]uint64

func (a amounts) names() []corev1.ResourceName { return slices.Sorted(maps.Keys(a)) }

// wanted is what a container is to be given.
func wanted(pod *corev1.Pod, c *corev1.Container) (amounts, error) {
	if qos.Class(pod) != corev1.PodQOSGuaranteed || resourcehelper.IsPodLevelResourcesSet(pod) {
		return nil, nil
	}
	out := amounts{}
	for name, q := range c.Resources.Requests {
		if !counted(name) {
			continue
		}
		size, exact := q.AsInt64()
		if !exact {
			return nil, errors.New("[memorymanager] failed to represent quantity as int64")
		}
		out[name] = uint64(max(size, 0))
	}
	return out, nil
}

// wantedAtOnce is what the containers of a pod are to be given, when most of them run.
func wantedAtOnce(pod *corev1.Pod) (amounts, error) {
	inits, sidecars, regular, out := amounts{}, amounts{}, amounts{}, amounts{}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		want, err := wanted(pod, c)
		if err != nil {
			return nil, err
		}
		for name, size := range want {
			if restart.Sidecar(c) {
				sidecars[name] += size
			} else {
				inits[name] = max(inits[name], sidecars[name]+size)
			}
		}
	}
	for i := range pod.Spec.Containers {
		want, err := wanted(pod, &pod.Spec.Containers[i])
		if err != nil {
			return nil, err
		}
		for name, size := range want {
			regular[name] += size
		}
	}
	for name, size := range regular {
		out[name] = max(size+sidecars[name], inits[name])
	}
	return out, nil
}

// reusable is what a pod's init containers that have ended leave to a container, by the nodes that it is on.
func (s State) reusable(pod *corev1.Pod, container string) map[numa.Mask]amounts {
	out := map[numa.Mask]amounts{}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if c.Name == container {
			break
		}
		if restart.Sidecar(c) {
			continue
		}
		for _, b := range s.Own[pod.UID][c.Name] {
			m := numa.MaskOf(b.Nodes...)
			if out[m] == nil {
				out[m] = amounts{}
			}
			out[m][b.Type] += b.Size // what others use again is not in it
		}
	}
	return out
}
