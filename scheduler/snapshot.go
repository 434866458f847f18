package scheduler

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// NodeInfo is a node and what is on it. It is shared and never changed: a change of the node
// or of its pods makes a new one.
type NodeInfo struct {
	Name string
	// Node is the node's object. It is not nil in a Snapshot.
	Node *corev1.Node
	// Pods are those bound to the node, or about to be, in the order of their coming.
	Pods []*PodInfo
	// Allocatable is what the node offers.
	Allocatable Resources
	// Requested is the sum of what the pods ask for. NonZeroMilliCPU and NonZeroMemory are
	// the sums of the fields of the same name of the pods.
	Requested                      Resources
	NonZeroMilliCPU, NonZeroMemory int64
	// Ports are those the pods occupy.
	Ports []HostPort
	// Images are the sizes in bytes of the images on the node, by each of their names. The map
	// is shared.
	Images map[string]int64
	// Generation grows with each change within one State.
	Generation uint64
}

// NewNodeInfo is a node with pods on it.
func NewNodeInfo(node *corev1.Node, pods ...*corev1.Pod) *NodeInfo {
	n := (&NodeInfo{}).withNode(node)
	for _, pod := range pods {
		n = n.withPod(pod)
	}
	return n
}

func (n *NodeInfo) withNode(node *corev1.Node) *NodeInfo {
	c := *n
	c.Name, c.Node = node.Name, node
	c.Allocatable = ResourcesOf(node.Status.Allocatable)
	c.Images = nil
	for _, image := range node.Status.Images {
		if c.Images == nil {
			c.Images = map[string]int64{}
		}
		for _, name := range image.Names {
			c.Images[name] = image.SizeBytes
		}
	}
	return &c
}

// withPod adds a pod, or takes in its new state if it is there already.
func (n *NodeInfo) withPod(pod *corev1.Pod) *NodeInfo {
	c := *n
	i := n.index(pod)
	if i < 0 {
		c.Pods = make([]*PodInfo, len(n.Pods), len(n.Pods)+1)
		copy(c.Pods, n.Pods)
		p := NewPodInfo(pod)
		c.Pods = append(c.Pods, p)
		c.count(p, 1)
		return &c
	}
	old := n.Pods[i]
	c.Pods = slices.Clone(n.Pods)
	if sameRequests(old.Pod, pod) && slices.Equal(old.Ports, HostPorts(pod)) { // a new status, most of the time
		p := *old
		p.Pod = pod
		c.Pods[i] = &p
		return &c
	}
	c.Pods[i] = NewPodInfo(pod)
	c.count(old, -1)
	c.count(c.Pods[i], 1)
	return &c
}

// withoutPod returns n itself when the pod is not on it.
func (n *NodeInfo) withoutPod(pod *corev1.Pod) *NodeInfo {
	i := n.index(pod)
	if i < 0 {
		return n
	}
	c := *n
	c.Pods = slices.Concat(n.Pods[:i], n.Pods[i+1:])
	c.count(n.Pods[i], -1)
	return &c
}

func (n *NodeInfo) index(pod *corev1.Pod) int {
	return slices.IndexFunc(n.Pods, func(p *PodInfo) bool { return samePod(p.Pod, pod) })
}

// count adds a pod to the sums, or takes it out of them. Pods must be right already.
func (n *NodeInfo) count(p *PodInfo, sign int64) {
	n.Requested = n.Requested.plus(p.Requests, sign)
	n.NonZeroMilliCPU += sign * p.NonZeroMilliCPU
	n.NonZeroMemory += sign * p.NonZeroMemory
	if len(p.Ports) > 0 {
		n.Ports = nil
		for _, p := range n.Pods {
			n.Ports = append(n.Ports, p.Ports...)
		}
	}
}

// samePod compares by UID, and by name where a pod has none.
func samePod(a, b *corev1.Pod) bool {
	if a.UID != "" || b.UID != "" {
		return a.UID == b.UID
	}
	return a.Namespace == b.Namespace && a.Name == b.Name
}

// Snapshot is the nodes and what is on them at one moment. It never changes and may be kept
// and read by many goroutines.
type Snapshot struct {
	nodes      []*NodeInfo
	orphans    []*NodeInfo
	images     map[string]int
	generation uint64
}

// NewSnapshot is a snapshot of nodes with the pods that are bound to them.
func NewSnapshot(nodes []*corev1.Node, pods []*corev1.Pod) *Snapshot {
	var s State
	for _, n := range nodes {
		s.SetNode(n)
	}
	for _, p := range pods {
		s.SetPod(p)
	}
	return s.Snapshot()
}

// Nodes are in order of name. The slice must not be changed.
func (s *Snapshot) Nodes() []*NodeInfo { return s.nodes }

// Node returns the node of a name, or nil.
func (s *Snapshot) Node(name string) *NodeInfo {
	if i, ok := find(s.nodes, name); ok {
		return s.nodes[i]
	}
	return nil
}

// NodesWithImage returns how many nodes have an image under this name.
func (s *Snapshot) NodesWithImage(name string) int { return s.images[name] }

// Generation grows with each change within one State.
func (s *Snapshot) Generation() uint64 { return s.generation }

// State returns a State that starts as this snapshot, for asking what would be if. It costs
// nothing until it is changed, and then little.
func (s *Snapshot) State() *State {
	return &State{nodes: s.nodes, orphans: s.orphans, images: s.images, generation: s.generation, shared: true}
}

func find(nodes []*NodeInfo, name string) (int, bool) {
	return slices.BinarySearchFunc(nodes, name, func(n *NodeInfo, name string) int { return cmp.Compare(n.Name, name) })
}

// State follows the nodes and the pods bound to them, and hands out snapshots. The zero value
// is empty and ready to use. It is for one goroutine at a time.
type State struct {
	nodes []*NodeInfo // in order of name
	// orphans hold the pods of nodes that are not known yet, or not any more.
	orphans    []*NodeInfo
	images     map[string]int // how many nodes have an image
	generation uint64
	// shared: a snapshot uses the slices and the map, so they are copied before they change.
	shared bool
}

// Snapshot returns what the State is now. It copies nothing.
func (s *State) Snapshot() *Snapshot {
	s.shared = true
	return &Snapshot{nodes: s.nodes, orphans: s.orphans, images: s.images, generation: s.generation}
}

func (s *State) unshare() {
	if !s.shared {
		return
	}
	s.nodes, s.orphans, s.shared = slices.Clone(s.nodes), slices.Clone(s.orphans), false
}

// SetNode adds a node or takes in its new state.
func (s *State) SetNode(node *corev1.Node) {
	s.unshare()
	s.generation++
	i, known := find(s.nodes, node.Name)
	old := &NodeInfo{}
	if known {
		old = s.nodes[i]
	} else {
		if j, ok := find(s.orphans, node.Name); ok {
			old = s.orphans[j]
			s.orphans = slices.Delete(s.orphans, j, j+1)
		}
		s.nodes = slices.Insert(s.nodes, i, nil)
	}
	n := old.withNode(node)
	n.Generation = s.generation
	s.nodes[i] = n
	s.countImages(old.Images, n.Images)
}

// RemoveNode takes a node out. The pods on it are remembered in case it comes back.
func (s *State) RemoveNode(name string) {
	i, known := find(s.nodes, name)
	if !known {
		return
	}
	s.unshare()
	s.generation++
	n := *s.nodes[i]
	s.countImages(n.Images, nil)
	s.nodes = slices.Delete(s.nodes, i, i+1)
	if len(n.Pods) > 0 {
		n.Node, n.Allocatable, n.Images, n.Generation = nil, Resources{}, nil, s.generation
		j, _ := find(s.orphans, name)
		s.orphans = slices.Insert(s.orphans, j, &n)
	}
}

// SetPod adds a pod to the node that it names, or takes in its new state there. A pod that
// names none is left out.
func (s *State) SetPod(pod *corev1.Pod) {
	if pod.Spec.NodeName == "" {
		return
	}
	s.change(pod.Spec.NodeName, func(n *NodeInfo) *NodeInfo { return n.withPod(pod) })
}

// RemovePod takes a pod from the node that it names, and says whether it was there.
func (s *State) RemovePod(pod *corev1.Pod) bool {
	if pod.Spec.NodeName == "" {
		return false
	}
	return s.change(pod.Spec.NodeName, func(n *NodeInfo) *NodeInfo { return n.withoutPod(pod) })
}

// change replaces the node of a name, or the orphans there, and says whether f changed it.
func (s *State) change(name string, f func(*NodeInfo) *NodeInfo) bool {
	i, known := find(s.nodes, name)
	nodes := &s.nodes
	if !known {
		nodes = &s.orphans
		i, known = find(s.orphans, name)
	}
	old := &NodeInfo{Name: name}
	if known {
		old = (*nodes)[i]
	}
	n := f(old)
	if n == old {
		return false
	}
	s.unshare()
	s.generation++
	n.Generation = s.generation
	switch {
	case !known:
		s.orphans = slices.Insert(s.orphans, i, n)
	case n.Node == nil && len(n.Pods) == 0:
		s.orphans = slices.Delete(s.orphans, i, i+1)
	default:
		(*nodes)[i] = n
	}
	return true
}

// countImages keeps the numbers of nodes by image when a node's images change.
func (s *State) countImages(old, updated map[string]int64) {
	var changed map[string]int
	count := func(names, others map[string]int64, by int) {
		for name := range names {
			if _, ok := others[name]; ok {
				continue
			}
			if changed == nil { // snapshots may hold the old map
				changed = make(map[string]int, len(s.images)+1)
				for k, v := range s.images {
					changed[k] = v
				}
			}
			if changed[name] += by; changed[name] == 0 {
				delete(changed, name)
			}
		}
	}
	count(old, updated, -1)
	count(updated, old, 1)
	if changed != nil {
		s.images = changed
	}
}
