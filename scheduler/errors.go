package scheduler

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// ErrNoNodes: there is no node at all.
var ErrNoNodes = errors.New("no nodes available to schedule pods")

// FitError is the error of a Decision when no node can take the pod. Its text is what the pod's
// PodScheduled condition and its FailedScheduling event say.
type FitError struct {
	Pod *corev1.Pod
	// Nodes is how many nodes there are.
	Nodes int
	// Whole are the reasons that concern the pod rather than its nodes. When there are any, no
	// node was looked at.
	Whole []string
	// Reasons are how many nodes were refused for each reason.
	Reasons map[string]int
	// RefusedBy are the names of the predicates behind the reasons, sorted.
	RefusedBy []string
	// Preemption is what an attempt to make room came to. Upstream's default preemption writes
	// "preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod."
	// there. Without preemption, as with an upstream profile that has no PostFilter plugin, it
	// is empty and the text ends after the reasons.
	Preemption string
}

// Error is upstream's text, such as
// "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint(s)."
func (f *FitError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "0/%d nodes are available:", f.Nodes)
	if len(f.Whole) > 0 {
		fmt.Fprintf(&b, " %s.", strings.Join(f.Whole, ", "))
	} else if len(f.Reasons) > 0 {
		counted := make([]string, 0, len(f.Reasons))
		for reason, n := range f.Reasons {
			counted = append(counted, fmt.Sprintf("%d %s", n, reason))
		}
		slices.Sort(counted)
		fmt.Fprintf(&b, " %s.", strings.Join(counted, ", "))
	}
	if f.Preemption != "" {
		b.WriteString(" " + f.Preemption)
	}
	return b.String()
}

// fitError says why no node passed.
func (e *evaluation) fitError() *FitError {
	f := &FitError{Pod: e.pod, Nodes: len(e.snapshot.nodes), RefusedBy: e.rejectors()}
	if e.wholeRefusal != nil {
		f.Whole = e.wholeRefusal.Reasons
		return f
	}
	f.Reasons = map[string]int{}
	// Nodes side by side tend to be refused for the same reasons, which spares looking those up.
	var reasons []string
	run := 0
	flush := func() {
		for _, reason := range reasons {
			f.Reasons[reason] += run
		}
		run = 0
	}
	for _, r := range e.refusals {
		if !slices.Equal(r.Reasons, reasons) {
			flush()
			reasons = r.Reasons
		}
		run++
	}
	flush()
	return f
}
