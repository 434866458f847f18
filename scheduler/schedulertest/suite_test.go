package schedulertest_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/plugins"
	"github.com/keelson-dev/keelson/scheduler/schedulertest"
)

func TestDefaults(t *testing.T) {
	tested := 0
	for _, e := range plugins.Default() {
		if p, ok := e.Plugin.(scheduler.Predicate); ok {
			tested++
			t.Run("predicate "+p.Name(), func(t *testing.T) { schedulertest.TestPredicate(t, p) })
		}
		if p, ok := e.Plugin.(scheduler.Priority); ok {
			tested++
			t.Run("priority "+p.Name(), func(t *testing.T) { schedulertest.TestPriority(t, p) })
		}
	}
	if tested != 24 {
		t.Errorf("there are %d predicates and priorities", tested)
	}
}

func TestMostAllocated(t *testing.T) {
	schedulertest.TestPriority(t, plugins.NodeResourcesFit{Scoring: plugins.Scoring{Strategy: plugins.MostAllocated}})
}

func TestFuncs(t *testing.T) {
	schedulertest.TestPredicate(t, scheduler.PredicateFunc("odd", func(_ *corev1.Pod, n *scheduler.NodeInfo) *scheduler.Refusal {
		if len(n.Pods)%2 == 1 {
			return scheduler.Refuse("node(s) had an odd number of pods")
		}
		return nil
	}))
	schedulertest.TestPriority(t, scheduler.PriorityFunc("fewest", func(_ *corev1.Pod, n *scheduler.NodeInfo) int64 {
		return scheduler.MaxScore / int64(1+len(n.Pods))
	}))
}

// recorder records the findings of the suite.
type recorder struct{ found []string }

func (*recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) {
	r.found = append(r.found, fmt.Sprintf(format, args...))
}

// sloppy breaks a rule of the contract, by name.
type sloppy struct {
	rule  string
	calls *int
}

func (s sloppy) Name() string {
	if s.rule == "Name is" {
		return ""
	}
	return "sloppy"
}

func (s sloppy) Check(pod *corev1.Pod, n *scheduler.NodeInfo) *scheduler.Refusal {
	switch s.rule {
	case "not the same each time":
		if *s.calls++; *s.calls%3 == 0 {
			return scheduler.Refuse("moody")
		}
	case "was changed":
		if pod.Annotations == nil {
			pod.Annotations = map[string]string{"seen": "yes"}
		}
	case "without reason":
		return &scheduler.Refusal{}
	case "said does not help":
		if len(n.Pods) > 1 {
			return scheduler.Refuse("crowded")
		}
	case "remembered":
		if strings.HasSuffix(pod.Name, "-twin") {
			return scheduler.Refuse("twins")
		}
	}
	return nil
}

func (s sloppy) Score(_ *corev1.Pod, n *scheduler.NodeInfo) int64 {
	switch s.rule {
	case "the score of":
		return int64(len(n.Pods)) - 1
	case "was changed":
		n.NonZeroMemory++
	case "then":
		*s.calls++
		return int64(*s.calls) % 7
	}
	return 0
}

type hinting struct{ sloppy }

func (hinting) Events() scheduler.EventKind                      { return scheduler.AssignedPodDeleted }
func (hinting) MayHelp(*corev1.Pod, scheduler.Event) bool        { return false }
func (hinting) Signature(b []byte, _ *corev1.Pod) ([]byte, bool) { return b, true }

func TestSuiteFindsPredicates(t *testing.T) {
	for _, rule := range []string{"Name is", "was changed", "without reason", "said does not help", "remembered"} {
		var r recorder
		schedulertest.TestPredicate(&r, hinting{sloppy{rule, new(int)}})
		if !strings.Contains(strings.Join(r.found, "\n"), rule) {
			t.Errorf("a predicate against %q was found to %q", rule, r.found)
		}
	}
}

func TestSuiteFindsPriorities(t *testing.T) {
	for _, rule := range []string{"Name is", "was changed", "the score of", "then"} {
		var r recorder
		schedulertest.TestPriority(&r, sloppy{rule, new(int)})
		if !strings.Contains(strings.Join(r.found, "\n"), rule) {
			t.Errorf("a priority against %q was found to %q", rule, r.found)
		}
	}
}
