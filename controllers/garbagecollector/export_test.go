package garbagecollector

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Graph is the graph, for tables.
type Graph struct{ graph *graph }

func NewGraph() Graph { return Graph{newGraph()} }

// GraphOf is the graph of a controller.
func GraphOf(c *Controller) Graph { return Graph{c.graph} }

func thing(kind string, obj metav1.Object) identity {
	return identity{apiVersion: "v1", kind: kind, namespace: obj.GetNamespace(), name: obj.GetName(), uid: obj.GetUID()}
}

func (ch changes) told() (look []string, invalid []string) {
	for _, id := range ch.look {
		look = append(look, string(id))
	}
	for _, bad := range ch.invalid {
		invalid = append(invalid, string(bad.dependent.uid)+" "+bad.owner.String())
	}
	return look, invalid
}

func (g Graph) Observe(kind string, obj metav1.Object) (look []string, invalid []string) {
	return g.graph.observe(thing(kind, obj), obj).told()
}

func (g Graph) Forget(kind string, obj metav1.Object) []string {
	look, _ := g.graph.forget(thing(kind, obj)).told()
	return look
}

func (g Graph) Missing(kind string, obj metav1.Object) []string {
	look, _ := g.graph.missing(thing(kind, obj)).told()
	return look
}

func (g Graph) Absent(kind string, obj metav1.Object) bool { return g.graph.isAbsent(thing(kind, obj)) }

// Virtual is the identity that a virtual node has now, empty for other nodes.
func (g Graph) Virtual(uid string) string {
	for id, n := range g.graph.nodes {
		if string(id) == uid && n.virtual {
			return n.identity.String()
		}
	}
	return ""
}

// Size is how many nodes there are.
func (g Graph) Size() int {
	g.graph.mu.Lock()
	defer g.graph.mu.Unlock()
	return len(g.graph.nodes)
}
