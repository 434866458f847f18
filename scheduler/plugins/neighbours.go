package plugins

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/keelson-dev/keelson/scheduler"
)

// neighbours is an InterPodAffinity that keeps what it counted: the terms of existing pods, and the pods that terms of
// recent pods select, by topology domain.
type neighbours struct {
	InterPodAffinity
	tallies
	apart  termIndex // required anti-affinity of existing pods
	wishes termIndex // what existing pods add to scores

	// selected are the namespaces by selector, in one version of them.
	selected map[string][]string
	version  string

	// Room for results.
	refusals []*scheduler.Refusal
	scores   []int64
	at       []int32
}

// Prepare implements scheduler.Preparer.
func (n *neighbours) Prepare(pod *corev1.Pod, s *scheduler.Snapshot) (scheduler.Prepared, error) {
	return n.prepare(pod, s.Nodes()), nil
}

func (n *neighbours) prepare(pod *corev1.Pod, nodes []*scheduler.NodeInfo) scheduler.Prepared {
	own, err := scheduler.PodAffinityOf(pod)
	if err != nil {
		return scheduler.Prepared{Refusal: unparsable(err)}
	}
	if own == nil {
		own = &scheduler.PodAffinity{}
	}
	if n.Groups == nil && (slices.ContainsFunc(own.Required, selectsNamespaces) || slices.ContainsFunc(own.RequiredAnti, selectsNamespaces)) {
		return scheduler.Prepared{Refusal: &scheduler.Refusal{
			Reasons: []string{"pod affinity selects namespaces by their labels, which this scheduler does not know"}, Unresolvable: true,
		}}
	}
	n.follow(nodes)
	c := &affinityCheck{pod: pod, hostile: n.apart.selecting(pod, n.labelsOf(pod))}
	c.namespace = n.labelsOf(pod)
	if len(own.Required)+len(own.RequiredAnti)+len(c.hostile) == 0 {
		return scheduler.Prepared{Skip: true}
	}
	if len(own.Required) > 0 {
		c.near, c.self = n.near(own.Required, pod)
	}
	for _, term := range own.RequiredAnti {
		c.apart = append(c.apart, n.tally(term))
	}
	if cap(n.refusals) < len(nodes) {
		n.refusals = make([]*scheduler.Refusal, len(nodes))
	}
	n.refusals = n.refusals[:len(nodes)]
	c.all(n.refusals)
	return scheduler.Prepared{Check: c.node, CheckChanged: c.changed, Refusals: n.refusals}
}

func selectsNamespaces(t scheduler.AffinityTerm) bool {
	return !t.NamespaceSelector.Empty() && !labels.MatchesNothing(t.NamespaceSelector)
}

func (n *neighbours) labelsOf(pod *corev1.Pod) labels.Set {
	if n.Groups == nil {
		return nil
	}
	return n.Groups.Labels(pod.Namespace)
}

// follow updates the indexes of terms, and the topology, but not yet the tallies.
func (n *neighbours) follow(nodes []*scheduler.NodeInfo) {
	n.topology.follow(nodes, func() {
		n.apart, n.wishes = termIndex{}, termIndex{}
		for i, node := range nodes {
			n.index(i, node.Affine, 1)
		}
	}, func(i int, old, updated *scheduler.NodeInfo) {
		n.index(i, changedAffine(old, updated), -1)
	}, func(i int, old, updated *scheduler.NodeInfo) {
		n.index(i, changedAffine(updated, old), 1)
	})
}

// changedAffine returns those pods with affinity of a node's state that another state may lack, or has elsewhere.
func changedAffine(state, other *scheduler.NodeInfo) []*scheduler.PodInfo {
	if len(state.Affine) == 0 || state.Node != other.Node {
		return state.Affine
	}
	changed, _ := difference(state.Affine, other.Affine)
	return changed
}

// index adds the terms of pods on a node to the indexes, or removes them.
func (n *neighbours) index(i int, pods []*scheduler.PodInfo, by int64) {
	for _, p := range pods {
		a := p.Affinity
		for k := range a.RequiredAnti {
			n.apart.add(&n.topology, &a.RequiredAnti[k], 0, i, by)
		}
		if hard := n.hardWeight(); hard > 0 {
			for k := range a.Required {
				n.wishes.add(&n.topology, &a.Required[k], hard, i, by)
			}
		}
		for k := range a.Preferred {
			n.wishes.add(&n.topology, &a.Preferred[k], int64(a.Preferred[k].Weight), i, by)
		}
		for k := range a.PreferredAnti {
			n.wishes.add(&n.topology, &a.PreferredAnti[k], -int64(a.PreferredAnti[k].Weight), i, by)
		}
	}
}

// near returns a tally for each label of the terms, of the pods that all terms select, and whether they select the pod.
func (n *neighbours) near(terms []scheduler.AffinityTerm, pod *corev1.Pod) ([]*tally, bool) {
	var key strings.Builder
	resolved := make([]scheduler.AffinityTerm, len(terms))
	for i, term := range terms {
		resolved[i] = n.resolve(term)
		key.WriteString(strconv.Itoa(len(resolved[i].Key)))
		key.WriteString(resolved[i].Key)
	}
	all := func(pod *corev1.Pod) bool { return selectsAll(resolved, pod) }
	var near []*tally
	for _, term := range terms {
		if !slices.ContainsFunc(near, func(t *tally) bool { return t.label == term.TopologyKey }) {
			near = append(near, n.get("all "+strconv.Itoa(len(term.TopologyKey))+term.TopologyKey+key.String(), func() tally {
				return tally{label: term.TopologyKey, matches: all}
			}))
		}
	}
	return near, all(pod)
}

// tally returns that of the pods that a term selects.
func (n *neighbours) tally(term scheduler.AffinityTerm) *tally {
	term = n.resolve(term)
	return n.get("one "+term.Key, func() tally {
		return tally{label: term.TopologyKey, matches: func(pod *corev1.Pod) bool { return term.Selects(pod, nil) }}
	})
}

// resolve replaces a selector of namespaces by their names.
func (n *neighbours) resolve(term scheduler.AffinityTerm) scheduler.AffinityTerm {
	if term.NamespaceSelector.Empty() {
		return term
	}
	if selectsNamespaces(term) && n.Groups != nil {
		names := n.namespaces(term.NamespaceSelector)
		term.Namespaces = slices.Concat(term.Namespaces, names)
		term.Key += "\n" + strings.Join(names, "\n")
	}
	term.NamespaceSelector = labels.Nothing()
	return term
}

func (n *neighbours) namespaces(selector labels.Selector) []string {
	if v := n.Groups.Version(); n.selected == nil || v != n.version {
		n.selected, n.version = map[string][]string{}, v
	}
	key := selector.String()
	names, ok := n.selected[key]
	if !ok {
		names = n.Groups.Namespaces(selector)
		n.selected[key] = names
	}
	return names
}

// PrepareScores implements scheduler.ScorePreparer.
func (n *neighbours) PrepareScores(pod *corev1.Pod, s *scheduler.Snapshot, feasible []*scheduler.NodeInfo) (scheduler.PreparedScores, error) {
	return n.prepareScores(pod, s.Nodes(), feasible)
}

func (n *neighbours) prepareScores(pod *corev1.Pod, nodes, feasible []*scheduler.NodeInfo) (scheduler.PreparedScores, error) {
	own, err := scheduler.PodAffinityOf(pod)
	if err != nil {
		return scheduler.PreparedScores{}, fmt.Errorf("failed to parse pod: %w", err) // its Prepare refuses the pod before
	}
	if own == nil {
		own = &scheduler.PodAffinity{}
	}
	if n.IgnorePreferredTermsOfExistingPods && len(own.Preferred)+len(own.PreferredAnti) == 0 {
		return scheduler.PreparedScores{Skip: true}, nil
	}
	n.follow(nodes)
	var sums weights
	for _, term := range own.Preferred {
		sums.add(n.tally(term), int64(term.Weight))
	}
	for _, term := range own.PreferredAnti {
		sums.add(n.tally(term), -int64(term.Weight))
	}
	for _, e := range n.wishes.selecting(pod, n.labelsOf(pod)) {
		sums.addSum(e.domains, e.sum, e.total, e.weight)
	}
	if len(sums) == 0 {
		return scheduler.PreparedScores{Skip: true}, nil
	}
	prepared := scheduler.PreparedScores{Score: sums.node}
	if at, ok := n.topology.positions(feasible, n.at); ok {
		n.at = at
		n.scores = slices.Grow(n.scores[:0], len(at))[:len(at)]
		sums.all(at, n.scores)
		prepared.Scores = n.scores
	}
	return prepared, nil
}

// weights are what nodes score by their domains.
type weights []weight

type weight struct {
	*domains
	sum []int64 // by domain
}

func (w *weights) add(t *tally, factor int64) { w.addSum(t.domains, t.sum, t.total, factor) }

// addSum adds a number of pods by domain, total in all, times a factor.
func (w *weights) addSum(d *domains, pods []int64, total, factor int64) {
	if total == 0 {
		return
	}
	i := slices.IndexFunc(*w, func(one weight) bool { return one.domains == d })
	if i < 0 {
		i = len(*w)
		*w = append(*w, weight{d, make([]int64, len(d.numbers))})
	}
	sum := (*w)[i].sum
	for k, p := range pods {
		sum[k] += factor * p
	}
}

// node returns the score of a node.
func (w weights) node(node *scheduler.NodeInfo) int64 {
	var score int64
	for i := range w {
		if d := w[i].find(node.Node); d != nowhere {
			score += w[i].sum[d]
		}
	}
	return score
}

// all sets the scores of nodes.
func (w weights) all(nodes []int32, scores []int64) {
	clear(scores)
	for i := range w {
		of, sum := w[i].of, w[i].sum
		for j, at := range nodes {
			if d := of[at]; d != nowhere {
				scores[j] += sum[d]
			}
		}
	}
}

// termIndex counts pods with equal terms by domain.
type termIndex struct {
	byKey map[termKey]*existingTerm
	all   []*existingTerm
}

type termKey struct {
	key    string
	weight int64
}

// existingTerm is a term of existing pods.
type existingTerm struct {
	*scheduler.AffinityTerm
	*domains
	weight int64
	sum    []int64 // pods by domain
	total  int64   // all of sum
	pods   int64   // pods with the term, in a domain or not
	at     int     // in termIndex.all
}

// add adds pods with a term on a node.
func (x *termIndex) add(t *topology, term *scheduler.AffinityTerm, weight int64, node int, pods int64) {
	key := termKey{term.Key, weight}
	e := x.byKey[key]
	if e == nil {
		if x.byKey == nil {
			x.byKey = map[termKey]*existingTerm{}
		}
		e = &existingTerm{AffinityTerm: term, domains: t.domains(term.TopologyKey), weight: weight, at: len(x.all)}
		x.byKey[key], x.all = e, append(x.all, e)
	}
	e.pods += pods
	if d := e.of[node]; d != nowhere {
		for len(e.sum) < len(e.numbers) {
			e.sum = append(e.sum, 0)
		}
		e.sum[d] += pods
		e.total += pods
	}
	if e.pods == 0 {
		delete(x.byKey, key)
		last := x.all[len(x.all)-1]
		x.all[e.at], last.at = last, e.at
		x.all = x.all[:len(x.all)-1]
	}
}

// selecting returns the terms that select a pod, of a namespace with labels, of pods in some domain.
func (x *termIndex) selecting(pod *corev1.Pod, namespace labels.Set) (terms []*existingTerm) {
	for _, e := range x.all {
		if e.total > 0 && e.Selects(pod, namespace) {
			terms = append(terms, e)
		}
	}
	return terms
}
