package plugins

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/keelson-dev/keelson/scheduler"
)

// affinityCheck is InterPodAffinity prepared for a pod.
type affinityCheck struct {
	pod       *corev1.Pod
	namespace labels.Set // labels of the pod's namespace
	// near counts, for each label of the pod's required affinity, the pods that all terms select. self: these select the
	// pod itself.
	near []*tally
	self bool
	// apart counts the pods that each term of its required anti-affinity selects.
	apart []*tally
	// hostile are the terms of existing pods that refuse the pod.
	hostile []*existingTerm
}

func notNear() *scheduler.Refusal {
	return &scheduler.Refusal{Reasons: []string{"node(s) didn't match pod affinity rules"}, Unresolvable: true}
}

func notApart() *scheduler.Refusal {
	return scheduler.Refuse("node(s) didn't match pod anti-affinity rules")
}

func notWanted() *scheduler.Refusal {
	return scheduler.Refuse("node(s) didn't satisfy existing pods anti-affinity rules")
}

// all sets the refusals of all nodes.
func (c *affinityCheck) all(refusals []*scheduler.Refusal) {
	clear(refusals)
	alone := c.self
	for _, t := range c.near {
		alone = alone && t.total == 0
	}
	refusal := notNear()
	for _, t := range c.near {
		of, sum := t.of, t.sum
		for i := range refusals {
			if d := of[i]; d == nowhere || !alone && sum[d] <= 0 {
				refusals[i] = refusal
			}
		}
	}
	refusal = notApart()
	for _, t := range c.apart {
		refuseDomains(refusals, t.domains, t.sum, refusal)
	}
	refusal = notWanted()
	for _, e := range c.hostile {
		refuseDomains(refusals, e.domains, e.sum, refusal)
	}
}

// refuseDomains refuses nodes, unless they are refused already, in domains with pods.
func refuseDomains(refusals []*scheduler.Refusal, d *domains, sum []int64, refusal *scheduler.Refusal) {
	sum = sum[:min(len(sum), len(d.numbers))]
	for i, n := range d.of {
		if n != nowhere && int(n) < len(sum) && sum[n] > 0 && refusals[i] == nil {
			refusals[i] = refusal
		}
	}
}

// node returns the refusal of a node of the snapshot.
func (c *affinityCheck) node(node *scheduler.NodeInfo) *scheduler.Refusal {
	return c.changed(node, node)
}

// changed returns the refusal of a node with other pods than in the snapshot.
func (c *affinityCheck) changed(was, is *scheduler.NodeInfo) *scheduler.Refusal {
	gone, come := difference(was.Pods, is.Pods)
	if !c.nearAt(is.Node, gone, come) {
		return notNear()
	}
	for _, t := range c.apart {
		if d := t.find(is.Node); d != nowhere && t.sum[d]+t.change(gone, come) > 0 {
			return notApart()
		}
	}
	if c.unwanted(is.Node, gone, come) {
		return notWanted()
	}
	return nil
}

// change returns how many more pods match when some go and come.
func (t *tally) change(gone, come []*scheduler.PodInfo) int64 {
	return int64(t.count(come) - t.count(gone))
}

// nearAt reports whether the pod's affinity is satisfied on a node.
func (c *affinityCheck) nearAt(node *corev1.Node, gone, come []*scheduler.PodInfo) bool {
	near, alone := true, c.self
	for _, t := range c.near {
		d := t.find(node)
		if d == nowhere {
			return false
		}
		change := t.change(gone, come)
		near = near && t.sum[d]+change > 0
		alone = alone && t.total+change == 0
	}
	return near || alone
}

// unwanted reports whether another pod's anti-affinity refuses the pod on a node.
func (c *affinityCheck) unwanted(node *corev1.Node, gone, come []*scheduler.PodInfo) bool {
	for _, e := range c.hostile {
		d := e.find(node)
		if d == nowhere || int(d) >= len(e.sum) {
			continue
		}
		pods := e.sum[d]
		for _, p := range gone {
			for i := range antiTerms(p) {
				if p.Affinity.RequiredAnti[i].Key == e.Key {
					pods--
				}
			}
		}
		if pods > 0 {
			return true
		}
	}
	for _, p := range come {
		for i := range antiTerms(p) {
			term := &p.Affinity.RequiredAnti[i]
			if _, ok := node.Labels[term.TopologyKey]; ok && term.Selects(c.pod, c.namespace) {
				return true
			}
		}
	}
	return false
}

// antiTerms returns the required anti-affinity of a pod.
func antiTerms(p *scheduler.PodInfo) []scheduler.AffinityTerm {
	if p.Affinity == nil {
		return nil
	}
	return p.Affinity.RequiredAnti
}
