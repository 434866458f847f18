package scheduler

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Trial is a failed attempt to place a pod. It says why each node was refused, and whether a node would take the
// pod with other pods on it. It is valid until Preempt returns, for one goroutine at a time.
type Trial struct {
	e     *evaluation
	class *class    // nil if results must not be kept
	name  string    // of the plugin that uses it
	was   *NodeInfo // the last node of Check in the snapshot
}

// Trial returns an attempt to place a pod, for what-if questions outside a Scheduler. Decision says how it ended.
func (p *Profile) Trial(pod *corev1.Pod, s *Snapshot) *Trial {
	e := &evaluation{}
	e.run(p.roles(), nil, pod, s)
	return &Trial{e: e}
}

// Trial is Profile.Trial with the planner's cache. It is valid until the planner's next decision, and shares its memories
// with the preemptor of the given name.
func (p *Planner) Trial(pod *corev1.Pod, s *Snapshot, preemptor string) *Trial {
	p.evaluate(pod, s)
	t := p.trial()
	t.name = preemptor
	return t
}

// trial returns the planner's last attempt.
func (p *Planner) trial() *Trial {
	t := &Trial{e: &p.e}
	// If only Local predicates check this pod, what a node would say depends on its NodeInfo alone.
	if p.last != nil && !slices.ContainsFunc(p.e.checks, func(c check) bool { return !c.local }) {
		t.class = p.last
	}
	return t
}

func (t *Trial) forPlugin(name string) { t.name = name }

// Pod returns the pod, which is shared.
func (t *Trial) Pod() *corev1.Pod { return t.e.pod }

// Snapshot returns the state of the cluster in which the attempt failed.
func (t *Trial) Snapshot() *Snapshot { return t.e.snapshot }

// Decision returns the decision about the pod, with a verdict on each node.
func (t *Trial) Decision() Decision { return t.e.decision() }

// Refusal returns why a node was refused, by its place among the Nodes of the snapshot.
func (t *Trial) Refusal(i int) *Refusal {
	if t.e.wholeRefusal != nil {
		return t.e.wholeRefusal
	}
	return t.e.refusals[i]
}

// Node returns a node of the snapshot by its name and why it was refused, or nil if it does not exist.
func (t *Trial) Node(name string) (*NodeInfo, *Refusal) {
	i, ok := find(t.e.snapshot.nodes, name)
	if !ok {
		return nil, nil
	}
	return t.e.snapshot.nodes[i], t.Refusal(i)
}

// Check returns why a node would be refused if it had other pods on it, nil if it would be chosen. node is a
// node of the snapshot with other pods, from NodeInfo.WithPods or NodeInfo.WithoutPods. Pods of at least the
// pod's priority that are nominated for the node count. A failure of a predicate is in the refusal's Err.
func (t *Trial) Check(node *NodeInfo) *Refusal {
	if t.was == nil || t.was.Name != node.Name {
		t.was = t.e.snapshot.Node(node.Name)
	}
	by, r := t.e.fitsWithNominated(t.was, node, t.e.checks)
	if r == nil {
		by, r = askChanged(t.was, node, t.e.checks)
	}
	if r != nil && r.Err != nil {
		return &Refusal{Reasons: r.Reasons, Err: t.e.failure(by, r.Err)}
	}
	return r
}

// failure returns the error of an attempt in which a predicate failed.
func (e *evaluation) failure(by int16, err error) error {
	return fmt.Errorf("running %q filter plugin: %w", e.plugins.predicates[by].Name(), err)
}

// Seed returns a number that depends only on the profile's seed and the pod's name, for choices between equals.
func (t *Trial) Seed() uint64 {
	return hash(hash(t.e.plugins.seed, t.e.pod.Namespace), t.e.pod.Name)
}

// Memory returns where the plugin that is called may keep results for later pods, or nil if it must not. All pods of one
// priority that share a memory have the same results of Check for the same NodeInfo and the same Nominated pods, unless
// these include the pod itself. Pods of different priorities may share a memory. The content is nil at first, and is
// forgotten when many other kinds of pods have been tried.
func (t *Trial) Memory() *any {
	if t.class == nil || t.name == "" {
		return nil
	}
	if t.class.memories == nil {
		t.class.memories = map[string]*any{}
	}
	m := t.class.memories[t.name]
	if m == nil {
		m = new(any)
		t.class.memories[t.name] = m
	}
	return m
}

// WithPods returns the node with further pods on it.
func (n *NodeInfo) WithPods(pods ...*PodInfo) *NodeInfo {
	c := *n
	c.Pods = make([]*PodInfo, len(n.Pods), len(n.Pods)+len(pods))
	copy(c.Pods, n.Pods)
	for _, p := range pods {
		c.Pods = append(c.Pods, p)
		c.count(p, 1)
	}
	return &c
}

// WithoutPods returns the node without those of its pods for which gone returns true.
func (n *NodeInfo) WithoutPods(gone func(*PodInfo) bool) *NodeInfo {
	c := *n
	c.Pods = make([]*PodInfo, 0, len(n.Pods))
	var went []*PodInfo
	for _, p := range n.Pods {
		if gone(p) {
			went = append(went, p)
		} else {
			c.Pods = append(c.Pods, p)
		}
	}
	for _, p := range went {
		c.count(p, -1)
	}
	return &c
}
