package garbagecollector

import (
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
)

// maxAbsent is how many absent owners are remembered, as in upstream's cache.
const maxAbsent = 500

// firstWait and lastWait are the shortest and longest delay between two checks whether a virtual node exists, as in
// upstream's queue.
const firstWait, lastWait = 5 * time.Millisecond, 1000 * time.Second

// node is one object. Its fields are guarded by the graph's lock.
type node struct {
	identity
	// virtual means that the node is only known from references and has had no event yet. Its identity is one of those
	// that its dependents claim.
	virtual bool
	// wait is the last delay between two checks whether it exists.
	wait         time.Duration
	owners       []metav1.OwnerReference
	dependents   map[types.UID]*node
	beingDeleted bool
	// foreground means that it is being deleted and waits for its dependents.
	foreground bool
	// orphaning means that it is being deleted and orphans its dependents.
	orphaning bool
}

// blocks reports whether n blocks the foreground deletion of the owner.
func (n *node) blocks(owner types.UID) bool {
	return slices.ContainsFunc(n.owners, func(ref metav1.OwnerReference) bool {
		return ref.UID == owner && ref.BlockOwnerDeletion != nil && *ref.BlockOwnerDeletion
	})
}

// refers reports whether n refers to the owner by exactly this identity, and whether it refers to the same uid by
// another one. Both may be true.
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

// graph records who owns whom, and which owners are known to be gone. It is safe for concurrent use.
type graph struct {
	mu     sync.Mutex
	nodes  map[types.UID]*node
	absent *lru.Cache // holds identities
}

func newGraph() *graph {
	return &graph{nodes: map[types.UID]*node{}, absent: lru.New(maxAbsent)}
}

// changes are the consequences of an event: objects to reconcile, and objects that refer to an owner in another
// namespace.
type changes struct {
	look    []types.UID
	invalid []invalid
}

// invalid is a dependent and an owner that does not exist in the dependent's namespace.
type invalid struct{ dependent, owner identity }

// isAbsent reports whether the owner is known to be absent, from the dependent's namespace or as a cluster-scoped
// object.
func (g *graph) isAbsent(owner identity) bool {
	if _, gone := g.absent.Get(owner); gone {
		return true
	}
	owner.namespace = ""
	_, gone := g.absent.Get(owner)
	return gone
}

func (g *graph) remember(owner identity) { g.absent.Add(owner, nil) }

// observe adds or updates an object.
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

// reveal replaces what dependents claimed about n by its true identity. Dependents that claimed another identity are
// reconciled.
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
			ch.look = append(ch.look, ref.UID) // check whether it exists: there may never be an event
			continue
		}
		owner.dependents[n.uid] = n
		late = late || owner.foreground // a new dependent of an owner deleted in the foreground has to be deleted, too
		if suspect || !mismatched(n, ref, owner) {
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

// mismatched reports whether the reference may not mean the owner with that uid.
func mismatched(n *node, ref metav1.OwnerReference, owner *node) bool {
	if owner.namespace != n.namespace && (owner.namespace != "" || owner.virtual) {
		// The owner is in another namespace, or a dependent without a namespace claimed it and may have meant an owner
		// that has one.
		return true
	}
	return !owner.is(ref)
}

// leave removes a dependent from an owner. A virtual owner without dependents is dropped.
func (g *graph) leave(owner *node, dependent types.UID) {
	delete(owner.dependents, dependent)
	if owner.virtual && len(owner.dependents) == 0 {
		delete(g.nodes, owner.uid)
	}
}

// forget removes an object whose deletion was observed.
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

// missing records that the server has no object with this identity. If the object has another identity, only the
// dependents that claimed this one have no owner. A virtual node with this identity takes the next one claimed, which
// is then checked.
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

// again returns when to check next whether a virtual node exists; 0 means never.
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

// about returns the objects of some kinds, and those that refer to owners of these kinds.
func (g *graph) about(kinds map[schema.GroupKind]bool) []types.UID {
	g.mu.Lock()
	defer g.mu.Unlock()
	found := map[types.UID]*node{}
	of := func(apiVersion, kind string) bool {
		return kinds[schema.FromAPIVersionAndKind(apiVersion, kind).GroupKind()]
	}
	for uid, n := range g.nodes {
		if of(n.apiVersion, n.kind) || slices.ContainsFunc(n.owners, func(ref metav1.OwnerReference) bool { return of(ref.APIVersion, ref.Kind) }) {
			found[uid] = n
		}
	}
	return uids(sorted(found))
}

// alternate returns another identity that the dependents claim for the uid of an absent one: the next in order, or else
// the first. At least one dependent must claim another.
func alternate(dependents []*node, gone identity) identity {
	var others []identity
	for _, d := range dependents {
		for _, ref := range d.owners {
			if ref.UID != gone.uid {
				continue
			}
			other := claimed(ref, d.namespace)
			if gone.namespace == "" && other.apiVersion == gone.apiVersion && other.kind == gone.kind {
				other.namespace = "" // the kind is cluster-scoped
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

// state is a snapshot of a node.
type state struct {
	identity
	virtual, beingDeleted, foreground, orphaning bool
	owners                                       []metav1.OwnerReference
	dependents                                   []dependent // in order
}

// dependent is a dependent in a state.
type dependent struct {
	identity
	blocks     bool // a foreground deletion of the owner
	foreground bool // it waits for dependents of its own
}

// state returns the snapshot of an object.
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

// sorted returns the nodes in the order of their identities, which makes runs reproducible.
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
