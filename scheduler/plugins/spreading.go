package plugins

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/signature"
)

// spreading is a PodTopologySpread that keeps what it counted: the pods that constraints of recent pods select, by
// topology domain.
type spreading struct {
	PodTopologySpread
	tallies

	// Room for results.
	refusals []*scheduler.Refusal
	scores   []int64
	at       []int32
	key      []byte
}

// Prepare implements scheduler.Preparer.
func (p *spreading) Prepare(pod *corev1.Pod, s *scheduler.Snapshot) (scheduler.Prepared, error) {
	return p.prepare(pod, s.Nodes())
}

func (p *spreading) prepare(pod *corev1.Pod, nodes []*scheduler.NodeInfo) (scheduler.Prepared, error) {
	all, err := p.constraints(pod, corev1.DoNotSchedule)
	if err != nil {
		return scheduler.Prepared{}, fmt.Errorf("get constraints from pod: %w", err)
	}
	if len(all) == 0 {
		return scheduler.Prepared{Skip: true}, nil
	}
	p.follow(nodes)
	c := &spreadCheck{pod: pod, constraints: all, skews: make([]skew, len(all))}
	includes := p.includes(pod, all, true)
	for i := range all {
		c.skews[i] = newSkew(&all[i], p.tally(pod, all, i, includes), pod)
	}
	if cap(p.refusals) < len(nodes) {
		p.refusals = make([]*scheduler.Refusal, len(nodes))
	}
	p.refusals = p.refusals[:len(nodes)]
	c.all(p.refusals)
	return scheduler.Prepared{Check: c.node, CheckChanged: c.changed, Refusals: p.refusals}, nil
}

func (p *spreading) follow(nodes []*scheduler.NodeInfo) {
	nothing := func(int, *scheduler.NodeInfo, *scheduler.NodeInfo) {}
	p.topology.follow(nodes, func() {}, nothing, nothing)
}

// includes returns for each constraint which nodes count. With all, these are in a domain of each constraint.
func (p *spreading) includes(pod *corev1.Pod, c constraints, all bool) []func(*corev1.Node) bool {
	affinity := nodeaffinity.GetRequiredNodeAffinity(pod)
	includes := make([]func(*corev1.Node) bool, len(c))
	for i := range c {
		one := c[i]
		includes[i] = func(node *corev1.Node) bool {
			if all && !c.in(node) {
				return false
			}
			if !one.ignoreAffinity {
				if match, _ := affinity.Match(node); !match { // terms that cannot be parsed match nothing
					return false
				}
			}
			return !one.honorTaints || toleratesAll(pod, node)
		}
	}
	return includes
}

// tally returns that of a constraint among others. includes are those of includes, nil to count all nodes.
func (p *spreading) tally(pod *corev1.Pod, c constraints, i int, includes []func(*corev1.Node) bool) *tally {
	b := signature.String(p.key[:0], pod.Namespace)
	b = signature.String(b, c[i].key)
	b = strconv.AppendBool(b, c[i].selector.Empty())
	b = strconv.AppendBool(b, labels.MatchesNothing(c[i].selector))
	b = signature.String(b, c[i].selector.String())
	made := tally{label: c[i].key, matches: counted(pod.Namespace, c[i].selector)}
	if includes != nil {
		made.includes = includes[i]
		b = p.includedKey(b, pod, c, i)
	}
	p.key = b
	return p.get(string(b), func() tally { return made })
}

// includedKey appends what decides which nodes count.
func (p *spreading) includedKey(b []byte, pod *corev1.Pod, c constraints, i int) []byte {
	for k := range c {
		b = signature.String(b, c[k].key)
	}
	b = strconv.AppendBool(append(b, ';'), c[i].ignoreAffinity)
	if !c[i].ignoreAffinity {
		b = signature.NodeAffinity(b, pod)
	}
	b = strconv.AppendBool(b, c[i].honorTaints)
	if c[i].honorTaints {
		b = signature.Tolerations(b, pod)
	}
	return b
}

// counted returns which pods a constraint counts: those that are not about to end.
func counted(namespace string, selector labels.Selector) func(*corev1.Pod) bool {
	if selector.Empty() {
		return func(*corev1.Pod) bool { return false }
	}
	return func(pod *corev1.Pod) bool {
		return pod.Namespace == namespace && pod.DeletionTimestamp == nil && selector.Matches(labels.Set(pod.Labels))
	}
}

// spreadCheck is PodTopologySpread prepared for a pod.
type spreadCheck struct {
	pod *corev1.Pod
	constraints
	skews []skew
}

// skew is a constraint with what it counts.
type skew struct {
	*constraint
	*tally
	self int64 // 1 if the pod itself counts
	// least is the lowest number of pods in a domain, second the next one, which is the same if two domains have it.
	least, second int64
	domains       int32 // how many there are
}

func newSkew(c *constraint, t *tally, pod *corev1.Pod) skew {
	s := skew{constraint: c, tally: t, least: math.MaxInt32, second: math.MaxInt32}
	if c.selector.Matches(labels.Set(pod.Labels)) {
		s.self = 1
	}
	for d, pods := range t.sum {
		if t.size[d] == 0 {
			continue
		}
		s.domains++
		if pods < s.least {
			s.least, s.second = pods, s.least
		} else if pods < s.second {
			s.second = pods
		}
	}
	return s
}

// allows reports whether a domain may get the pod when it has some pods and another domain has at least least.
func (s *skew) allows(pods, least int64) bool {
	if s.domains < s.minDomains {
		least = 0
	}
	return pods+s.self-least <= int64(s.maxSkew)
}

func skewed() *scheduler.Refusal {
	return scheduler.Refuse("node(s) didn't match pod topology spread constraints")
}

func unlabelled() *scheduler.Refusal {
	return &scheduler.Refusal{
		Reasons: []string{"node(s) didn't match pod topology spread constraints (missing required label)"}, Unresolvable: true,
	}
}

// all sets the refusals of all nodes.
func (c *spreadCheck) all(refusals []*scheduler.Refusal) {
	clear(refusals)
	full, missing := skewed(), unlabelled()
	for i := range c.skews {
		s := &c.skews[i]
		of, sum := s.of, s.sum
		for k := range refusals {
			if refusals[k] != nil {
				continue
			}
			if d := of[k]; d == nowhere {
				refusals[k] = missing
			} else if !s.allows(sum[d], s.least) {
				refusals[k] = full
			}
		}
	}
}

// node returns the refusal of a node of the snapshot.
func (c *spreadCheck) node(node *scheduler.NodeInfo) *scheduler.Refusal { return c.changed(node, node) }

// changed returns the refusal of a node with other pods than in the snapshot. As upstream, it counts those of them that
// are about to end.
func (c *spreadCheck) changed(was, is *scheduler.NodeInfo) *scheduler.Refusal {
	gone, come := difference(was.Pods, is.Pods)
	if !c.in(is.Node) {
		gone, come = nil, nil
	}
	for i := range c.skews {
		s := &c.skews[i]
		d := s.find(is.Node)
		if d == nowhere {
			return unlabelled()
		}
		pods, least := s.sum[d], s.least
		if len(gone)+len(come) > 0 && s.includes(is.Node) {
			pods += s.count(c.pod.Namespace, come) - s.count(c.pod.Namespace, gone)
			if s.sum[d] == s.least {
				least = s.second
			}
			least = min(least, pods)
		}
		if !s.allows(pods, least) {
			return skewed()
		}
	}
	return nil
}

// count counts the pods that the constraint selects.
func (s *skew) count(namespace string, pods []*scheduler.PodInfo) (n int64) {
	for _, p := range pods {
		if p.Pod.Namespace == namespace && s.selector.Matches(labels.Set(p.Pod.Labels)) {
			n++
		}
	}
	return n
}

// PrepareScores implements scheduler.ScorePreparer.
func (p *spreading) PrepareScores(pod *corev1.Pod, s *scheduler.Snapshot, feasible []*scheduler.NodeInfo) (scheduler.PreparedScores, error) {
	return p.prepareScores(pod, s.Nodes(), feasible)
}

func (p *spreading) prepareScores(pod *corev1.Pod, nodes, feasible []*scheduler.NodeInfo) (scheduler.PreparedScores, error) {
	c, err := p.constraints(pod, corev1.ScheduleAnyway)
	if err != nil {
		return scheduler.PreparedScores{}, fmt.Errorf("calculating preScoreState: %w", err)
	}
	if len(c) == 0 {
		return scheduler.PreparedScores{Skip: true}, nil
	}
	p.follow(nodes)
	// With upstream's default constraints, nodes without zone are still spread by hostname.
	all := len(pod.Spec.TopologySpreadConstraints) > 0 || p.Defaults != nil
	includes := p.includes(pod, c, all)
	w := spreadScores{constraints: c, all: all, tallies: make([]*tally, len(c))}
	for i := range c {
		if c[i].key == corev1.LabelHostname { // what counts is the node alone
			w.tallies[i] = p.tally(pod, c, i, nil)
			continue
		}
		w.tallies[i] = p.soft(pod, c, i, includes, all)
	}
	at, ok := p.topology.positions(feasible, p.at)
	if !ok {
		return scheduler.PreparedScores{}, fmt.Errorf("scoring nodes that are not in the snapshot")
	}
	p.at = at
	p.scores = slices.Grow(p.scores[:0], len(at))[:len(at)]
	w.score(at, p.scores)
	return scheduler.PreparedScores{Scores: p.scores, Score: func(n *scheduler.NodeInfo) int64 {
		if i := slices.Index(feasible, n); i >= 0 {
			return p.scores[i]
		}
		return unscored
	}}, nil
}

// soft is tally for a constraint that ranks domains.
func (p *spreading) soft(pod *corev1.Pod, c constraints, i int, includes []func(*corev1.Node) bool, all bool) *tally {
	if all {
		return p.tally(pod, c, i, includes)
	}
	b := signature.String(append(p.key[:0], '~'), pod.Namespace)
	b = signature.String(signature.String(b, c[i].key), c[i].selector.String())
	b = p.includedKey(b, pod, c, i)
	p.key = b
	return p.get(string(b), func() tally {
		return tally{label: c[i].key, matches: counted(pod.Namespace, c[i].selector), includes: includes[i], lacking: true}
	})
}

// spreadScores are the constraints by which nodes are ranked, with what they count.
type spreadScores struct {
	constraints
	all     bool // score only nodes in a domain of each constraint
	tallies []*tally
}

// score sets the scores of nodes.
func (w *spreadScores) score(nodes []int32, scores []int64) {
	ignored := 0
	for j, at := range nodes {
		scores[j] = 0
		if w.all && slices.ContainsFunc(w.tallies, func(t *tally) bool { return t.of[at] == nowhere }) {
			scores[j] = unscored
			ignored++
		}
	}
	sums := make([]float64, len(nodes))
	for i, t := range w.tallies {
		skew := float64(w.constraints[i].maxSkew - 1)
		if t.label == corev1.LabelHostname {
			factor := sizeFactor(len(nodes) - ignored)
			for j, at := range nodes {
				if t.of[at] != nowhere {
					sums[j] += float64(t.here[at])*factor + skew
				}
			}
			continue
		}
		factor := sizeFactor(w.sizeOf(t, nodes, scores))
		of, sum := t.of, t.sum
		for j, at := range nodes {
			if d := of[at]; d != nowhere {
				sums[j] += float64(sum[d])*factor + skew
			}
		}
	}
	for j := range nodes {
		if scores[j] != unscored {
			scores[j] = int64(math.Round(sums[j]))
		}
	}
}

// sizeOf returns the number of domains of the scored nodes. Those without the label count as one of an empty value.
func (w *spreadScores) sizeOf(t *tally, nodes []int32, scores []int64) int {
	seen := make([]bool, len(t.numbers)+1)
	empty, ok := t.numbers[""]
	if !ok {
		empty = int32(len(t.numbers))
	}
	size := 0
	for j, at := range nodes {
		if scores[j] == unscored {
			continue
		}
		d := t.of[at]
		if d == nowhere {
			d = empty
		}
		if !seen[d] {
			seen[d] = true
			size++
		}
	}
	return size
}

// sizeFactor weighs the pods of a domain by the number of domains, so that those of large topologies count as much as
// those of small ones.
func sizeFactor(size int) float64 { return math.Log(float64(size + 2)) }
