package memory

import (
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/kubelet/pinning/numa"
	"github.com/keelson-dev/keelson/podspec/restart"
)

// Allocate returns the state in which a container, if it is to have memory to itself, has it: on the nodes of a hint, or on more if
// these do not have enough. It changes nothing for a container that already has some. The containers of a pod are to be asked for in
// their order.
func (p *Policy) Allocate(s State, pod *corev1.Pod, c *corev1.Container, hint numa.Hint) (State, error) {
	want, err := wanted(pod, c)
	if err != nil || len(want) == 0 || s.Own[pod.UID][c.Name] != nil {
		return s, err
	}
	again := s.reusable(pod, c.Name)
	if hint, err = s.place(want, again, hint); err != nil {
		return s, err
	}
	next := s.Clone()
	nodes := hint.Nodes.Nodes()
	var blocks []Block
	for _, name := range want.names() {
		b := Block{Nodes: nodes, Type: name, Size: want[name]}
		blocks = append(blocks, b)
		next.take(b, b.Size-min(b.Size, again[hint.Nodes][name]))
	}
	if next.Own[pod.UID] == nil {
		next.Own[pod.UID] = map[string][]Block{}
	}
	next.Own[pod.UID][c.Name] = blocks
	next.useAgain(pod, c.Name)
	return next, nil
}

// place chooses the nodes.
func (s State) place(want amounts, again map[numa.Mask]amounts, hint numa.Hint) (numa.Hint, error) {
	if hint.Nodes == 0 {
		fallback := s.hints(want, again)
		if len(fallback) == 0 {
			return hint, errors.New("[memorymanager] failed to get the default NUMA affinity, no NUMA nodes with enough memory is available")
		}
		best := best(fallback)
		if !best.Preferred && hint.Preferred {
			return hint, errors.New("[memorymanager] failed to find the default preferred hint")
		}
		hint = best
	}
	if !s.suffices(hint.Nodes, want) {
		wider := slices.DeleteFunc(s.hints(want, again), func(h numa.Hint) bool { return h.Nodes&hint.Nodes != hint.Nodes })
		if len(wider) == 0 {
			return hint, errors.New("[memorymanager] failed to find NUMA nodes to extend the current topology hint")
		}
		best := best(wider)
		if !best.Preferred && hint.Preferred {
			return hint, errors.New("[memorymanager] failed to find the extended preferred hint")
		}
		hint = best
	}
	if hint.Nodes.Len() > 1 && !s.groups(hint.Nodes) {
		return hint, errors.New("[memorymanager] preferred hint violates NUMA node allocation")
	}
	return hint, nil
}

func (s State) suffices(m numa.Mask, want amounts) bool {
	for name, size := range want {
		if s.free(m, name) < size {
			return false
		}
	}
	return true
}

// groups reports whether what lies on several nodes may lie on these.
func (s State) groups(m numa.Mask) bool {
	for _, id := range m.Nodes() {
		if n := s.Nodes[id]; n.Assignments > 0 && (len(n.Group) == 1 || !sameNodes(n.Group, m.Nodes())) {
			return false
		}
	}
	return true
}

// best is the preferred hint with the fewest nodes or, if none is preferred, the one with the fewest.
func best(hints []numa.Hint) numa.Hint {
	first := hints[0]
	for _, h := range hints[1:] {
		if h.Preferred && !first.Preferred || h.Preferred == first.Preferred && h.Nodes.Narrower(first.Nodes) {
			first = h
		}
	}
	return first
}

// useAgain takes what a container uses again out of the blocks of the init containers before it: then the sum of all is what
// was taken.
func (s State) useAgain(pod *corev1.Pod, container string) {
	own := s.Own[pod.UID]
	for _, used := range own[container] {
		left := used.Size
		for i := range pod.Spec.InitContainers {
			c := &pod.Spec.InitContainers[i]
			if c.Name == container {
				break
			}
			if restart.Sidecar(c) {
				continue
			}
			for j := range own[c.Name] {
				if b := &own[c.Name][j]; b.Type == used.Type && sameNodes(b.Nodes, used.Nodes) {
					part := min(b.Size, left)
					b.Size, left = b.Size-part, left-part
				}
			}
		}
	}
}

// Hints says on which NUMA nodes the memory of a container could be.
func (p *Policy) Hints(s State, pod *corev1.Pod, c *corev1.Container) numa.Hints {
	want, err := wanted(pod, c)
	if err != nil || len(want) == 0 {
		return nil
	}
	if blocks := s.Own[pod.UID][c.Name]; blocks != nil {
		return again(blocks, want)
	}
	return forAll(want, s.hints(want, s.reusable(pod, c.Name)))
}

// PodHints says on which NUMA nodes the memory of all containers of a pod could be.
func (p *Policy) PodHints(s State, pod *corev1.Pod) numa.Hints {
	want, err := wantedAtOnce(pod)
	if err != nil || len(want) == 0 {
		return nil
	}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if blocks := s.Own[pod.UID][list[i].Name]; blocks != nil {
				return again(blocks, want)
			}
		}
	}
	return forAll(want, s.hints(want, nil))
}

// again are the hints for what is given already; nil if that is not what is wanted.
func again(blocks []Block, want amounts) numa.Hints {
	if len(blocks) != len(want) {
		return nil
	}
	out := numa.Hints{}
	for _, b := range blocks {
		if size, known := want[b.Type]; !known || size != b.Size {
			return nil
		}
		out[string(b.Type)] = append(out[string(b.Type)], numa.Hint{Nodes: numa.MaskOf(b.Nodes...), Preferred: true})
	}
	return out
}

// forAll are the same hints for all resources; without any, there is no preference, as in upstream.
func forAll(want amounts, hints []numa.Hint) numa.Hints {
	if len(hints) == 0 {
		return nil
	}
	out := numa.Hints{}
	for name := range want {
		out[string(name)] = hints
	}
	return out
}

// hints lists the sets of NUMA nodes with enough free memory.
func (s State) hints(want amounts, again map[numa.Mask]amounts) []numa.Hint {
	least := len(s.Nodes)
	var hints []numa.Hint
	for _, m := range numa.Subsets(s.ids()) {
		enough, free := true, true
		for name, size := range want {
			enough = enough && s.allocatable(m, name) >= size
			free = free && s.free(m, name)+again[m][name] >= size
		}
		if !enough {
			continue
		}
		least = min(least, m.Len())
		if m.Len() == 1 && len(s.Nodes[m.Nodes()[0]].Group) > 1 || m.Len() > 1 && !s.groups(m) {
			continue
		}
		if free {
			hints = append(hints, numa.Hint{Nodes: m})
		}
	}
	for i := range hints {
		hints[i].Preferred = hints[i].Nodes.Len() == least
	}
	return hints
}
