package scheduler

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// NodeInfo is a node and what is on it. It is shared and never changed: a change of the node or of its pods
// makes a new one.
type NodeInfo struct {
	Name string
	// Node is the node's object. It is not nil in a Snapshot.
	Node *corev1.Node
	// Pods are those bound to the node, or about to be, in the order of their arrival.
	Pods []*PodInfo
	// Allocatable is what the node offers.
	Allocatable Resources
	// Requested is the sum of the pods' requests. NonZeroMilliCPU and NonZeroMemory are the sums of the pods'
	// fields of the same name.
	Requested                      Resources
	NonZeroMilliCPU, NonZeroMemory int64
	// Ports are those that the pods occupy.
	Ports []HostPort
	// Claims are the persistent volume claims that the pods name.
	Claims []types.NamespacedName
	// Affine are those of Pods that have an affinity or anti-affinity to other pods.
	Affine []*PodInfo
	// Images are the sizes in bytes of the images on the node, by each of their names. The map is shared.
	Images map[string]int64
	// Generation grows with each change within one State.
	Generation uint64
}

// NewNodeInfo returns a node with pods on it.
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

// withPod adds a pod, or replaces its former state.
func (n *NodeInfo) withPod(pod *corev1.Pod) *NodeInfo {
	i := n.index(pod)
	if i < 0 {
		return n.WithPods(NewPodInfo(pod))
	}
	c := *n
	old := n.Pods[i]
	c.Pods = slices.Clone(n.Pods)
	if sameRequests(old.Pod, pod) && slices.Equal(old.Ports, HostPorts(pod)) && sameAffinity(old.Pod, pod) { // mostly just a new status
		p := *old
		p.Pod = pod
		c.Pods[i] = &p
		c.countAffine(&p)
		return &c
	}
	c.Pods[i] = NewPodInfo(pod)
	c.count(old, -1)
	c.count(c.Pods[i], 1)
	return &c
}

// withPodInfo is withPod for a pod whose PodInfo is known.
func (n *NodeInfo) withPodInfo(p *PodInfo) *NodeInfo {
	if n.index(p.Pod) >= 0 {
		return n.withPod(p.Pod)
	}
	return n.WithPods(p)
}

// withoutPod removes a pod; it returns n itself if the pod is not on the node.
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

// count adds a pod to the sums, or subtracts it. n.Pods must be updated before.
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
	n.countAffine(p)
	if len(p.Claims) > 0 {
		n.Claims = nil
		for _, p := range n.Pods {
			for _, name := range p.Claims {
				n.Claims = append(n.Claims, types.NamespacedName{Namespace: p.Pod.Namespace, Name: name})
			}
		}
	}
}

// countAffine finds the pods with an affinity again if p has one.
func (n *NodeInfo) countAffine(p *PodInfo) {
	if p.Affinity == nil {
		return
	}
	n.Affine = nil
	for _, p := range n.Pods {
		if p.Affinity != nil {
			n.Affine = append(n.Affine, p)
		}
	}
}

// samePod compares by UID, and by name if a pod has none.
func samePod(a, b *corev1.Pod) bool {
	if a.UID != "" || b.UID != "" {
		return a.UID == b.UID
	}
	return a.Namespace == b.Namespace && a.Name == b.Name
}

// Snapshot is the nodes and what is on them at one moment. It never changes; many goroutines may keep and read
// it.
type Snapshot struct {
	nodes      []*NodeInfo
	orphans    []*NodeInfo
	images     map[string]int
	nominated  map[string]nominees
	generation uint64
}

// nominees are the pods nominated for a node, and what each would use of it. They are shared and never changed.
type nominees struct {
	pods  []*corev1.Pod
	infos []*PodInfo
}

// without returns the nominees but for one.
func (n nominees) without(i int) nominees {
	return nominees{slices.Concat(n.pods[:i], n.pods[i+1:]), slices.Concat(n.infos[:i], n.infos[i+1:])}
}

// NewSnapshot returns a snapshot of nodes with the pods that are bound to them.
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

// Nodes returns the nodes, sorted by name. The slice must not be changed.
func (s *Snapshot) Nodes() []*NodeInfo { return s.nodes }

// Node returns the named node, or nil.
func (s *Snapshot) Node(name string) *NodeInfo {
	if i, ok := find(s.nodes, name); ok {
		return s.nodes[i]
	}
	return nil
}

// NodesWithImage returns how many nodes have an image of this name.
func (s *Snapshot) NodesWithImage(name string) int { return s.images[name] }

// Nominated returns the pods that are nominated for the named node and not bound yet. Pods of no higher
// priority are placed as if those were on the node. The slice must not be changed.
func (s *Snapshot) Nominated(node string) []*corev1.Pod { return s.nominated[node].pods }

// Generation returns a number that grows with each change within one State.
func (s *Snapshot) Generation() uint64 { return s.generation }

// State returns a State that begins as this snapshot, for what-if questions. It costs nothing until it is
// changed, and then little.
func (s *Snapshot) State() *State {
	return &State{
		nodes: s.nodes, orphans: s.orphans, images: s.images, nominated: s.nominated, generation: s.generation, shared: true,
	}
}

// with returns a snapshot in which a node that exists has another state.
func (s *Snapshot) with(node *NodeInfo) *Snapshot {
	c := *s
	c.nodes = slices.Clone(s.nodes)
	if i, ok := find(c.nodes, node.Name); ok {
		c.nodes[i] = node
	}
	return &c
}

func find(nodes []*NodeInfo, name string) (int, bool) {
	return slices.BinarySearchFunc(nodes, name, func(n *NodeInfo, name string) int { return cmp.Compare(n.Name, name) })
}

// State follows the nodes and the pods bound to them, and returns snapshots. The zero value is empty and ready
// to use. It must be used by one goroutine at a time.
type State struct {
	nodes []*NodeInfo // sorted by name
	// orphans hold the pods of nodes that are not known yet, or no longer.
	orphans []*NodeInfo
	images  map[string]int // number of nodes with an image
	// nominated are the pods nominated for a node. The map is shared.
	nominated  map[string]nominees
	generation uint64
	// shared: a snapshot uses the slices and the map, so they are copied before they change.
	shared bool
}

// Snapshot returns the present state. It copies nothing.
func (s *State) Snapshot() *Snapshot {
	s.shared = true
	return &Snapshot{nodes: s.nodes, orphans: s.orphans, images: s.images, nominated: s.nominated, generation: s.generation}
}

func (s *State) unshare() {
	if !s.shared {
		return
	}
	s.nodes, s.orphans, s.shared = slices.Clone(s.nodes), slices.Clone(s.orphans), false
}

// SetNode adds a node or replaces its former state.
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

// RemoveNode removes a node. Its pods are kept in case it comes back.
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

// SetPod adds a pod to the node that it names, or replaces its former state there. It ignores a pod without a
// node.
func (s *State) SetPod(pod *corev1.Pod) {
	if pod.Spec.NodeName == "" {
		return
	}
	s.Nominate(pod, "")
	s.change(pod.Spec.NodeName, func(n *NodeInfo) *NodeInfo { return n.withPod(pod) })
}

// Nominate sets the named node as the only one for which an unbound pod is nominated; "" removes the
// nomination. It reports whether this changes anything. SetPod removes a pod's nomination.
func (s *State) Nominate(pod *corev1.Pod, node string) bool {
	was, i := s.nomination(pod)
	if node == "" && i < 0 {
		return false
	}
	nominated := maps.Clone(s.nominated) // snapshots may hold the old map
	if nominated == nil {
		nominated = map[string]nominees{}
	}
	if i >= 0 {
		if left := nominated[was].without(i); len(left.pods) > 0 {
			nominated[was] = left
		} else {
			delete(nominated, was)
		}
	}
	if node != "" {
		n := nominated[node]
		nominated[node] = nominees{append(slices.Clip(n.pods), pod), append(slices.Clip(n.infos), NewPodInfo(pod))}
	}
	s.nominated = nominated
	s.generation++
	return was != node
}

// nomination returns for which node a pod is nominated, and its place there, negative if it is for none.
func (s *State) nomination(pod *corev1.Pod) (node string, place int) {
	for name, n := range s.nominated {
		if i := slices.IndexFunc(n.pods, func(p *corev1.Pod) bool { return samePod(p, pod) }); i >= 0 {
			return name, i
		}
	}
	return "", -1
}

// RemovePod removes a pod from the node that it names, and reports whether it was there.
func (s *State) RemovePod(pod *corev1.Pod) bool {
	return s.change(pod.Spec.NodeName, func(n *NodeInfo) *NodeInfo { return n.withoutPod(pod) })
}

// change replaces the named node, or its orphans, and reports whether f changed it.
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

// countImages updates the numbers of nodes by image when a node's images change.
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
