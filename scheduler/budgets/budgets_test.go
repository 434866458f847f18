package budgets_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/memory"
	"github.com/keelson-dev/keelson/scheduler/budgets"
)

func budget(name string, allowed int32, selector *metav1.LabelSelector) *policyv1.PodDisruptionBudget {
	b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}
	b.Spec.Selector, b.Status.DisruptionsAllowed = selector, allowed
	return b
}

func of(key string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{key: "yes"}}
}

// pods returns pods with one label each, "" for none.
func pods(keys ...string) (all []*corev1.Pod) {
	for i, key := range keys {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("p", i)}}
		if key != "" {
			p.Labels = map[string]string{key: "yes"}
		}
		all = append(all, p)
	}
	return all
}

func TestViolated(t *testing.T) {
	no := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}
	without := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: metav1.LabelSelectorOpDoesNotExist}}}
	others := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "z", Operator: metav1.LabelSelectorOpDoesNotExist}}}
	disrupted := budget("b", 0, of("a"))
	disrupted.Status.DisruptedPods = map[string]metav1.Time{"p0": {}}
	elsewhere := budget("b", 0, of("a"))
	elsewhere.Namespace = "other"
	for name, tt := range map[string]struct {
		budgets []*policyv1.PodDisruptionBudget
		pods    []*corev1.Pod
		want    []bool
	}{
		"no budgets":                          {nil, pods("a", ""), []bool{false, false}},
		"used up":                             {[]*policyv1.PodDisruptionBudget{budget("b", 1, of("a"))}, pods("a", "b", "a", "a"), []bool{false, false, true, true}},
		"disrupted already":                   {[]*policyv1.PodDisruptionBudget{disrupted}, pods("a", "a"), []bool{false, true}},
		"of another namespace":                {[]*policyv1.PodDisruptionBudget{elsewhere}, pods("a"), []bool{false}},
		"none selected":                       {[]*policyv1.PodDisruptionBudget{budget("b", 0, nil), budget("c", 0, &metav1.LabelSelector{})}, pods("a"), []bool{false}},
		"invalid":                             {[]*policyv1.PodDisruptionBudget{budget("b", 0, no)}, pods("a"), []bool{false}},
		"a pod without labels":                {[]*policyv1.PodDisruptionBudget{budget("b", 0, without)}, pods("", "b"), []bool{false, true}},
		"two":                                 {[]*policyv1.PodDisruptionBudget{budget("b", 2, of("a")), budget("c", 1, of("a"))}, pods("a", "a"), []bool{false, true}},
		"the first by name spares the others": {[]*policyv1.PodDisruptionBudget{budget("c", 1, others), budget("b", 0, of("a"))}, pods("a", "b"), []bool{true, false}},
		"the first by name ends":              {[]*policyv1.PodDisruptionBudget{budget("c", 1, of("a")), budget("b", 0, of("a")), budget("d", 0, of("b"))}, pods("a", "a", "b"), []bool{true, true, true}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, budgets.Of(tt.budgets...).Violated(tt.pods)); diff != "" {
				t.Error(diff)
			}
		})
	}
	var none *budgets.Set
	if diff := cmp.Diff([]bool{false}, none.Violated(pods("a"))); diff != "" {
		t.Error(diff)
	}
}

// Current follows the informer, and returns the same set as long as nothing changes.
func TestCurrent(t *testing.T) {
	in := informer.New[*policyv1.PodDisruptionBudget](memory.New[*policyv1.PodDisruptionBudget](), informer.Options{})
	b := budgets.New(in)
	version := 0
	put := func(pdb *policyv1.PodDisruptionBudget) {
		version++
		pdb.ResourceVersion = fmt.Sprint(version)
		in.Put(pdb)
	}
	want := func(want ...bool) {
		t.Helper()
		if diff := cmp.Diff(want, b.Current().Violated(pods("a", "b"))); diff != "" {
			t.Error(diff)
		}
		if first := b.Current(); first != b.Current() {
			t.Error("the set is made again")
		}
	}
	want(false, false)
	put(budget("x", 0, of("a")))
	want(true, false)
	put(budget("x", 1, of("a")))
	want(false, false)
	put(budget("x", 0, of("b")))
	want(false, true)
	put(budget("y", 0, of("a")))
	want(true, true)
	in.Drop("default", "x")
	put(budget("y", 0, of("a")))
	want(true, false)
	before := b.Current()
	put(budget("z", 0, of("b")))
	in.Drop("default", "z")
	if b.Current() != before {
		t.Error("the set is made again when all is as it was")
	}
}

func TestWaitSynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := informer.New[*policyv1.PodDisruptionBudget](memory.New[*policyv1.PodDisruptionBudget](), informer.Options{})
		b := budgets.New(in)
		b.Watch(nil)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := b.WaitSynced(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("before it runs: %v", err)
		}
		go func() { _ = in.Run(t.Context()) }()
		if err := b.WaitSynced(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func Example() {
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	set := budgets.Of(&policyv1.PodDisruptionBudget{
		Spec:   policyv1.PodDisruptionBudgetSpec{Selector: selector},
		Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 1},
	})
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: selector.MatchLabels}}
	fmt.Println(set.Violated([]*corev1.Pod{pod, pod}))
	// Output: [false true]
}
