package nodelifecycle

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/node/topology"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/internal/pods"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/internal/pause"
)

// excluded is the label of nodes that do not count for the health of their zone.
const excluded = "node.kubernetes.io/exclude-disruption"

// Retries of a failed write of a node's health.
const (
	writeTries = 5
	writePause = 20 * time.Millisecond
)

// reading is the result of checking a node.
type reading struct {
	node   *corev1.Node
	before corev1.ConditionStatus // status of the Ready condition before the check; Unknown if there was none
	after  corev1.ConditionStatus // status after the check; "" if there is none
}

// monitor checks all nodes.
func (c *Controller) monitor(ctx context.Context) {
	nodes := c.in.Nodes.List("")
	c.register(ctx, nodes)
	readings := make([]*reading, len(nodes))
	c.each(ctx, len(nodes), func(i int) { readings[i] = c.look(ctx, nodes[i]) })
	if ctx.Err() != nil {
		return
	}
	byZone := map[string][]corev1.ConditionStatus{}
	for _, r := range readings {
		if r == nil {
			continue
		}
		if _, out := r.node.Labels[excluded]; !out {
			key := topology.GetZoneKey(r.node)
			byZone[key] = append(byZone[key], r.after)
		}
	}
	c.disrupt(ctx, byZone, nodes)
	if c.waiting() {
		c.queue.AddAfter(controllers.Key{Name: taintKey}, taintPeriod)
	}
}

// each calls f for 0 to n-1, with the concurrency of Options.Parallel.
func (c *Controller) each(ctx context.Context, n int, f func(int)) {
	if c.options.Parallel == 1 {
		for i := range n {
			if ctx.Err() == nil {
				f(i)
			}
		}
		return
	}
	var workers sync.WaitGroup
	next := make(chan int)
	for range min(c.options.Parallel, n) {
		workers.Go(func() {
			for i := range next {
				f(i)
			}
		})
	}
	for i := range n {
		if ctx.Err() == nil {
			next <- i
		}
	}
	close(next)
	workers.Wait()
}

// register records new and deleted nodes, and new zones.
func (c *Controller) register(ctx context.Context, nodes []*corev1.Node) {
	there := map[string]bool{}
	for _, node := range nodes {
		there[node.Name] = true
		known := c.enter(node)
		if known {
			continue
		}
		c.nodeEvent(node, "RegisteredNode", fmt.Sprintf("Node %s event: Registered Node %s in Controller", node.Name, node.Name))
		if err := c.reachable(ctx, node); err != nil {
			c.log.Warn("removing taints from a new node failed", "node", node.Name, "error", err)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(c.known)) {
		if there[name] {
			continue
		}
		c.nodeEvent(c.known[name], "RemovingNode", fmt.Sprintf("Node %s event: Removing Node %s from Controller", name, name))
		delete(c.known, name)
		delete(c.health, name)
		for _, z := range c.zones {
			z.tainter.remove(name)
		}
	}
}

// enter records a node and its zone, and reports whether the node was known.
func (c *Controller) enter(node *corev1.Node) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, known := c.known[node.Name]
	if !known {
		c.known[node.Name] = node
	}
	c.zoneOf(node)
	return known
}

// look updates one node's health and acts on it. It returns nil on failure: nothing is concluded then.
func (c *Controller) look(ctx context.Context, node *corev1.Node) *reading {
	r, err := c.refresh(ctx, node)
	if err != nil {
		c.log.Warn("updating a node's health failed", "node", node.Name, "error", err)
		return nil
	}
	if r.after == "" {
		c.setRetry(node.Name, false)
		return r
	}
	c.taintByReadiness(ctx, r.node, r.after)
	lost := r.after != corev1.ConditionTrue && r.before == corev1.ConditionTrue
	if lost {
		c.nodeEvent(r.node, "NodeNotReady", fmt.Sprintf("Node %s status is now: NodeNotReady", r.node.Name))
	}
	if lost || c.wantsRetry(node.Name) && r.before != corev1.ConditionTrue {
		if err := c.markUnready(ctx, pods.OnNode(c.in.Pods, node.Name)...); err != nil {
			c.log.Warn("marking a node's pods unready failed", "node", node.Name, "error", err)
			c.setRetry(node.Name, true)
			return r
		}
	}
	c.setRetry(node.Name, false)
	return r
}

// refresh records a node's signs of life, and writes its conditions if it is silent. A failed write is retried with the
// node as the server has it.
func (c *Controller) refresh(ctx context.Context, node *corev1.Node) (*reading, error) {
	for try := 1; ; try++ {
		if err := c.leases.open(); err != nil {
			return nil, err
		}
		r, again, err := c.probe(ctx, node)
		if err == nil {
			return r, nil
		}
		if !again || try > writeTries || pause.For(ctx, writePause) != nil {
			return nil, err
		}
		fresh, err := c.fetch(ctx, node.Name)
		if err != nil {
			return nil, err
		}
		node = fresh
	}
}

// probe is one try of refresh; again reports whether another one may help.
func (c *Controller) probe(ctx context.Context, node *corev1.Node) (r *reading, again bool, err error) {
	lease, _ := c.in.Leases.Get(corev1.NamespaceNodeLease, node.Name)
	ready := readyOf(node)
	now := time.Now()
	h := c.see(node.Name, func(had *health) health { return observe(node, lease, had, now) })
	r = &reading{node: node, before: corev1.ConditionUnknown}
	grace := c.options.StartupGrace
	if ready != nil {
		r.before, r.after = ready.Status, ready.Status
		grace = c.options.Grace
	}
	if !now.After(h.probed.Add(grace)) {
		return r, false, nil
	}
	if err := c.confirm(ctx, node.Name, h.lease); err != nil {
		return nil, false, err
	}
	silent := node.DeepCopy()
	silent.Status.Conditions = unknown(node, now)
	changed := readyOf(silent)
	r.node, r.after = silent, changed.Status
	if reflect.DeepEqual(changed, ready) {
		return r, false, nil
	}
	at := nodeTarget(node.Name)
	at.Subresource = "status"
	if _, err := c.client.Update(ctx, at, silent, metav1.UpdateOptions{}); err != nil {
		return nil, true, fmt.Errorf("status of silent node %s: %w", node.Name, err)
	}
	c.see(node.Name, func(had *health) health { return health{probed: had.probed, ready: changed, lease: lease} })
	return r, false, nil
}

// see updates the health of a node.
func (c *Controller) see(node string, next func(*health) health) health {
	c.mu.Lock()
	defer c.mu.Unlock()
	var had *health
	if h, ok := c.health[node]; ok {
		had = &h
	}
	h := next(had)
	c.health[node] = h
	return h
}

func nodeTarget(name string) client.Target {
	return client.Target{Resource: corev1.SchemeGroupVersion.WithResource("nodes"), Name: name}
}

func (c *Controller) fetch(ctx context.Context, name string) (*corev1.Node, error) {
	obj, err := c.client.Get(ctx, nodeTarget(name))
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", name, err)
	}
	node, ok := obj.(*corev1.Node)
	if !ok {
		return nil, fmt.Errorf("node %s: the server answered with a %T", name, obj)
	}
	return node, nil
}

func (c *Controller) nodeEvent(node *corev1.Node, reason, message string) {
	c.recorder.Record(events.Event{
		Regarding: corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID},
		Type:      corev1.EventTypeNormal, Reason: reason, Message: message,
	})
}
