package scheduler

import (
	"encoding/binary"

	corev1 "k8s.io/api/core/v1"
)

// maxClasses bounds what a Planner remembers.
const maxClasses = 64

// Planner decides like its Profile, faster. Pods whose signatures are equal for all Local
// predicates and priorities form a class; a class remembers what those said about each node,
// and asks again only about nodes that changed since. So the next pod of a class costs the work
// of the node that the last one went to, and the adding up. The other predicates and
// priorities are asked about every node each time.
//
// A Planner is for one goroutine at a time. The snapshots may come from any State, in any
// order.
type Planner struct {
	profile         *Profile
	localPredicates []bool
	localPriorities []bool
	locals          []Local

	classes map[string]*class
	uses    uint64
	key     []byte
	e       evaluation
}

// NewPlanner is a planner that remembers nothing yet. The profile must not be changed any more.
func NewPlanner(p *Profile) *Planner {
	planner := &Planner{profile: p, classes: map[string]*class{}}
	local := func(v any) bool {
		l, ok := v.(Local)
		if ok {
			planner.locals = append(planner.locals, l)
		}
		return ok
	}
	for _, predicate := range p.Predicates {
		planner.localPredicates = append(planner.localPredicates, local(predicate))
	}
	for _, w := range p.Priorities {
		planner.localPriorities = append(planner.localPriorities, local(w.Priority))
	}
	return planner
}

// Schedule decides as Profile.Schedule does.
func (p *Planner) Schedule(pod *corev1.Pod, s *Snapshot) Decision {
	return p.evaluate(pod, s).decision()
}

// Place is Schedule without the reasons: only which node, or why none. It is several times as
// fast.
func (p *Planner) Place(pod *corev1.Pod, s *Snapshot) (node string, err error) {
	e := p.evaluate(pod, s)
	if e.err != nil {
		return "", e.err
	}
	return e.nodes[e.chosen].Name, nil
}

// evaluate returns an evaluation that is good until the next call.
func (p *Planner) evaluate(pod *corev1.Pod, s *Snapshot) *evaluation {
	c := p.class(pod)
	p.e.run(p.profile, c, pod, s)
	// Pods for certain nodes, such as those of a DaemonSet, are rarely alike.
	if c != nil && c.used == 0 && p.e.only.names == nil {
		p.evict()
		p.classes[string(p.key)] = c
	}
	if c != nil {
		p.uses++
		c.used = p.uses
	}
	return &p.e
}

// class returns the class of a pod, with its signature in p.key, or nil when it can have none.
func (p *Planner) class(pod *corev1.Pod) *class {
	if len(p.locals) == 0 {
		return nil
	}
	p.key = p.key[:0]
	for _, l := range p.locals {
		start := len(p.key)
		var ok bool
		if p.key, ok = l.Signature(p.key, pod); !ok {
			return nil
		}
		// With its length behind it one signature cannot run into the next.
		p.key = binary.LittleEndian.AppendUint32(p.key, uint32(len(p.key)-start))
	}
	if c := p.classes[string(p.key)]; c != nil {
		return c
	}
	return &class{
		localPredicates: p.localPredicates, localPriorities: p.localPriorities,
		prepared: make([]*Prepared, len(p.localPredicates)),
		columns:  make([]column, len(p.localPriorities)),
	}
}

// evict makes room by forgetting the class that was not needed for longest.
func (p *Planner) evict() {
	if len(p.classes) < maxClasses {
		return
	}
	oldest, used := "", p.uses+1
	for key, c := range p.classes {
		if c.used < used {
			oldest, used = key, c.used
		}
	}
	delete(p.classes, oldest)
}

// class is what Local predicates and priorities said about each node for pods that are alike.
type class struct {
	used                             uint64 // when last, 0 for a new one
	localPredicates, localPriorities []bool

	prepared []*Prepared
	nodes    []*NodeInfo // that refusedBy and refusals are about, by number in the snapshot
	// refusedBy is the first Local predicate that refuses the node, or passed.
	refusedBy []int16
	refusals  []*Refusal
	columns   []column
}

// column is what one priority said.
type column struct {
	prepared bool
	call     func(*NodeInfo) int64 // nil when it has no opinion
	nodes    []*NodeInfo           // that scores are about, nil where it was not asked
	scores   []int64
}

// follow asks the Local predicates about those nodes that are not the same as last time.
func (c *class) follow(s *Snapshot, checks []check) {
	if !c.aligned(s) {
		n := len(s.nodes)
		c.nodes, c.refusedBy, c.refusals = make([]*NodeInfo, n), make([]int16, n), make([]*Refusal, n)
		for i := range c.columns {
			c.columns[i].nodes, c.columns[i].scores = nil, nil
		}
	}
	for i, node := range s.nodes {
		if c.nodes[i] == node {
			continue
		}
		c.nodes[i], c.refusedBy[i], c.refusals[i] = node, passed, nil
		for _, check := range checks {
			if !check.local {
				continue
			}
			if r := check.call(node); r != nil {
				c.refusedBy[i], c.refusals[i] = check.number, r
				if r.Err != nil {
					c.nodes[i] = nil // a failure is not an answer
				}
				break
			}
		}
	}
}

// aligned says whether nodes have the numbers that they had last time.
func (c *class) aligned(s *Snapshot) bool {
	if len(c.nodes) != len(s.nodes) {
		return false
	}
	for i, node := range s.nodes {
		if old := c.nodes[i]; old != node && (old == nil || old.Name != node.Name) {
			return false
		}
	}
	return true
}

// scores are a Local priority's scores of the feasible nodes, nil when it has no opinion.
func (c *class) scores(e *evaluation, i int) ([]int64, error) {
	col := &c.columns[i]
	if !col.prepared {
		call, err := prepareScores(e.profile.Priorities[i].Priority, e)
		if err != nil {
			return nil, err
		}
		col.call, col.prepared = call, true
	}
	if col.call == nil {
		return nil, nil
	}
	if col.nodes == nil {
		col.nodes, col.scores = make([]*NodeInfo, len(c.nodes)), make([]int64, len(c.nodes))
	}
	raw := e.scores.numbers(len(e.feasible))
	for j, at := range e.feasible {
		node := e.nodes[j]
		if col.nodes[at] != node {
			col.nodes[at], col.scores[at] = node, col.call(node)
		}
		raw[j] = col.scores[at]
	}
	return raw, nil
}
