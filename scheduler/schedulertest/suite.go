package schedulertest

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/keelson-dev/keelson/scheduler"
)

// rounds is how many clusters are generated.
const rounds = 40

// T is the part of testing.TB that the tests need.
type T interface {
	Helper()                           // as in testing.TB
	Errorf(format string, args ...any) // as in testing.TB
}

// TestPredicate tests a predicate's contract.
func TestPredicate(t T, p scheduler.Predicate) {
	t.Helper()
	name(t, p)
	rounds := newRounds(t)
	for c := rounds.next(); c != nil; c = rounds.next() {
		c.checks(rounds, p)
		if g, ok := p.(scheduler.Gate); ok {
			c.gate(rounds, g)
		}
		_, elsewhere := p.(scheduler.Cacher) // whose Check of a node alone says little
		if h, ok := p.(scheduler.Hinter); ok && !elsewhere {
			c.hints(rounds, p, h)
		}
		if c.unchanged(rounds) && !rounds.failed {
			c.planner(rounds, scheduler.Profile{Plugins: []scheduler.Enabled{{Plugin: p}}})
		}
	}
}

// TestPriority tests a priority's contract.
func TestPriority(t T, p scheduler.Priority) {
	t.Helper()
	name(t, p)
	rounds := newRounds(t)
	for c := rounds.next(); c != nil; c = rounds.next() {
		c.scores(rounds, p)
		if c.unchanged(rounds) && !rounds.failed {
			c.planner(rounds, scheduler.Profile{Plugins: []scheduler.Enabled{{Plugin: p, Weight: 1, PriorityOnly: true}}})
		}
	}
}

// counted is a T that stops generating clusters after one on which something failed.
type counted struct {
	T
	seed uint64

	mu     sync.Mutex // for findings from several goroutines
	failed bool
}

func newRounds(t T) *counted { return &counted{T: t} }

func (r *counted) Errorf(format string, args ...any) {
	r.T.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.T.Errorf("cluster %d: "+format, append([]any{r.seed}, args...)...)
	r.failed = true
}

// next returns nil after the last round.
func (r *counted) next() *cluster {
	if r.failed || r.seed == rounds {
		return nil
	}
	r.seed++
	return newCluster(r.seed)
}

// cluster is the objects of one round, with copies of all of them to detect changes.
type cluster struct {
	snapshot        *scheduler.Snapshot
	nodes, nodesWas []*corev1.Node
	pods, podsWas   []*corev1.Pod // without a node
	bound, boundWas []*corev1.Pod
}

func newCluster(seed uint64) *cluster {
	r := rand.New(rand.NewPCG(seed, seed))
	var c cluster
	c.nodes, c.bound, c.pods = RandomCluster(r, r.IntN(7), 12)
	c.snapshot = scheduler.NewSnapshot(c.nodes, c.bound)
	c.nodesWas, c.podsWas, c.boundWas = copies(c.nodes), copies(c.pods), copies(c.bound)
	return &c
}

func copies[T interface{ DeepCopy() T }](objects []T) []T {
	out := make([]T, len(objects))
	for i, o := range objects {
		out[i] = o.DeepCopy()
	}
	return out
}

// same treats nil and empty as equal.
func same(a, b any) bool { return equality.Semantic.DeepEqual(a, b) }

// unchanged fails the test if the objects were changed, or the sums about them, and reports whether they are
// unchanged.
func (c *cluster) unchanged(t T) bool {
	t.Helper()
	if !same(c.nodes, c.nodesWas) || !same(c.pods, c.podsWas) || !same(c.bound, c.boundWas) {
		t.Errorf("a pod or a node was changed")
		return false
	}
	for i, n := range scheduler.NewSnapshot(c.nodesWas, c.boundWas).Nodes() {
		if !same(plain(c.snapshot.Nodes()[i]), plain(n)) {
			t.Errorf("the NodeInfo of %s was changed", n.Name)
			return false
		}
	}
	return true
}

// plain returns a node with its pods' affinities as text, since parsed selectors cannot be compared, and without its
// generation.
func plain(n *scheduler.NodeInfo) []any {
	node := *n
	node.Generation, node.Affine, node.Pods = 0, nil, nil
	all := []any{node}
	for _, p := range n.Pods {
		pod, affinity := *p, p.Affinity
		pod.Affinity = nil
		all = append(all, pod, slices.Contains(n.Affine, p))
		if affinity == nil {
			continue
		}
		for _, terms := range [][]scheduler.AffinityTerm{affinity.Required, affinity.RequiredAnti, affinity.Preferred, affinity.PreferredAnti} {
			for _, term := range terms {
				all = append(all, term.Key, term.Weight)
			}
		}
	}
	return append(all, len(n.Affine))
}

func (c *cluster) checks(t T, p scheduler.Predicate) {
	check := func(pod *corev1.Pod) (verdicts []*scheduler.Refusal) {
		for _, n := range c.snapshot.Nodes() {
			verdicts = append(verdicts, p.Check(pod, n))
		}
		return verdicts
	}
	first := make([][]*scheduler.Refusal, len(c.pods))
	for i, pod := range c.pods {
		first[i] = check(pod)
	}
	if !c.unchanged(t) {
		return
	}
	for i, pod := range c.pods {
		var again [2][]*scheduler.Refusal
		var all sync.WaitGroup
		for j := range again {
			all.Go(func() { again[j] = check(pod) })
		}
		all.Wait()
		if !reflect.DeepEqual(first[i], again[0]) || !reflect.DeepEqual(first[i], again[1]) {
			t.Errorf("Check of %s is not the same each time", pod.Name)
		}
		for _, r := range first[i] {
			checkRefusal(t, r)
		}
		if preparer, ok := p.(scheduler.Preparer); ok {
			if _, elsewhere := p.(scheduler.Cacher); elsewhere {
				c.preparedTogether(t, preparer, pod)
			} else {
				c.prepared(t, p, preparer, pod)
			}
		}
	}
}

func checkRefusal(t T, r *scheduler.Refusal) {
	t.Helper()
	if r == nil {
		return
	}
	if len(r.Reasons) == 0 && r.Err == nil {
		t.Errorf("a refusal without reason or error")
	}
	if slices.Contains(r.Reasons, "") {
		t.Errorf("a refusal with an empty reason")
	}
}

// prepared checks that Prepare gives the same results as Check without it.
func (c *cluster) prepared(t T, p scheduler.Predicate, preparer scheduler.Preparer, pod *corev1.Pod) {
	t.Helper()
	prepared, err := preparer.Prepare(pod, c.snapshot)
	if err != nil {
		return
	}
	checkRefusal(t, prepared.Refusal)
	for _, n := range c.snapshot.Nodes() {
		passes := prepared.Skip || prepared.Refusal == nil && (prepared.Nodes == nil || slices.Contains(prepared.Nodes, n.Name))
		if passes && !prepared.Skip && prepared.Check != nil {
			r := prepared.Check(n)
			checkRefusal(t, r)
			passes = r == nil
		} else if passes && !prepared.Skip {
			continue
		}
		if plain := p.Check(pod, n) == nil; plain != passes {
			t.Errorf("%s on %s: Check passes: %v, as prepared: %v", pod.Name, n.Name, plain, passes)
		}
	}
}

// preparedTogether checks that what Prepare says of all nodes is what it says of each, for a predicate that looks at
// other nodes, too.
func (c *cluster) preparedTogether(t T, preparer scheduler.Preparer, pod *corev1.Pod) {
	t.Helper()
	prepared, err := preparer.Prepare(pod, c.snapshot)
	if err != nil || prepared.Skip || prepared.Refusal != nil {
		return
	}
	for i, n := range c.snapshot.Nodes() {
		each := prepared.Check(n)
		checkRefusal(t, each)
		if prepared.Refusals != nil && !reflect.DeepEqual(each, prepared.Refusals[i]) {
			t.Errorf("%s on %s: %v together with other nodes, %v alone", pod.Name, n.Name, prepared.Refusals[i], each)
		}
	}
}

func (c *cluster) gate(t T, g scheduler.Gate) {
	for _, pod := range c.pods {
		r := g.Holds(pod)
		checkRefusal(t, r)
		if !reflect.DeepEqual(r, g.Holds(pod)) {
			t.Errorf("Holds of %s is not the same each time", pod.Name)
		}
	}
}

// hints looks for events after which a refused pod passes, although MayHelp said that they do not help.
func (c *cluster) hints(t T, p scheduler.Predicate, h scheduler.Hinter) {
	try := func(pod *corev1.Pod, before, after *scheduler.NodeInfo, e scheduler.Event) {
		t.Helper()
		if h.Events()&e.Kind == 0 || !h.MayHelp(pod, e) {
			if (before == nil || p.Check(pod, before) != nil) && p.Check(pod, after) == nil {
				t.Errorf("%s passes on %s after event %+v, which MayHelp said does not help", pod.Name, after.Name, e)
			}
		}
	}
	for _, pod := range c.pods {
		refused := false
		for _, n := range c.snapshot.Nodes() {
			refused = refused || p.Check(pod, n) != nil
		}
		for _, n := range c.snapshot.Nodes() {
			if refused {
				try(pod, nil, scheduler.NewNodeInfo(n.Node), scheduler.Event{Kind: scheduler.NodeAdded, Node: n.Node})
			}
			for _, gone := range n.Pods {
				state := c.snapshot.State()
				state.RemovePod(gone.Pod)
				try(pod, n, state.Snapshot().Node(n.Name), scheduler.Event{Kind: scheduler.AssignedPodDeleted, OldPod: gone.Pod})
			}
			for _, other := range c.nodes {
				node := other.DeepCopy()
				node.Name = n.Name
				change := scheduler.NodeChange(n.Node, node)
				if change == 0 {
					continue
				}
				state := c.snapshot.State()
				state.SetNode(node)
				try(pod, n, state.Snapshot().Node(n.Name), scheduler.Event{
					Kind: scheduler.NodeUpdated, Change: change, OldNode: n.Node, Node: node,
				})
			}
		}
	}
}

// planner checks that cached results equal fresh ones, and that Local signatures are right.
func (c *cluster) planner(t T, profile scheduler.Profile) {
	planner := scheduler.NewPlanner(&profile)
	state := c.snapshot.State()
	for _, pod := range c.pods {
		want, got := profile.Schedule(pod, state.Snapshot()), planner.Schedule(pod, state.Snapshot())
		if want.String() != got.String() {
			t.Errorf("remembered:\n%s\nsaid afresh:\n%s", got, want)
		}
		if got.Node != "" {
			p := pod.DeepCopy()
			p.Spec.NodeName = got.Node
			state.SetPod(p)
		}
	}
}

func (c *cluster) scores(t T, p scheduler.Priority) {
	nodes := c.snapshot.Nodes()
	for _, pod := range c.pods {
		for from := range nodes {
			feasible := nodes[from:]
			first, again := score(pod, p, c.snapshot, feasible), score(pod, p, c.snapshot, feasible)
			if !slices.Equal(first, again) {
				t.Errorf("scores of %s are %v, then %v", pod.Name, first, again)
			}
			if len(first) > len(feasible) {
				t.Errorf("scores of %s are %v together and one by one", pod.Name, first)
				return
			}
			for i, s := range first {
				if s < 0 || s > scheduler.MaxScore {
					t.Errorf("the score of %s on %s is %d", pod.Name, feasible[i].Name, s)
				}
			}
		}
		for _, n := range nodes {
			if first, again := p.Score(pod, n), p.Score(pod, n); first != again {
				t.Errorf("Score of %s on %s is not the same each time", pod.Name, n.Name)
			}
		}
	}
	if l, ok := p.(scheduler.Local); ok {
		for _, pod := range c.pods {
			a, okA := l.Signature(nil, pod)
			b, okB := l.Signature([]byte("x"), pod)
			if okA != okB || okA && !bytes.Equal(append([]byte("x"), a...), b) {
				t.Errorf("Signature of %s does not append", pod.Name)
			}
		}
	}
}

// score calls a priority like the scheduler; it returns nil if the priority fails or skips the pod.
func score(pod *corev1.Pod, p scheduler.Priority, s *scheduler.Snapshot, feasible []*scheduler.NodeInfo) []int64 {
	call := func(n *scheduler.NodeInfo) int64 { return p.Score(pod, n) }
	var together []int64
	if preparer, ok := p.(scheduler.ScorePreparer); ok {
		prepared, err := preparer.PrepareScores(pod, s, slices.Clone(feasible))
		if err != nil || prepared.Skip {
			return nil
		}
		if prepared.Score != nil {
			call = prepared.Score
		}
		together = prepared.Scores
	}
	scores := make([]int64, len(feasible))
	for i, n := range feasible {
		scores[i] = call(n)
	}
	if together != nil && !slices.Equal(together, scores) {
		return append(slices.Clone(together), scores...) // its length says that they differ
	}
	if n, ok := p.(scheduler.Normalizer); ok {
		n.Normalize(pod, scores)
		n.Normalize(pod, nil)
	}
	return scores
}
