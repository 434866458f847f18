// Package budgets knows the cluster's pod disruption budgets, and which of the pods that a scheduler may preempt have
// one that does not allow it.
//
// A Budgets reads an informer; Current returns what it knows at the moment as a Set, which does not change. Of makes
// a Set of given budgets, for what-if questions.
//
// # Errors
//
// There are none: a budget with an invalid selector matches no pods, as upstream.
//
// # Concurrency
//
// All methods may be called from any goroutine.
package budgets

import (
	"cmp"
	"context"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/scheduler"
)

// Budgets knows the budgets of a cluster. It implements scheduler.Objects. Make one with New.
type Budgets struct {
	in *informer.Informer[*policyv1.PodDisruptionBudget]

	mu      sync.Mutex // guards the rest
	current *Set
	version string // of the informer when current was made
}

// New returns a Budgets that reads an informer, which the caller runs. It starts nothing.
func New(in *informer.Informer[*policyv1.PodDisruptionBudget]) *Budgets {
	return &Budgets{in: in, current: newSet(nil)}
}

// Watch implements scheduler.Objects. No change of a budget lets a pod fit that did not fit before.
func (b *Budgets) Watch(func(scheduler.Event)) {}

// WaitSynced implements scheduler.Objects.
func (b *Budgets) WaitSynced(ctx context.Context) error { return b.in.WaitSynced(ctx) }

// Current returns the budgets as they are. As long as nothing changes, it returns the same Set.
func (b *Budgets) Current() *Set {
	b.mu.Lock()
	defer b.mu.Unlock()
	version := b.in.LastVersion()
	if version != "" && version == b.version {
		return b.current
	}
	b.version = version
	known := map[types.UID]*budget{}
	for _, namespace := range b.current.of {
		for _, one := range namespace {
			known[one.UID] = one
		}
	}
	all, changed := []*budget{}, 0
	for _, pdb := range b.in.List("") {
		old := known[pdb.UID]
		if old == nil || old.PodDisruptionBudget != pdb {
			changed++
			old = newBudget(pdb, old)
		}
		all = append(all, old)
	}
	if changed > 0 || len(all) != len(known) {
		b.current = newSet(all)
	}
	return b.current
}

// budget is one budget with its selector.
type budget struct {
	*policyv1.PodDisruptionBudget
	selector labels.Selector // nil if it matches nothing
}

// newBudget returns a budget, with the selector of its former state if that is the same.
func newBudget(pdb *policyv1.PodDisruptionBudget, old *budget) *budget {
	if old != nil && equality.Semantic.DeepEqual(old.Spec.Selector, pdb.Spec.Selector) {
		return &budget{pdb, old.selector}
	}
	selector, err := metav1.LabelSelectorAsSelector(pdb.Spec.Selector)
	if err != nil || selector.Empty() {
		selector = nil // unlike elsewhere, an empty one matches nothing here
	}
	return &budget{pdb, selector}
}

// Set is the budgets at one moment. nil is without any.
type Set struct {
	of map[string][]*budget // by namespace, in the order of their names
}

// Of returns a set of budgets.
func Of(pdbs ...*policyv1.PodDisruptionBudget) *Set {
	all := make([]*budget, len(pdbs))
	for i, pdb := range pdbs {
		all[i] = newBudget(pdb, nil)
	}
	return newSet(all)
}

func newSet(all []*budget) *Set {
	slices.SortFunc(all, func(a, b *budget) int { return cmp.Compare(a.Name, b.Name) })
	s := &Set{of: map[string][]*budget{}}
	for _, one := range all {
		s.of[one.Namespace] = append(s.of[one.Namespace], one)
	}
	return s
}

// Violated reports for each pod whether its removal violates a budget, if the pods before it are removed as well. Each
// pod uses one of the disruptions that each of its budgets allows. A pod that a budget counts as disrupted already uses
// none. Pods without labels have no budgets.
func (s *Set) Violated(pods []*corev1.Pod) []bool {
	violated := make([]bool, len(pods))
	if s == nil || len(s.of) == 0 {
		return violated
	}
	used := map[*budget]int32{}
	for i, pod := range pods {
		violated[i] = s.violates(pod, used)
	}
	return violated
}

// violates counts a pod among those removed. Like upstream, it stops at the first budget that does not allow it.
func (s *Set) violates(pod *corev1.Pod, used map[*budget]int32) bool {
	if len(pod.Labels) == 0 {
		return false
	}
	for _, b := range s.of[pod.Namespace] {
		if b.selector == nil || !b.selector.Matches(labels.Set(pod.Labels)) {
			continue
		}
		if _, disrupted := b.Status.DisruptedPods[pod.Name]; disrupted {
			continue
		}
		used[b]++
		if used[b] > b.Status.DisruptionsAllowed {
			return true
		}
	}
	return false
}
