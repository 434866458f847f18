package garbagecollector

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// identity says which object a node of the graph is. For an owner that is known only from a
// reference the namespace is that of the dependent, which is where the owner must be.
type identity struct {
	uid             types.UID
	kind            schema.GroupVersionKind
	namespace, name string
}

// node is one object. Its fields are guarded by the graph's lock.
type node struct {
	identity
	// virtual: known from references only, until its own event comes.
	virtual      bool
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

// misplaced tells whether n refers to an owner in another namespace, which counts as none.
func (n *node) misplaced(owner *node) bool {
	return owner.namespace != "" && n.namespace != owner.namespace
}

// graph is who owns whom. What its methods return are the objects that need a look.
type graph struct {
	mu    sync.Mutex
	nodes map[types.UID]*node
}

func newGraph() *graph { return &graph{nodes: map[types.UID]*node{}} }

// observe takes in an object that came or changed.
func (g *graph) observe(id identity, meta metav1.Object) []types.UID {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.nodes[id.uid]
	if n == nil {
		n = &node{dependents: map[types.UID]*node{}}
		g.nodes[id.uid] = n
	}
	wasVirtual := n.virtual
	n.identity, n.virtual = id, false
	look := g.relate(n, meta.GetOwnerReferences())
	if wasVirtual {
		for _, id := range sorted(n.dependents) {
			if n.dependents[id].misplaced(n) {
				look = append(look, id)
			}
		}
	}
	deleting := meta.GetDeletionTimestamp() != nil
	finalizers := meta.GetFinalizers()
	n.beingDeleted = n.beingDeleted || deleting
	orphaning := deleting && slices.Contains(finalizers, metav1.FinalizerOrphanDependents)
	if orphaning && !n.orphaning {
		look = append(look, n.uid)
	}
	n.orphaning = orphaning
	foreground := deleting && slices.Contains(finalizers, metav1.FinalizerDeleteDependents)
	if foreground && !n.foreground {
		look = append(look, sorted(n.dependents)...)
		look = append(look, n.uid)
	}
	n.foreground = foreground
	return look
}

// relate replaces the owner references of n.
func (g *graph) relate(n *node, owners []metav1.OwnerReference) []types.UID {
	var look []types.UID
	was := n.owners
	n.owners = slices.Clone(owners)
	for _, ref := range was {
		i := slices.IndexFunc(owners, func(o metav1.OwnerReference) bool { return o.UID == ref.UID })
		owner := g.nodes[ref.UID]
		if owner == nil {
			continue
		}
		if i < 0 {
			delete(owner.dependents, n.uid)
		}
		if wasBlocking := ref.BlockOwnerDeletion != nil && *ref.BlockOwnerDeletion; owner.foreground && wasBlocking && !n.blocks(ref.UID) {
			look = append(look, owner.uid)
		}
		if i < 0 && owner.virtual && len(owner.dependents) == 0 {
			delete(g.nodes, owner.uid)
		}
	}
	for _, ref := range owners {
		owner := g.nodes[ref.UID]
		if owner == nil {
			owner = &node{
				identity: identity{uid: ref.UID, kind: schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind), namespace: n.namespace, name: ref.Name},
				virtual:  true, dependents: map[types.UID]*node{},
			}
			g.nodes[ref.UID] = owner
			// Nobody may ever tell of this owner: ask whether it exists.
			look = append(look, owner.uid)
		}
		owner.dependents[n.uid] = n
		if owner.foreground || n.misplaced(owner) {
			look = append(look, n.uid)
		}
	}
	return look
}

// forget takes out an object that is gone.
func (g *graph) forget(uid types.UID) []types.UID {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.nodes[uid]
	if n == nil {
		return nil
	}
	look := sorted(n.dependents)
	for _, ref := range n.owners {
		owner := g.nodes[ref.UID]
		if owner == nil {
			continue
		}
		delete(owner.dependents, uid)
		if owner.foreground {
			look = append(look, owner.uid)
		}
		if owner.virtual && len(owner.dependents) == 0 {
			delete(g.nodes, owner.uid)
		}
	}
	delete(g.nodes, uid)
	if len(n.dependents) > 0 {
		// The dependents still refer to it: keep it as what it now is, a mere reference.
		g.nodes[uid] = &node{identity: n.identity, virtual: true, dependents: n.dependents}
	}
	return look
}

// state is a node as it was at one moment.
type state struct {
	identity
	virtual, beingDeleted, foreground, orphaning bool
	dependents                                   []identity
	// blocking are the dependents that hold up a foreground deletion; foregroundDependents those
	// that themselves wait for theirs.
	blocking             []types.UID
	foregroundDependents bool
}

func (g *graph) state(uid types.UID) (state, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.nodes[uid]
	if n == nil {
		return state{}, false
	}
	s := state{identity: n.identity, virtual: n.virtual, beingDeleted: n.beingDeleted, foreground: n.foreground, orphaning: n.orphaning}
	for _, id := range sorted(n.dependents) {
		d := n.dependents[id]
		s.dependents = append(s.dependents, d.identity)
		if d.blocks(uid) {
			s.blocking = append(s.blocking, id)
		}
		s.foregroundDependents = s.foregroundDependents || d.foreground
	}
	return s, true
}

// sorted returns the keys in the order of the objects' names, so that runs repeat.
func sorted(nodes map[types.UID]*node) []types.UID {
	list := make([]*node, 0, len(nodes))
	for _, n := range nodes {
		list = append(list, n)
	}
	slices.SortFunc(list, func(a, b *node) int {
		return cmp.Or(strings.Compare(a.kind.String(), b.kind.String()), strings.Compare(a.namespace, b.namespace),
			strings.Compare(a.name, b.name), strings.Compare(string(a.uid), string(b.uid)))
	})
	ids := make([]types.UID, len(list))
	for i, n := range list {
		ids[i] = n.uid
	}
	return ids
}
