package scheduler

import (
	"encoding/binary"

	"slices"

	corev1 "k8s.io/api/core/v1"
)

// maxClasses bounds the cache of a Planner.
const maxClasses = 64

// Planner decides like its Profile, but faster. Pods with equal signatures for all Local predicates and
// priorities form a class; a class caches their results for each node, and calls them again only for nodes that
// have changed since. So the next pod of a class costs the work for the node that the last one went to, and
// adding up the totals. A Cacher keeps what it needs itself. Other predicates and priorities are called for every
// node each time.
//
// A Planner must be used by one goroutine at a time. The snapshots may come from any State, in any order.
type Planner struct {
	plugins         *roles
	localPredicates []bool
	localPriorities []bool
	locals          []Local

	classes map[string]*class
	last    *class // of the last pod, nil if it has none that is kept
	uses    uint64
	key     []byte
	part    []byte
	e       evaluation
}

// NewPlanner returns a planner with an empty cache. The profile must not be changed any more.
func NewPlanner(p *Profile) *Planner {
	planner := &Planner{plugins: p.cached().roles(), classes: map[string]*class{}}
	known := map[string]bool{} // a plugin with two roles has one signature
	local := func(p Plugin) bool {
		l, ok := p.(Local)
		if ok && !known[p.Name()] {
			known[p.Name()] = true
			planner.locals = append(planner.locals, l)
		}
		return ok
	}
	for _, predicate := range planner.plugins.predicates {
		planner.localPredicates = append(planner.localPredicates, local(predicate))
	}
	for _, w := range planner.plugins.priorities {
		planner.localPriorities = append(planner.localPriorities, local(w.Priority))
	}
	return planner
}

// cached returns a copy of the profile with plugins that keep what they counted.
func (p *Profile) cached() *Profile {
	c := *p
	c.Plugins = slices.Clone(p.Plugins)
	for i, e := range c.Plugins {
		if cacher, ok := e.Plugin.(Cacher); ok {
			c.Plugins[i].Plugin = cacher.Cached()
		}
	}
	return &c
}

// Schedule decides like Profile.Schedule.
func (p *Planner) Schedule(pod *corev1.Pod, s *Snapshot) Decision {
	return p.evaluate(pod, s).decision()
}

// Place is Schedule without the reasons: it returns only the node, or why there is none. It is several times as
// fast.
func (p *Planner) Place(pod *corev1.Pod, s *Snapshot) (node string, err error) {
	e := p.evaluate(pod, s)
	if e.err != nil {
		return "", e.err
	}
	return e.nodes[e.chosen].Name, nil
}

// evaluate returns an evaluation that is valid until the next call.
func (p *Planner) evaluate(pod *corev1.Pod, s *Snapshot) *evaluation {
	return p.consult(pod, s, consulting{})
}

// consult is evaluate with another way to consult Winnowers and Raters.
func (p *Planner) consult(pod *corev1.Pod, s *Snapshot, way consulting) *evaluation {
	c := p.class(pod)
	p.e.consulting = way
	p.e.run(p.plugins, c, pod, s)
	// Pods for certain nodes, such as those of a DaemonSet, are rarely alike.
	if c != nil && c.used == 0 && p.e.only.names == nil {
		p.evict()
		p.classes[string(p.key)] = c
	}
	p.last = nil
	if c != nil {
		p.uses++
		c.used = p.uses
		if p.classes[string(p.key)] == c {
			p.last = c
		}
	}
	return &p.e
}

// class returns the class of a pod, with its signature in p.key, or nil if it has none.
func (p *Planner) class(pod *corev1.Pod) *class {
	if len(p.locals) == 0 {
		return nil
	}
	p.key = p.key[:0]
	for _, l := range p.locals {
		// Each signature has a buffer of its own, so that none can spoil another's.
		var ok bool
		if p.part, ok = l.Signature(p.part[:0], pod); !ok {
			return nil
		}
		// Its length separates one signature from the next.
		p.key = binary.LittleEndian.AppendUint32(p.key, uint32(len(p.part)))
		p.key = append(p.key, p.part...)
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

// evict drops the least recently used class.
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

// class caches the results of Local predicates and priorities for similar pods by node.
type class struct {
	used                             uint64 // time of last use, 0 for a new one
	localPredicates, localPriorities []bool

	prepared []*Prepared
	nodes    []*NodeInfo // the nodes of refusedBy and refusals, by number in the snapshot
	// refusedBy is the first Local predicate that refuses the node, or passed.
	refusedBy []int16
	refusals  []*Refusal
	columns   []column
	memories  map[string]*any // see Trial.Memory
}

// column is the cached scores of one priority.
type column struct {
	prepared bool
	call     func(*NodeInfo) int64 // nil if it skips the pod
	nodes    []*NodeInfo           // the nodes of scores, nil where it was not called
	scores   []int64
}

// follow calls the Local predicates for the nodes that have changed.
func (c *class) follow(s *Snapshot, checks []check) {
	if n := len(s.nodes); n != len(c.nodes) {
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
					c.nodes[i] = nil // a failure is not cached
				}
				break
			}
		}
	}
}

// scores returns a Local priority's scores of the feasible nodes, nil if it skips the pod.
func (c *class) scores(e *evaluation, i int) ([]int64, error) {
	col := &c.columns[i]
	if !col.prepared {
		call, _, err := prepareScores(e.plugins.priorities[i].Priority, e)
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
