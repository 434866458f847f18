package plugins

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/scheduler"
)

// nowhere is the domain of nodes without the label.
const nowhere = -1

// domains are the values that the nodes have of one label. A value keeps its number until the set of nodes changes.
type domains struct {
	key     string
	numbers map[string]int32
	of      []int32 // by node
}

func newDomains(key string, nodes []*scheduler.NodeInfo) *domains {
	d := &domains{key: key, numbers: map[string]int32{}, of: make([]int32, len(nodes))}
	for i, n := range nodes {
		d.set(i, n.Node)
	}
	return d
}

// set notes the labels of a node.
func (d *domains) set(i int, node *corev1.Node) { d.of[i] = d.number(node) }

// number returns the domain of a node, which may be one that no node was in before.
func (d *domains) number(node *corev1.Node) int32 {
	value, ok := node.Labels[d.key]
	if !ok {
		return nowhere
	}
	return d.numberOf(value)
}

func (d *domains) numberOf(value string) int32 {
	n, ok := d.numbers[value]
	if !ok {
		n = int32(len(d.numbers))
		d.numbers[value] = n
	}
	return n
}

// find is number for a domain that exists, without changing anything.
func (d *domains) find(node *corev1.Node) int32 {
	if value, ok := node.Labels[d.key]; ok {
		if n, ok := d.numbers[value]; ok {
			return n
		}
	}
	return nowhere
}

// topology is the nodes of a snapshot and their domains by all labels that were asked for.
type topology struct {
	nodes []*scheduler.NodeInfo
	// epoch changes when nodes get other positions; all numbers are then void.
	epoch uint64
	byKey map[string]*domains
}

// domains returns those of a label.
func (t *topology) domains(key string) *domains {
	d := t.byKey[key]
	if d == nil {
		d = newDomains(key, t.nodes)
		t.byKey[key] = d
	}
	return d
}

// follow takes the nodes of another snapshot. For each that differs from the former in its position it calls before with
// the old NodeInfo and after with the new one; it calls reset instead if nodes came or went.
func (t *topology) follow(nodes []*scheduler.NodeInfo, reset func(), before, after func(i int, old, updated *scheduler.NodeInfo)) {
	if t.byKey == nil || len(nodes) != len(t.nodes) {
		t.nodes, t.byKey = nodes, map[string]*domains{}
		t.epoch++
		reset()
		return
	}
	if len(nodes) == 0 || &nodes[0] == &t.nodes[0] {
		return
	}
	was := t.nodes
	t.nodes = nodes
	for i, n := range nodes {
		old := was[i]
		if old == n {
			continue
		}
		before(i, old, n)
		if old.Node != n.Node {
			for _, d := range t.byKey {
				d.set(i, n.Node)
			}
		}
		after(i, old, n)
	}
}

// tally counts pods by node and by domain.
type tally struct {
	topology *topology
	label    string
	*domains // those of label
	matches  func(*corev1.Pod) bool
	// includes reports whether a node counts; nil includes all with the label.
	includes func(*corev1.Node) bool
	// lacking has nodes without the label count as if its value were empty.
	lacking bool

	nodes []*scheduler.NodeInfo // those counted
	epoch uint64
	used  uint64  // when it was last asked for
	here  []int32 // pods by node, counted or not
	in    []int32 // domain by node, nowhere if it does not count
	sum   []int64 // pods by domain
	size  []int32 // nodes by domain
	total int64   // all of sum
}

// follow counts what has changed in the topology's nodes.
func (t *tally) follow() {
	if t.epoch != t.topology.epoch {
		n := len(t.topology.nodes)
		t.epoch, t.domains = t.topology.epoch, t.topology.domains(t.label)
		t.here, t.in = make([]int32, n), make([]int32, n)
		t.sum, t.size, t.total = make([]int64, len(t.numbers)), make([]int32, len(t.numbers)), 0
		for i, node := range t.topology.nodes {
			t.here[i] = t.count(node.Pods)
			t.enter(i, node.Node)
		}
		t.nodes = t.topology.nodes
		return
	}
	was := t.nodes
	t.nodes = t.topology.nodes
	if len(was) == 0 || &was[0] == &t.nodes[0] {
		return
	}
	for i, n := range t.nodes {
		if old := was[i]; old != n {
			t.replace(i, old, n)
		}
	}
}

func (t *tally) replace(i int, old, updated *scheduler.NodeInfo) {
	gone, come := difference(old.Pods, updated.Pods)
	by := t.count(come) - t.count(gone)
	if old.Node == updated.Node {
		t.here[i] += by
		if d := t.in[i]; d != nowhere {
			t.sum[d] += int64(by)
			t.total += int64(by)
		}
		return
	}
	if d := t.in[i]; d != nowhere {
		t.sum[d] -= int64(t.here[i])
		t.total -= int64(t.here[i])
		t.size[d]--
	}
	t.here[i] += by
	t.enter(i, updated.Node)
}

// enter adds a node and its pods to its domain.
func (t *tally) enter(i int, node *corev1.Node) {
	d := t.of[i]
	if d == nowhere && t.lacking {
		d = t.numberOf("")
	}
	if d == nowhere || t.includes != nil && !t.includes(node) {
		t.in[i] = nowhere
		t.fit()
		return
	}
	t.fit()
	t.in[i] = d
	t.sum[d] += int64(t.here[i])
	t.total += int64(t.here[i])
	t.size[d]++
}

// fit makes room for new domains.
func (t *tally) fit() {
	for len(t.sum) < len(t.numbers) {
		t.sum, t.size = append(t.sum, 0), append(t.size, 0)
	}
}

func (t *tally) count(pods []*scheduler.PodInfo) int32 {
	var n int32
	for _, p := range pods {
		if t.matches(p.Pod) {
			n++
		}
	}
	return n
}

// difference returns the pods that two lists do not share. It may return some that they share in another order.
func difference(old, updated []*scheduler.PodInfo) (gone, come []*scheduler.PodInfo) {
	gone, come = old, updated
	for len(gone) > 0 && len(come) > 0 && gone[0] == come[0] {
		gone, come = gone[1:], come[1:]
	}
	for len(gone) > 0 && len(come) > 0 && gone[len(gone)-1] == come[len(come)-1] {
		gone, come = gone[:len(gone)-1], come[:len(come)-1]
	}
	return gone, come
}

// maxTallies bounds what a plugin keeps.
const maxTallies = 128

// tallies are those for the terms and constraints of recent pods.
type tallies struct {
	topology topology
	byKey    map[string]*tally
	uses     uint64
}

// get returns the tally of a key, up to date. create makes it if it is new.
func (t *tallies) get(key string, create func() tally) *tally {
	found := t.byKey[key]
	if found == nil {
		if len(t.byKey) >= maxTallies {
			t.evict()
		}
		if t.byKey == nil {
			t.byKey = map[string]*tally{}
		}
		made := create()
		made.topology = &t.topology
		found = &made
		t.byKey[key] = found
	}
	t.uses++
	found.used = t.uses
	found.follow()
	return found
}

// evict drops the least recently used tally.
func (t *tallies) evict() {
	oldest, used := "", t.uses+1
	for key, one := range t.byKey {
		if one.used < used {
			oldest, used = key, one.used
		}
	}
	delete(t.byKey, oldest)
}

// positions returns the numbers of some nodes of the topology, which must be in its order; ok is false for others.
func (t *topology) positions(some []*scheduler.NodeInfo, room []int32) (numbers []int32, ok bool) {
	numbers = room[:0]
	i := 0
	for _, n := range some {
		for i < len(t.nodes) && t.nodes[i] != n {
			i++
		}
		if i == len(t.nodes) {
			return nil, false
		}
		numbers = append(numbers, int32(i))
		i++
	}
	return numbers, true
}
