package numa

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// Names of policies.
const (
	None       = "none"
	BestEffort = "best-effort"
	Restricted = "restricted"
	SingleNode = "single-numa-node"
)

// Hint is a set of nodes on which a resource could be.
type Hint struct {
	// Nodes is the set; 0 means that all are alike.
	Nodes Mask
	// Preferred is set if no smaller set would do.
	Preferred bool
}

// Hints are those of one provider, by resource. A provider that returns nil, or nil for a resource, has no preference;
// a list without elements means that no set of nodes will do.
type Hints map[string][]Hint

// Node is a NUMA node of the machine.
type Node struct {
	// ID is its number in the kernel's lists.
	ID int
	// Distances are those to each node, by ID; 10 is the one to itself.
	Distances []uint64
}

// Policy decides where resources are to be. The zero value is the policy none. Make others with New.
type Policy struct {
	name    string
	all     Mask
	nodes   map[int]Node
	closest bool
}

// The names of options, and the number of nodes up to which a machine is supported by default.
const (
	preferClosest = "prefer-closest-numa-nodes"
	maxNodes      = "max-allowable-numa-nodes"
	defaultMax    = 8
)

// New returns the policy of a name for a machine with the nodes.
func New(name string, options map[string]string, nodes []Node) (*Policy, error) {
	p := &Policy{name: name, nodes: map[int]Node{}}
	switch name {
	case "", None:
		return &Policy{}, nil
	case BestEffort, Restricted, SingleNode:
	default:
		return nil, fmt.Errorf("unknown policy: %q", name)
	}
	limit, err := p.configure(options)
	if err != nil {
		return nil, err
	}
	for _, n := range nodes {
		if p.closest && len(n.Distances) == 0 {
			return nil, fmt.Errorf("the distances of NUMA node %d are not known", n.ID)
		}
		p.nodes[n.ID] = n
		p.all |= MaskOf(n.ID)
	}
	if len(nodes) > limit {
		return nil, fmt.Errorf("unsupported on machines with more than %v NUMA Nodes", limit)
	}
	return p, nil
}

// CheckOptions reports mistakes in options.
func CheckOptions(options map[string]string) error {
	_, err := (&Policy{}).configure(options)
	return err
}

// configure sets the options, and returns how many nodes a machine may have.
func (p *Policy) configure(options map[string]string) (limit int, err error) {
	limit = defaultMax
	for _, name := range slices.Sorted(maps.Keys(options)) {
		value := options[name]
		switch name {
		case preferClosest:
			if p.closest, err = strconv.ParseBool(value); err != nil {
				return 0, fmt.Errorf("bad value for option %q: %w", name, err)
			}
		case maxNodes:
			if limit, err = strconv.Atoi(value); err != nil {
				return 0, fmt.Errorf("unable to convert policy option to integer %q: %w", name, err)
			}
			if limit < defaultMax {
				return 0, fmt.Errorf("the minimum value of %q should not be less than %v", name, defaultMax)
			}
		default:
			return 0, fmt.Errorf("unknown Topology Manager Policy option: %q", name)
		}
	}
	return limit, nil
}

// Name is the policy's.
func (p *Policy) Name() string {
	if p.name == "" {
		return None
	}
	return p.name
}

// Merge returns the hint that suits all providers best, and whether the policy admits what is to be there.
func (p *Policy) Merge(providers ...Hints) (best Hint, admit bool) {
	if p.Name() == None {
		return Hint{}, true
	}
	lists := p.lists(providers)
	best = p.best(lists)
	if p.name == SingleNode && best.Nodes == p.all {
		best.Nodes = 0
	}
	return best, best.Preferred || p.name == BestEffort
}

// lists returns the hints for each resource of each provider.
func (p *Policy) lists(providers []Hints) [][]Hint {
	var lists [][]Hint
	for _, hints := range providers {
		if len(hints) == 0 {
			lists = append(lists, []Hint{{0, true}})
		}
		for _, resource := range slices.Sorted(maps.Keys(hints)) {
			switch list := hints[resource]; {
			case list == nil:
				lists = append(lists, []Hint{{0, true}})
			case len(list) == 0:
				lists = append(lists, []Hint{{0, false}})
			default:
				lists = append(lists, list)
			}
		}
	}
	if p.name != SingleNode {
		return lists
	}
	for i, list := range lists {
		lists[i] = slices.DeleteFunc(slices.Clone(list), func(h Hint) bool { return !h.Preferred || h.Nodes.Len() > 1 })
	}
	return lists
}

// best returns the best of all combinations of one hint of each list.
func (p *Policy) best(lists [][]Hint) Hint {
	target := 0 // how many nodes a hint that is not preferred had best have
	for _, list := range lists {
		if n := narrowest(list); n > target {
			target = n
		}
	}
	best, found := Hint{p.all, false}, false
	var combine func(i int, have combination)
	combine = func(i int, have combination) {
		if i < len(lists) {
			for _, h := range lists[i] {
				combine(i+1, have.with(h))
			}
			return
		}
		h := Hint{have.nodes, have.preferred}
		if h.Nodes != 0 && (!found || p.better(h, best, target)) {
			best, found = h, true
		}
	}
	combine(0, combination{nodes: p.all, preferred: true})
	return best
}

// combination is the merger of hints: their intersection, which is preferred if all are, and are equal.
type combination struct {
	nodes, first Mask
	preferred    bool
}

func (c combination) with(h Hint) combination {
	c.preferred = c.preferred && h.Preferred
	if h.Nodes == 0 {
		return c
	}
	if c.first == 0 {
		c.first = h.Nodes
	}
	c.preferred = c.preferred && h.Nodes == c.first
	c.nodes &= h.Nodes
	return c
}

// narrowest is the size of the smallest set of a list; 0 if none has one.
func narrowest(list []Hint) int {
	least := 0
	for _, h := range list {
		if n := h.Nodes.Len(); n > 0 && (least == 0 || n < least) {
			least = n
		}
	}
	return least
}

// better reports whether a hint is to replace another. Of those that are not preferred, the size is to be close to the
// target but not above it.
func (p *Policy) better(h, than Hint, target int) bool {
	if h.Preferred != than.Preferred {
		return h.Preferred
	}
	size, have := h.Nodes.Len(), than.Nodes.Len()
	switch {
	case h.Preferred || have > target:
		return p.fitter(h.Nodes, than.Nodes)
	case have == target:
		return size == target && p.fitter(h.Nodes, than.Nodes)
	case size > target:
		return false
	case size == have:
		return p.fitter(h.Nodes, than.Nodes)
	default:
		return size > have
	}
}

// fitter compares two sets of nodes: by size, then, if the closest are preferred, by distance, then by their numbers.
func (p *Policy) fitter(a, b Mask) bool {
	if p.closest && p.name != SingleNode && a.Len() == b.Len() {
		if near, far := p.spread(a), p.spread(b); near != far {
			return near < far
		}
	}
	return a.Narrower(b)
}

// spread is the average distance between the nodes of a set.
func (p *Policy) spread(m Mask) float64 {
	var sum, count float64
	for _, from := range m.Nodes() {
		for _, to := range m.Nodes() {
			if d := p.nodes[from].Distances; to < len(d) {
				sum += float64(d[to])
			}
			count++
		}
	}
	return sum / count
}
