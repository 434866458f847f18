package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/memory"
	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/plugins"
)

// picky is a profile that takes only the node of its own name, after a hint.
func picky(s *server, name string) scheduler.Profile {
	return scheduler.Profile{SchedulerName: name, Plugins: []scheduler.Enabled{
		{Plugin: scheduler.PredicateFunc("Picky", func(_ *corev1.Pod, n *scheduler.NodeInfo) *scheduler.Refusal {
			if n.Name != name {
				return scheduler.Refuse("node(s) were not " + name)
			}
			return nil
		})},
		{Plugin: plugins.DefaultBinder{Client: s}},
	}}
}

func of(name, schedulerName string) *corev1.Pod {
	p := pod(name, "1", "")
	p.Spec.SchedulerName = schedulerName
	return p
}

// TestSeveralProfiles: pods get the profile of their scheduler name, from one queue, and those of others are left alone.
func TestSeveralProfiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, node("a", "4", "8Gi"), node("b", "4", "8Gi"))
		var order []string
		o := scheduler.Options{
			Settle: time.Millisecond, Writes: 1,
			More:       []scheduler.Profile{picky(s, "b"), picky(s, "c")},
			OnDecision: func(d scheduler.Decision) { order = append(order, d.Pod.Name) },
		}
		s.schedule(t, picky(s, "a"), o, func(sched *scheduler.Scheduler) {
			s.pods.Put(of("one", "a"))
			s.pods.Put(of("two", "b"))
			s.pods.Put(important(of("three", "c"), 1))
			s.pods.Put(of("other", "d"))
			after(time.Second)
			same(t, map[string]string{"one": "a", "two": "b", "three": "-", "other": "-"}, s.where())
			same(t, []string{"three", "one", "two"}, order[:3])
			said := strings.Join(s.said(), "\n")
			if want := "three: Warning Scheduling/FailedScheduling 0/2 nodes are available: 2 node(s) were not c."; !strings.Contains(said, want) {
				t.Errorf("%s\nwant %s", said, want)
			}
			if c := sched.Counts(); c.Active+c.Backoff+c.Waiting+c.Gated != 1 {
				t.Errorf("counts %+v", c)
			}
			if d := sched.Explain(of("x", "b")); d.Node != "b" {
				t.Errorf("explained a pod of b: %v", d)
			}
			if d := sched.Explain(of("x", "d")); d.Node != "a" {
				t.Errorf("explained a foreign pod: %v", d)
			}
			s.nodes.Put(node("c", "4", "8Gi"))
			after(time.Minute)
			same(t, "c", s.where()["three"])
		})
	})
}

// TestReporters: events about a pod are from the scheduler that it names.
func TestReporters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, node("a", "4", "8Gi"), node("b", "4", "8Gi"))
		reporters := map[string]string{}
		in := scheduler.Sources{
			Pods: informer.New[*corev1.Pod](s.pods, informer.Options{}), Nodes: informer.New[*corev1.Node](s.nodes, informer.Options{}),
		}
		record := events.Func(func(e events.Event) { reporters[e.Regarding.Name] = e.Reporter })
		sched, err := scheduler.New(in, picky(s, "a"), s, record, scheduler.Options{More: []scheduler.Profile{picky(s, "b")}, Writes: 1})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		for _, run := range []func(context.Context) error{in.Pods.Run, in.Nodes.Run, sched.Run} {
			go func() { _ = run(ctx) }()
		}
		s.pods.Put(of("one", "a"))
		s.pods.Put(of("two", "b"))
		synctest.Wait()
		cancel()
		synctest.Wait()
		same(t, map[string]string{"one": "", "two": "b"}, reporters)
	})
}

// TestProfilesOfOneName: no two profiles may have the same name, nor may a further one be invalid.
func TestProfilesOfOneName(t *testing.T) {
	s := newServer(t)
	in := scheduler.Sources{
		Pods:  informer.New[*corev1.Pod](memory.New[*corev1.Pod](), informer.Options{}),
		Nodes: informer.New[*corev1.Node](memory.New[*corev1.Node](), informer.Options{}),
	}
	for name, more := range map[string]scheduler.Profile{
		"of the first":   picky(s, "a"),
		"without binder": {SchedulerName: "b", Plugins: picky(s, "b").Plugins[:1]},
		"invalid":        {SchedulerName: "b", Plugins: []scheduler.Enabled{{}}},
	} {
		_, err := scheduler.New(in, picky(s, "a"), s, s, scheduler.Options{More: []scheduler.Profile{more}})
		if !errors.Is(err, scheduler.ErrProfile) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := scheduler.New(in, picky(s, "a"), s, s, scheduler.Options{More: []scheduler.Profile{picky(s, "b")}}); err != nil {
		t.Error(err)
	}
}

// everywhere has all roles and notes which are called.
type everywhere struct {
	step
	calls *trace
}

func (e everywhere) Holds(*corev1.Pod) *scheduler.Refusal { _ = e.calls.call("Holds"); return nil }

func (e everywhere) Prepare(*corev1.Pod, *scheduler.Snapshot) (scheduler.Prepared, error) {
	_ = e.calls.call("Prepare")
	return scheduler.Prepared{Nodes: []string{"a", "b"}}, nil
}

func (e everywhere) Check(_ *corev1.Pod, n *scheduler.NodeInfo) *scheduler.Refusal {
	if n.Name == "a" {
		return nil
	}
	return scheduler.Refuse("node(s) were not a")
}

func (e everywhere) Preempt(context.Context, *scheduler.Trial) (*scheduler.Nomination, error) {
	_ = e.calls.call("Preempt")
	return nil, nil
}

// TestWithoutRoles: a plugin has only the roles that its profile gives it.
func TestWithoutRoles(t *testing.T) {
	for name, c := range map[string]struct {
		without scheduler.Roles
		called  string
		node    string
	}{
		"all":                            {0, "Holds Prepare X.Reserve X.Permit X.PreBind X.Bind X.PostBind", "a"},
		"no gate":                        {scheduler.RoleGate, "Prepare X.Reserve X.Permit X.PreBind X.Bind X.PostBind", "a"},
		"no reserver":                    {scheduler.RoleReserver, "Holds Prepare X.Permit X.PreBind X.Bind X.PostBind", "a"},
		"no permitter":                   {scheduler.RolePermitter, "Holds Prepare X.Reserve X.PreBind X.Bind X.PostBind", "a"},
		"no pre- and post-binder":        {scheduler.RolePreBinder | scheduler.RolePostBinder, "Holds Prepare X.Reserve X.Permit X.Bind", "a"},
		"no binder":                      {scheduler.RoleBinder, "Holds Prepare X.Reserve X.Permit X.PreBind X.PostBind", "a"},
		"prepares only":                  {scheduler.RolePredicate, "Holds Prepare X.Reserve X.Permit X.PreBind X.Bind X.PostBind", "a or b"},
		"neither predicate nor prepares": {scheduler.RolePredicate | scheduler.RolePreparer, "Holds X.Reserve X.Permit X.PreBind X.Bind X.PostBind", "any"},
	} {
		synctest.Test(t, func(t *testing.T) {
			tr := &trace{}
			s := newServer(t, node("a", "4", "8Gi"), node("b", "4", "8Gi"), node("c", "4", "8Gi"))
			p := scheduler.Profile{Plugins: []scheduler.Enabled{
				{Plugin: everywhere{step{"X", tr}, tr}, Without: c.without}, {Plugin: plugins.DefaultBinder{Client: s}},
			}}
			var d scheduler.Decision
			s.schedule(t, p, scheduler.Options{OnDecision: func(is scheduler.Decision) { d = is }}, func(*scheduler.Scheduler) {
				s.pods.Put(pod("p", "1", ""))
				synctest.Wait()
			})
			feasible := ""
			for _, v := range d.Feasible() {
				feasible += v.Node
			}
			want := map[string]int{"a": 1, "a or b": 2, "any": 3}[c.node]
			if got := strings.Join(tr.called(), " "); got != c.called || len(feasible) != want {
				t.Errorf("%s: called %s with nodes %s, want %s with %s", name, got, feasible, c.called, c.node)
			}
		})
	}
}

// TestWithoutPreemption: the same for a pod that fits nowhere.
func TestWithoutPreemption(t *testing.T) {
	for without, want := range map[scheduler.Roles]string{0: "Holds Prepare Preempt", scheduler.RolePreemptor: "Holds Prepare"} {
		synctest.Test(t, func(t *testing.T) {
			tr := &trace{}
			s := newServer(t, node("b", "4", "8Gi"))
			p := scheduler.Profile{Plugins: []scheduler.Enabled{
				{Plugin: everywhere{step{"X", tr}, tr}, Without: without}, {Plugin: plugins.DefaultBinder{Client: s}},
			}}
			s.schedule(t, p, scheduler.Options{}, func(*scheduler.Scheduler) {
				s.pods.Put(pod("p", "1", ""))
				synctest.Wait()
			})
			if got := strings.Join(tr.called(), " "); got != want {
				t.Errorf("called %s, want %s", got, want)
			}
		})
	}
}

// winnower refuses nodes by name.
type winnower struct {
	name    string
	refuses string
	err     error
	asked   *[]string
}

func (w winnower) Name() string { return w.name }

func (w winnower) Winnow(_ context.Context, _ *corev1.Pod, nodes []*scheduler.NodeInfo) ([]*scheduler.Refusal, error) {
	refusals := make([]*scheduler.Refusal, len(nodes))
	asked := w.name + ":"
	for i, n := range nodes {
		asked += n.Name
		if strings.Contains(w.refuses, n.Name) {
			refusals[i] = scheduler.Refuse("node(s) were winnowed by " + w.name)
		}
	}
	*w.asked = append(*w.asked, asked)
	if w.refuses == "short" {
		return refusals[1:], nil
	}
	return refusals, w.err
}

func TestWinnowers(t *testing.T) {
	for name, c := range map[string]struct {
		first, second string
		err           error
		nominated     string
		asked         string
		want          string
	}{
		"none refused":       {"", "", nil, "", "[1:abc 2:abc]", "a b c"},
		"some":               {"a", "b", nil, "", "[1:abc 2:bc]", "c"},
		"all by the second":  {"a", "bc", nil, "", "[1:abc 2:bc]", "0/4 nodes are available: 1 node(s) were d, 1 node(s) were winnowed by 1, 2 node(s) were winnowed by 2. [1 2 NotD]"},
		"all by the first":   {"abc", "", nil, "", "[1:abc]", "0/4 nodes are available: 1 node(s) were d, 3 node(s) were winnowed by 1. [1 NotD]"},
		"failure":            {"", "", errors.New("broken"), "", "[1:abc 2:abc]", "broken"},
		"too few decisions":  {"short", "", nil, "", "[1:abc]", `plugin "1" decided about 2 nodes of 3`},
		"nominated":          {"a", "", nil, "b", "[1:b 2:b]", "b"},
		"nominated, refused": {"b", "", nil, "b", "[1:b 1:abc 2:ac]", "a c"},
		"nominated, failure": {"", "", errors.New("broken"), "b", "[1:b 2:b 1:abc 2:abc]", "broken"},
	} {
		var asked []string
		profile := scheduler.Profile{Plugins: []scheduler.Enabled{
			{Plugin: winnower{"1", c.first, nil, &asked}},
			{Plugin: scheduler.PredicateFunc("NotD", func(_ *corev1.Pod, n *scheduler.NodeInfo) *scheduler.Refusal {
				if n.Name == "d" {
					return scheduler.Refuse("node(s) were d")
				}
				return nil
			})},
			{Plugin: winnower{"2", c.second, c.err, &asked}},
		}}
		if err := profile.Validate(); err != nil {
			t.Fatal(err)
		}
		p := pod("p", "1", "")
		p.Status.NominatedNodeName = c.nominated
		nodes := []*corev1.Node{node("a", "4", "8Gi"), node("b", "4", "8Gi"), node("c", "4", "8Gi"), node("d", "4", "8Gi")}
		d := profile.Schedule(p, scheduler.NewSnapshot(nodes, nil))
		var fit *scheduler.FitError
		var got string
		switch {
		case errors.As(d.Err, &fit):
			got = fmt.Sprint(d.Err, " ", fit.RefusedBy)
		case d.Err != nil:
			got = d.Err.Error()
		default:
			var feasible []string
			for _, v := range d.Verdicts {
				if v.Refusal == nil {
					feasible = append(feasible, v.Node)
				}
			}
			got = strings.Join(feasible, " ")
		}
		if got != c.want || fmt.Sprint(asked) != c.asked {
			t.Errorf("%s: %s, asked %v; want %s, asked %s", name, got, asked, c.want, c.asked)
		}
	}
}
