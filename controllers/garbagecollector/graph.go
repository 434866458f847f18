package garbagecollector

import (
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
)

// maxAbsent bounds how many absent owners are remembered, as upstream's cache does.
const maxAbsent = 500

// Pauses between questions whether a virtual node exists, as those of upstream's queue.
const firstWait, lastWait = 5 * time.Millisecond, 1000 * time.Second

// node is one object. Its fields are guarded by the graph's lock.
type node struct {
	identity
	// virtual: known from references only, until its own event comes. Its identity is one that
	// some dependent claims.
	virtual bool
	// wait is how long the last pause was between two questions whether it exists.
	wait         time.Duration
	owners       []metav1.OwnerReference
	dependents   map[types.UID]*node
	beingDeleted bool
	// foreground: it is being deleted and waits for its dependents.
	foreground bool
	// orphaning: it is being deleted and leaves its dependents behind.
	orphaning bool
}

// blocks tells whether n holds up the foreground deletion of the owner.
func (n *node) blocks(owner types.UID) bool {
	return slices.ContainsFunc(n.owners, func(ref metav1.OwnerReference) bool {
		return ref.UID == owner && ref.BlockOwnerDeletion != nil && *ref.BlockOwnerDeletion
	})
}

// refers tells whether n refers to the owner by just this identity, and whether it refers to the
// same uid by another one. Both may be.
func (n *node) refers(owner identity) (match, mismatch bool) {
	if owner.namespace != "" && owner.namespace != n.namespace {
		return false, true
	}
	for _, ref := range n.owners {
		if ref.UID == owner.uid {
			match, mismatch = match || owner.is(ref), mismatch || !owner.is(ref)
		}
	}
	return match, mismatch
}

// graph is who owns whom, and which owners are known to be gone. It is safe for concurrent use.
type graph struct {
	mu     sync.Mutex
	nodes  map[types.UID]*node
	absent *lru.Cache // of identities
}

func newGraph() *graph {
	return &graph{nodes: map[types.UID]*node{}, absent: lru.New(maxAbsent)}
}

// changes are what became of an event: objects that need a look, and objects that refer to an
// owner in another namespace.
type changes struct {
	look    []types.UID
	invalid []invalid
}

// invalid is a dependent and the owner that it looks for in its own namespace in vain.
type invalid struct{ dependent, owner identity }

// isAbsent tells whether the owner is known to be gone, from the dependent's namespace or from
// the cluster.
func (g *graph) isAbsent(owner identity) bool {
	if _, gone := g.absent.Get(owner); gone {
		return true
	}
	owner.namespace = ""
	_, gone := g.absent.Get(owner)
	return gone
}

func (g *graph) remember(owner identity) { g.absent.Add(owner, nil) }

// observe takes in an object that came or changed.
func (g *graph) observe(id identity, obj metav1.Object) changes {
	g.mu.Lock()
	defer g.mu.Unlock()
	var ch changes
	n := g.nodes[id.uid]
	switch {
	case n == nil:
		n = &node{identity: id, dependents: map[types.UID]*node{}}
		g.nodes[id.uid] = n
	case n.virtual:
		g.reveal(n, id, &ch)
	}
	g.relate(n, obj.GetOwnerReferences(), &ch)
	deleting := obj.GetDeletionTimestamp() != nil
	finalizers := obj.GetFinalizers()
	n.beingDeleted = deleting
	orphaning := deleting && slices.Contains(finalizers, metav1.FinalizerOrphanDependents)
	if orphaning && !n.orphaning {
		ch.look = append(ch.look, n.uid)
	}
	n.orphaning = orphaning
	foreground := deleting && slices.Contains(finalizers, metav1.FinalizerDeleteDependents)
	if foreground && !n.foreground {
		ch.look = append(ch.look, uids(sorted(n.dependents))...)
		ch.look = append(ch.look, n.uid)
	}
	n.foreground = foreground
	return ch
}

// reveal replaces what dependents claimed about n by what it is. Those that claimed something
// else need a look.
func (g *graph) reveal(n *node, id identity, ch *changes) {
	if n.identity == id {
		n.virtual = false
		return
	}
	for _, d := range sorted(n.dependents) {
		if _, mismatch := d.refers(id); !mismatch {
			continue
		}
		if id.namespace != "" && id.namespace != d.namespace {
			ch.invalid = append(ch.invalid, misplaced(d, id.uid)...)
		}
		ch.look = append(ch.look, d.uid)
	}
	n.identity, n.virtual = id, false
}

func misplaced(dependent *node, owner types.UID) []invalid {
	for _, ref := range dependent.owners {
		if ref.UID == owner {
			return []invalid{{dependent.identity, claimed(ref, dependent.namespace)}}
		}
	}
	return nil
}

// relate replaces the owner references of n.
func (g *graph) relate(n *node, refs []metav1.OwnerReference, ch *changes) {
	before := *n
	n.owners = slices.Clone(refs)
	for _, ref := range before.owners {
		owner := g.nodes[ref.UID]
		if owner == nil {
			continue
		}
		if owner.foreground && before.blocks(ref.UID) && !n.blocks(ref.UID) {
			ch.look = append(ch.look, owner.uid)
		}
		if !slices.ContainsFunc(refs, func(r metav1.OwnerReference) bool { return r.UID == ref.UID }) {
			g.leave(owner, n.uid)
		}
	}
	late, suspect := false, false
	for _, ref := range refs {
		if slices.ContainsFunc(before.owners, claimed(ref, "").is) {
			continue
		}
		owner := g.nodes[ref.UID]
		if owner == nil {
			g.nodes[ref.UID] = &node{identity: claimed(ref, n.namespace), virtual: true, dependents: map[types.UID]*node{n.uid: n}}
			ch.look = append(ch.look, ref.UID) // ask whether it exists: nobody may ever tell
			continue
		}
		owner.dependents[n.uid] = n
		late = late || owner.foreground // what comes to an owner that waits is to go as well
		if suspect || !doubtful(n, ref, owner) {
			continue
		}
		suspect = true
		if !owner.virtual && owner.namespace != "" && owner.namespace != n.namespace {
			ch.invalid = append(ch.invalid, misplaced(n, ref.UID)...)
		}
	}
	if suspect || late {
		ch.look = append(ch.look, n.uid)
	}
}

// doubtful tells whether the reference may not mean the owner of that uid.
func doubtful(n *node, ref metav1.OwnerReference, owner *node) bool {
	if owner.namespace != n.namespace && (owner.namespace != "" || owner.virtual) {
		// Elsewhere; or it was claimed by an object without a namespace, which may have meant an
		// owner that has one.
		return true
	}
	return !owner.is(ref)
}

// leave takes a dependent from an owner, which is not kept when it was nothing but referred to.
func (g *graph) leave(owner *node, dependent types.UID) {
	delete(owner.dependents, dependent)
	if owner.virtual && len(owner.dependents) == 0 {
		delete(g.nodes, owner.uid)
	}
}

// forget takes out an object whose deletion was observed.
func (g *graph) forget(id identity) changes {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.nodes[id.uid]
	if n == nil {
		return changes{}
	}
	return changes{look: g.remove(n, id)}
}

func (g *graph) remove(n *node, id identity) []types.UID {
	delete(g.nodes, n.uid)
	if len(n.dependents) > 0 {
		g.remember(id)
	}
	look := uids(sorted(n.dependents))
	for _, ref := range n.owners {
		owner := g.nodes[ref.UID]
		if owner == nil {
			continue
		}
		if owner.foreground {
			look = append(look, owner.uid)
		}
		g.leave(owner, n.uid)
	}
	return look
}

// missing takes in that the server does not know an object by this identity. The object may have
// another: then only the dependents that claimed this one have no owner. A virtual node whose
// identity this was takes on the next one claimed, which is to be asked for.
func (g *graph) missing(id identity) changes {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.nodes[id.uid]
	if n == nil {
		return changes{}
	}
	var ch changes
	var right, wrong []*node
	for _, d := range sorted(n.dependents) {
		match, mismatch := d.refers(id)
		if match {
			right = append(right, d)
		}
		if mismatch {
			wrong = append(wrong, d)
		}
	}
	if n.virtual && len(wrong) == 0 || !n.virtual && n.identity == id {
		return changes{look: g.remove(n, id)}
	}
	if len(right) > 0 {
		g.remember(id)
		ch.look = uids(right)
	}
	if n.identity == id {
		n.identity = alternate(wrong, id)
	}
	return ch
}

// again says when to ask next whether a virtual node exists; 0 is never.
func (g *graph) again(uid types.UID) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.nodes[uid]
	if n == nil || !n.virtual {
		return 0
	}
	n.wait = min(max(2*n.wait, firstWait), lastWait)
	return n.wait
}

// alternate finds another identity that the dependents claim for the uid of one that is absent:
// the first after it in order, else the first. At least one of them claims another.
func alternate(dependents []*node, gone identity) identity {
	var others []identity
	for _, d := range dependents {
		for _, ref := range d.owners {
			if ref.UID != gone.uid {
				continue
			}
			other := claimed(ref, d.namespace)
			if gone.namespace == "" && other.apiVersion == gone.apiVersion && other.kind == gone.kind {
				other.namespace = "" // the kind has none
			}
			if other != gone {
				others = append(others, other)
			}
		}
	}
	slices.SortFunc(others, identity.compare)
	after := slices.IndexFunc(others, func(other identity) bool { return gone.compare(other) < 0 })
	return others[max(after, 0)]
}

// state is a node as it was at one moment.
type state struct {
	identity
	virtual, beingDeleted, foreground, orphaning bool
	owners                                       []metav1.OwnerReference
	dependents                                   []dependent // in order
}

// dependent is one dependent of a state's object.
type dependent struct {
	identity
	blocks     bool // a foreground deletion of the owner
	foreground bool // it waits for dependents of its own
}

// state returns what is known of an object.
func (g *graph) state(uid types.UID) (state, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.nodes[uid]
	if n == nil {
		return state{}, false
	}
	s := state{
		identity: n.identity, virtual: n.virtual, beingDeleted: n.beingDeleted, foreground: n.foreground, orphaning: n.orphaning,
		owners: n.owners, // replaced, never changed
	}
	for _, d := range sorted(n.dependents) {
		s.dependents = append(s.dependents, dependent{d.identity, d.blocks(uid), d.foreground})
	}
	return s, true
}

// sorted returns the nodes in the order of their identities, so that runs repeat.
func sorted(nodes map[types.UID]*node) []*node {
	list := make([]*node, 0, len(nodes))
	for _, n := range nodes {
		list = append(list, n)
	}
	slices.SortFunc(list, func(a, b *node) int { return a.compare(b.identity) })
	return list
}

func uids(nodes []*node) []types.UID {
	list := make([]types.UID, len(nodes))
	for i, n := range nodes {
		list[i] = n.uid
	}
	return list
}
