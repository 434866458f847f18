package schedulertest

import (
	"context"
	"errors"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/scheduler"
)

// TestReserver tests a reserver's contract: the same result once everything is undone, undo or an error but not
// both, and an undo that works after the context has ended. It leaves nothing reserved. Tests of a reserver
// with a limited supply should give it enough for a dozen pods at once.
func TestReserver(t T, r scheduler.Reserver) {
	t.Helper()
	name(t, r)
	eachCluster(t, func(t T, c *cluster) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		reserve := func() (answers []string, undo []func()) {
			c.eachPlace(func(pod *corev1.Pod, node string) {
				u, err := r.Reserve(ctx, pod, node)
				if u != nil && err != nil {
					t.Errorf("Reserve of %s fails with %v and returns an undo", pod.Name, err)
				}
				answers = append(answers, outcome(t, err))
				undo = append(undo, u)
			})
			return answers, undo
		}
		back := func(undo []func()) {
			for _, u := range slices.Backward(undo) {
				if u != nil {
					u()
				}
			}
		}
		first, undo := reserve()
		back(undo)
		again, undo := reserve()
		cancel()
		back(undo)
		if !slices.Equal(first, again) {
			t.Errorf("Reserve answers %q, and %q when that is undone", first, again)
		}
		// The undo of one pod runs in another goroutine than the next one's Reserve.
		ctx = context.Background()
		var all sync.WaitGroup
		c.eachPlace(func(pod *corev1.Pod, node string) {
			if u, err := r.Reserve(ctx, pod, node); err == nil && u != nil {
				all.Go(u)
			}
		})
		all.Wait()
		c.unchanged(t)
	})
}

// TestPermitter tests a permitter's contract: a wait or an error but not both, and a wait of its own for each
// pod. The test refuses the waits at its end.
func TestPermitter(t T, p scheduler.Permitter) {
	t.Helper()
	name(t, p)
	eachCluster(t, func(t T, c *cluster) {
		seen := map[*scheduler.Wait]bool{}
		c.eachPlace(func(pod *corev1.Pod, node string) {
			w, err := p.Permit(context.Background(), pod, node)
			outcome(t, err)
			switch {
			case w == nil:
			case err != nil:
				t.Errorf("Permit of %s fails with %v and has it wait", pod.Name, err)
			case seen[w]:
				t.Errorf("Permit of %s returns the Wait of another pod", pod.Name)
			}
			if w != nil {
				seen[w] = true
			}
		})
		for w := range seen {
			w.Refuse("the test is over")
		}
		c.unchanged(t)
	})
}

// TestPreBinder tests a pre-binder's contract: it may be called again after it has succeeded, by many
// goroutines, and returns when its context has ended.
func TestPreBinder(t T, p scheduler.PreBinder) {
	t.Helper()
	name(t, p)
	eachCluster(t, func(t T, c *cluster) {
		skipper, _ := p.(scheduler.PreBindSkipper)
		var all sync.WaitGroup
		c.eachPlace(func(pod *corev1.Pod, node string) {
			all.Go(func() {
				if skipper != nil && skipper.SkipPreBind(pod, node) {
					return
				}
				first := outcome(t, p.PreBind(context.Background(), pod, node))
				if again := outcome(t, p.PreBind(context.Background(), pod, node)); again != first {
					t.Errorf("PreBind of %s says %q, and %q when it is called again", pod.Name, first, again)
				}
				ended, cancel := context.WithCancel(context.Background())
				cancel()
				_ = p.PreBind(ended, pod, node)
			})
		})
		all.Wait()
		c.unchanged(t)
	})
}

// Bound gives TestBinder access to what a binder did.
type Bound interface {
	// Add announces a pod that is to be bound.
	Add(pod *corev1.Pod)
	// Node returns the pod's spec.nodeName, "" if it has none.
	Node(pod *corev1.Pod) string
}

// TestBinder tests a binder's contract, with a new binder in each round: a pod is bound if Bind says so, to
// that node only, and not if it declines or fails; another pod of the same name is not bound instead; it may be
// called by many goroutines, and returns when its context has ended.
func TestBinder(t T, newBinder func() (scheduler.Binder, Bound)) {
	t.Helper()
	eachCluster(t, func(t T, c *cluster) {
		b, cluster := newBinder()
		name(t, b)
		var all sync.WaitGroup
		c.eachPlace(func(pod *corev1.Pod, node string) {
			cluster.Add(pod)
			all.Go(func() { c.bind(t, b, cluster, pod, node) })
		})
		all.Wait()
		c.unchanged(t)
	})
}

func (c *cluster) bind(t T, b scheduler.Binder, cluster Bound, pod *corev1.Pod, node string) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	err := b.Bind(ended, pod, node)
	if at := cluster.Node(pod); err == nil && at != node {
		t.Errorf("Bind of %s to %s returns nil, and it is on %q", pod.Name, node, at)
	} else if at != "" {
		return // bound nonetheless
	}
	other := pod.DeepCopy()
	other.UID += "-other"
	if err := b.Bind(context.Background(), other, node); err == nil {
		t.Errorf("Bind takes a pod of the name of %s for it", pod.Name)
	}
	err = b.Bind(context.Background(), pod, node)
	want := node
	if err != nil {
		want = ""
	}
	if at := cluster.Node(pod); at != want {
		t.Errorf("Bind of %s to %s returns %v, and it is on %q", pod.Name, node, err, at)
	}
	if errors.Is(err, scheduler.ErrDeclined) {
		if again := b.Bind(context.Background(), pod, node); !errors.Is(again, scheduler.ErrDeclined) {
			t.Errorf("Bind declines %s, and then returns %v", pod.Name, again)
		}
		return
	}
	outcome(t, err)
	if err != nil {
		return
	}
	_ = b.Bind(context.Background(), pod, node+"-elsewhere")
	if at := cluster.Node(pod); at != node {
		t.Errorf("%s is moved from %s to %q", pod.Name, node, at)
	}
}

// TestPostBinder tests a post-binder's contract: it may be called by many goroutines, and returns.
func TestPostBinder(t T, p scheduler.PostBinder) {
	t.Helper()
	name(t, p)
	eachCluster(t, func(t T, c *cluster) {
		var all sync.WaitGroup
		c.eachPlace(func(pod *corev1.Pod, node string) {
			all.Go(func() { p.PostBind(context.Background(), pod, node) })
		})
		all.Wait()
		c.unchanged(t)
	})
}

// TestPreemptor tests a preemptor's contract: it nominates existing nodes, its victims are on the node, and it leaves
// the decision and the snapshot unchanged.
func TestPreemptor(t T, p scheduler.Preemptor) {
	t.Helper()
	name(t, p)
	full := scheduler.PredicateFunc("Full", func(_ *corev1.Pod, n *scheduler.NodeInfo) *scheduler.Refusal {
		return &scheduler.Refusal{Reasons: []string{"node(s) were full"}, Unresolvable: len(n.Pods) == 0}
	})
	profile := scheduler.Profile{Plugins: []scheduler.Enabled{{Plugin: full}}}
	eachCluster(t, func(t T, c *cluster) {
		if len(c.nodes) == 0 {
			return
		}
		for _, pod := range c.pods {
			trial := profile.Trial(pod, c.snapshot)
			was := trial.Decision().String()
			n, err := p.Preempt(context.Background(), trial)
			outcome(t, err)
			nominates(t, c, pod, n)
			if trial.Decision().String() != was {
				t.Errorf("the decision about %s was changed", pod.Name)
			}
		}
		c.unchanged(t)
	})
}

func nominates(t T, c *cluster, pod *corev1.Pod, n *scheduler.Nomination) {
	t.Helper()
	if n == nil || n.Node == "" && len(n.Victims) == 0 {
		return
	}
	node := c.snapshot.Node(n.Node)
	if node == nil {
		t.Errorf("%s is nominated for %q, which does not exist", pod.Name, n.Node)
		return
	}
	for _, victim := range n.Victims {
		if !slices.ContainsFunc(node.Pods, func(p *scheduler.PodInfo) bool { return p.Pod == victim }) {
			t.Errorf("a victim of %s, %s, is not on %s", pod.Name, victim.Name, n.Node)
		}
	}
}

// name requires a name that never changes.
func name(t T, p scheduler.Plugin) {
	t.Helper()
	if first, again := p.Name(), p.Name(); first == "" || first != again {
		t.Errorf("Name is %q, then %q", first, again)
	}
}

// eachCluster stops after a cluster on which something failed.
func eachCluster(t T, f func(T, *cluster)) {
	rounds := newRounds(t)
	for c := rounds.next(); c != nil; c = rounds.next() {
		f(rounds, c)
	}
}

// eachPlace calls f for each pod without a node, with one of the nodes if there are any.
func (c *cluster) eachPlace(f func(pod *corev1.Pod, node string)) {
	for i, pod := range c.pods {
		if len(c.nodes) > 0 {
			f(pod, c.nodes[i%len(c.nodes)].Name)
		}
	}
}

// outcome classifies a result: success, refused for some reasons, or failed.
func outcome(t T, err error) string {
	t.Helper()
	var r *scheduler.Refusal
	switch {
	case err == nil:
		return ""
	case !errors.As(err, &r):
		return "failed"
	case r == nil:
		t.Errorf("a nil *Refusal for an error")
		return ""
	}
	checkRefusal(t, r)
	return "refused: " + r.Error()
}
