package nodelifecycle

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/node/topology"
)

// zoneState says how many nodes of a zone are silent.
type zoneState string

const (
	initial           zoneState = "Initial" // not checked yet
	normal            zoneState = "Normal"
	fullDisruption    zoneState = "FullDisruption"
	partialDisruption zoneState = "PartialDisruption"
)

const (
	// unhealthyAtLeast is the minimum number of silent nodes for a partial disruption.
	unhealthyAtLeast = 3
	// evictionBurst is how many nodes of a zone may be tainted at once.
	evictionBurst = 1
	// never is the rate at which no node is tainted.
	never float32 = 0
)

// zone holds the nodes of one region and zone, by their labels.
type zone struct {
	state   zoneState // "" if it has no nodes any more
	tainter *tainter
}

// stateOf returns the state of a zone from the Ready conditions of its nodes.
func stateOf(ready []corev1.ConditionStatus, unhealthyZone float32) zoneState {
	silent := 0
	for _, status := range ready {
		if status != corev1.ConditionTrue {
			silent++
		}
	}
	switch {
	case silent > 0 && silent == len(ready):
		return fullDisruption
	case silent >= unhealthyAtLeast && float32(silent)/float32(len(ready)) >= unhealthyZone:
		return partialDisruption
	}
	return normal
}

// rateOf returns how many nodes per second may be tainted in a zone.
func (o Options) rateOf(state zoneState, nodes int) float32 {
	switch {
	case state != partialDisruption:
		return o.EvictionRate
	case nodes > o.LargeZone:
		return o.SecondaryEvictionRate
	}
	return never
}

// disrupt sets the taint rate of each zone according to the readiness of its nodes. If no node of any zone is ready,
// the control plane is more likely to be disconnected: taints are removed and none added until a node is ready again;
// then the grace period of all nodes restarts.
func (c *Controller) disrupt(ctx context.Context, ready map[string][]corev1.ConditionStatus, nodes []*corev1.Node) {
	states := map[string]zoneState{}
	all := true // whether all zones are now fully disrupted
	for key, conditions := range ready {
		states[key] = stateOf(conditions, c.options.UnhealthyZone)
		all = all && states[key] == fullDisruption
	}
	had := c.forgetZones(states)
	switch {
	case all && had:
	case all:
		for _, node := range nodes {
			if err := c.reachable(ctx, node); err != nil {
				c.log.Warn("removing taints while all nodes are silent failed", "node", node.Name, "error", err)
			}
		}
		c.setZones(func(_ string, z *zone) {
			z.tainter.setRate(never)
			z.state = fullDisruption
		})
	case had:
		c.graceAnew(nodes)
		c.setZones(func(key string, z *zone) {
			z.state = states[key]
			z.tainter.setRate(c.options.rateOf(z.state, len(ready[key])))
		})
	default:
		c.setZones(func(key string, z *zone) {
			if z.state != states[key] {
				c.log.Info("zone changed", "zone", key, "from", z.state, "to", states[key])
				z.state = states[key]
				z.tainter.setRate(c.options.rateOf(z.state, len(ready[key])))
			}
		})
	}
}

// forgetZones drops the state of zones without nodes, and reports whether all others were fully disrupted.
func (c *Controller) forgetZones(present map[string]zoneState) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := true
	for key, z := range c.zones {
		if _, ok := present[key]; !ok {
			z.state = ""
		} else if z.state != fullDisruption {
			all = false
		}
	}
	return all
}

// setZones changes all zones that have nodes.
func (c *Controller) setZones(set func(key string, z *zone)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(c.zones)) {
		if z := c.zones[key]; z.state != "" {
			set(key, z)
		}
	}
}

// graceAnew restarts the grace period of all nodes.
func (c *Controller) graceAnew(nodes []*corev1.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for _, node := range nodes {
		if h, ok := c.health[node.Name]; ok {
			h.probed = now
			c.health[node.Name] = h
		}
	}
}

// tainterOf returns the tainter of a node's zone. It is new only if the node has just moved.
func (c *Controller) tainterOf(node *corev1.Node) *tainter {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.zoneOf(node).tainter
}

// zoneOf returns a node's zone and creates it if necessary; the caller holds the lock.
func (c *Controller) zoneOf(node *corev1.Node) *zone {
	key := topology.GetZoneKey(node)
	z := c.zones[key]
	if z == nil || z.state == "" {
		z = &zone{state: initial, tainter: newTainter(c.options.EvictionRate)}
		c.zones[key] = z
	}
	return z
}

// tainters returns all tainters by the names of their zones.
func (c *Controller) tainters() []*tainter {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []*tainter
	for _, key := range slices.Sorted(maps.Keys(c.zones)) {
		all = append(all, c.zones[key].tainter)
	}
	return all
}

// waiting reports whether nodes are queued in a zone that allows taints.
func (c *Controller) waiting() bool {
	return slices.ContainsFunc(c.tainters(), (*tainter).waiting)
}

// tainter queues the nodes of a zone that are to be tainted at a limited rate. A node that has had its turn is not
// queued again until it is removed.
type tainter struct {
	mu     sync.Mutex
	perSec float32
	bucket *rate.Limiter // nil allows none
	queue  []turn        // in order
	taken  map[string]bool
}

// turn is a node and when it may be tainted.
type turn struct {
	node string
	at   time.Time
}

func newTainter(perSec float32) *tainter {
	t := &tainter{perSec: perSec, taken: map[string]bool{}}
	if perSec > never {
		t.bucket = rate.NewLimiter(rate.Limit(perSec), evictionBurst)
	}
	return t
}

// setRate changes the rate. Nodes that are already queued wait for the new rate.
func (t *tainter) setRate(perSec float32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.perSec == perSec {
		return
	}
	next := newTainter(perSec)
	if next.bucket != nil && !t.allow() {
		next.bucket.Allow()
	}
	t.perSec, t.bucket = next.perSec, next.bucket
}

func (t *tainter) allow() bool { return t.bucket != nil && t.bucket.Allow() }

func (t *tainter) add(node string, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.taken[node] {
		t.taken[node] = true
		t.put(turn{node, now})
	}
}

func (t *tainter) put(next turn) {
	t.drop(next.node)
	t.queue = append(t.queue, next)
	slices.SortFunc(t.queue, func(a, b turn) int { return cmp.Or(a.at.Compare(b.at), strings.Compare(a.node, b.node)) })
}

func (t *tainter) drop(node string) {
	t.queue = slices.DeleteFunc(t.queue, func(w turn) bool { return w.node == node })
}

func (t *tainter) remove(node string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.taken, node)
	t.drop(node)
}

func (t *tainter) waiting() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.queue) > 0 && t.bucket != nil
}

// next returns the first node if it is its turn. Each call uses up one event of the rate.
func (t *tainter) next(now time.Time) (string, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.queue) == 0 || !t.allow() || now.Before(t.queue[0].at) {
		return "", false
	}
	return t.queue[0].node, true
}

// settle ends a node's turn, or schedules a retry.
func (t *tainter) settle(node string, done bool, now time.Time, wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.taken[node] {
		return
	}
	if done {
		t.drop(node)
	} else {
		t.put(turn{node, now.Add(wait + 1)})
	}
}
