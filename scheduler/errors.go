package scheduler

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// ErrNoNodes means that the cluster has no nodes.
var ErrNoNodes = errors.New("no nodes available to schedule pods")

// FitError is the error of a Decision when no node can take the pod. Its text is the message of the pod's
// PodScheduled condition and of its FailedScheduling event.
type FitError struct {
	Pod *corev1.Pod
	// Nodes is the number of nodes.
	Nodes int
	// Whole are the reasons that concern the pod rather than its nodes. If there are any, no node was checked.
	Whole []string
	// Reasons counts the refused nodes by reason.
	Reasons map[string]int
	// RefusedBy are the names of the predicates that refused nodes, sorted.
	RefusedBy []string
	// Preemption is what Preemptors say, such as "preemption: 0/3 nodes are available: 3 No preemption victims
	// found for incoming pod." It is empty in the decisions of a Profile or Planner, which call none.
	Preemption string
}

// Error returns upstream's text, such as "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had
// untolerated taint(s)."
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

// fitError returns why no node passed.
func (e *evaluation) fitError() *FitError {
	f := &FitError{Pod: e.pod, Nodes: len(e.snapshot.nodes), RefusedBy: e.rejectors()}
	if e.wholeRefusal != nil {
		f.Whole = e.wholeRefusal.Reasons
		return f
	}
	f.Reasons = map[string]int{}
	// Adjacent nodes tend to be refused for the same reasons, which saves look-ups.
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
