package plugins_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/plugins"
)

// reviewer decides by a function, and notes the nodes that it is asked about.
type reviewer struct {
	asked  *[]string
	review func(map[string]plugins.Victims) (map[string]plugins.Victims, error)
}

func (r reviewer) Review(_ context.Context, t *scheduler.Trial, nodes map[string]plugins.Victims) (map[string]plugins.Victims, error) {
	line := t.Pod().Name
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		line += " " + name + ":"
		for _, pod := range nodes[name].Pods {
			line += pod.Name
		}
		line += fmt.Sprint(nodes[name].Violations)
	}
	*r.asked = append(*r.asked, line)
	return r.review(nodes)
}

func TestReviewers(t *testing.T) {
	type answer = func(map[string]plugins.Victims) (map[string]plugins.Victims, error)
	var pods []*corev1.Pod
	var nodes []*corev1.Node
	for i, name := range []string{"a", "b", "c"} {
		nodes = append(nodes, node(name, "cpu", "4", "pods", "9"))
		pods = append(pods, running(t, fmt.Sprintf("%s1 %s 2 %d 0 x", name, name, i)), running(t, fmt.Sprintf("%s2 %s 2 %d 5", name, name, i)))
	}
	agrees := func(nodes map[string]plugins.Victims) (map[string]plugins.Victims, error) { return nodes, nil }
	without := func(names ...string) answer {
		return func(nodes map[string]plugins.Victims) (map[string]plugins.Victims, error) {
			left := maps.Clone(nodes)
			for _, name := range names {
				delete(left, name)
			}
			return left, nil
		}
	}
	with := func(name string, violations int, victims ...*corev1.Pod) answer {
		return func(nodes map[string]plugins.Victims) (map[string]plugins.Victims, error) {
			other := maps.Clone(nodes)
			other[name] = plugins.Victims{Pods: victims, Violations: violations}
			return other, nil
		}
	}
	fails := func(map[string]plugins.Victims) (map[string]plugins.Victims, error) { return nil, errors.New("boom") }
	const all = "vip a:a1a21 b:b1b21 c:c1c21"
	for name, tt := range map[string]struct {
		answers []answer
		want    string
		asked   []string
	}{
		"none":               {nil, "a: a1 a2", nil},
		"agrees":             {[]answer{agrees}, "a: a1 a2", []string{all}},
		"without the first":  {[]answer{without("a")}, "b: b1 b2", []string{all}},
		"one after another":  {[]answer{without("a"), without("b")}, "c: c1 c2", []string{all, "vip b:b1b21 c:c1c21"}},
		"none is left":       {[]answer{without("a", "b", "c"), agrees}, "preemption: no candidate node for preemption", []string{all}},
		"no answer":          {[]answer{func(map[string]plugins.Victims) (map[string]plugins.Victims, error) { return nil, nil }}, "preemption: no candidate node for preemption", []string{all}},
		"fewer victims":      {[]answer{with("a", 1, pods[1])}, "a: a2", []string{all}},
		"in another order":   {[]answer{with("a", 1, pods[1], pods[0])}, "a: a1 a2", []string{all}},
		"of other budgets":   {[]answer{with("c", 0, pods[4], pods[5])}, "c: c1 c2", []string{all}},
		"a new node":         {[]answer{with("d", 0, pods[0])}, "d: a1", []string{all}},
		"a node without any": {[]answer{with("b", 1)}, `preemption: expected at least one victim pod on node "b"`, []string{all}},
		"a failure":          {[]answer{fails, agrees}, "preemption: boom", []string{all}},
		"a later failure":    {[]answer{agrees, fails}, "preemption: boom", []string{all, all}},
	} {
		t.Run(name, func(t *testing.T) {
			var asked []string
			p := plugins.DefaultPreemption{Budgets: following(t, budget("x", "x", 0))}
			for _, answer := range tt.answers {
				p.Reviewers = append(p.Reviewers, reviewer{&asked, answer})
			}
			vip := running(t, "vip - 4 1000 0")
			vip.Spec.NodeName = ""
			if got := preempt(t, p, vip, nodes, pods); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
			if !slices.Equal(asked, tt.asked) {
				t.Errorf("asked %q", asked)
			}
		})
	}
}

// Of equal nodes the choice is the same with reviewers that agree, whose own nodes come last, and where pods have not started
// the order on the node counts.
func TestReviewersAndEquals(t *testing.T) {
	var pods []*corev1.Pod
	var nodes []*corev1.Node
	for i := range 9 {
		name := fmt.Sprint("n", i)
		nodes = append(nodes, node(name, "cpu", "4", "pods", "9"))
		for k := range 3 {
			pods = append(pods, running(t, fmt.Sprintf("p%d%d %s 1 0 -", i, 9-k, name)))
		}
	}
	chosen := map[string]bool{}
	for i := range 12 {
		vip := running(t, fmt.Sprintf("vip%d - 4 1000 0", i))
		vip.Spec.NodeName = ""
		want := preempt(t, plugins.DefaultPreemption{}, vip, nodes, pods)
		var asked []string
		got := preempt(t, plugins.DefaultPreemption{Reviewers: []plugins.Reviewer{reviewer{&asked, func(nodes map[string]plugins.Victims) (map[string]plugins.Victims, error) {
			other := maps.Clone(nodes)
			for _, name := range []string{"a", "b"} {
				other[name] = nodes["n0"]
			}
			return other, nil
		}}}}, vip, nodes, pods)
		node, victims, _ := strings.Cut(got, ":")
		if got != want || victims != strings.ReplaceAll(" p#9 p#8 p#7", "#", node[1:]) {
			t.Errorf("%s: %s, without reviewers %s", vip.Name, got, want)
		}
		chosen[node] = true
	}
	if len(chosen) < 3 {
		t.Errorf("chosen are %v", chosen)
	}
}
