package scheduler

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	corev1 "k8s.io/api/core/v1"
)

// Decision says where a pod goes and why: for each node which plugin refused it, or every score.
type Decision struct {
	Pod *corev1.Pod
	// Node is the chosen node's name, empty if there is none.
	Node string
	// Err says why there is no node: a *FitError, ErrNoNodes, or the failure of a predicate or priority.
	Err error
	// Verdicts are about all nodes, sorted by name, as far as the decision got. If the pod goes to the node in
	// its status.nominatedNodeName, they are about that node alone.
	Verdicts []Verdict
	// Preemption is what a Preemptor decided to do for a pod that fits nowhere. Only a Scheduler sets it.
	Preemption *Nomination
}

// Verdict is the result for one node.
type Verdict struct {
	Node string // the node's name
	// RefusedBy is the predicate that refused the node, with Refusal, or empty. If several predicates together
	// restrict the nodes, it is all their names.
	RefusedBy string
	Refusal   *Refusal
	// Scores are in the order of the profile. They are empty for a refused node and for a single feasible one,
	// which is not scored.
	Scores []Score
	Total  int64
}

// Score is one priority's score of a node.
type Score struct {
	Priority string // the plugin's name
	Weight   int64  // factor of the score
	// Skipped means that the priority does not score this pod and adds nothing.
	Skipped bool
	// Raw is the priority's score, Normalized the same between 0 and MaxScore, Weighted its share of the total.
	Raw, Normalized, Weighted int64
}

// Feasible returns the verdicts on feasible nodes, the best total first.
func (d Decision) Feasible() []Verdict {
	var passed []Verdict
	for _, v := range d.Verdicts {
		if v.Refusal == nil {
			passed = append(passed, v)
		}
	}
	slices.SortStableFunc(passed, func(a, b Verdict) int {
		if (a.Node == d.Node) != (b.Node == d.Node) {
			if a.Node == d.Node {
				return -1
			}
			return 1
		}
		return cmp.Compare(b.Total, a.Total)
	})
	return passed
}

// String returns a human-readable table: the outcome in a line, what is preempted, then each feasible node with its scores, the
// best first, then each refused node with the reason.
func (d Decision) String() string {
	var b strings.Builder
	passed := d.Feasible()
	name := ""
	if d.Pod != nil {
		name = d.Pod.Namespace + "/" + d.Pod.Name
	}
	switch {
	case d.Node != "":
		fmt.Fprintf(&b, "%s goes to %s: %d/%d nodes are available\n", name, d.Node, len(passed), len(d.Verdicts))
	case d.Err != nil:
		fmt.Fprintf(&b, "%s goes nowhere: %v\n", name, d.Err)
	default:
		fmt.Fprintf(&b, "%s is undecided\n", name)
	}
	d.writePreemption(&b)
	d.writeScores(&b, passed)
	d.writeRefusals(&b)
	return b.String()
}

func (d Decision) writePreemption(b *strings.Builder) {
	if d.Preemption == nil || d.Preemption.Node == "" {
		return
	}
	fmt.Fprintf(b, "  it is nominated for %s", d.Preemption.Node)
	for i, v := range d.Preemption.Victims {
		b.WriteString([]string{" and preempts ", ", "}[min(i, 1)] + v.Namespace + "/" + v.Name)
	}
	b.WriteString("\n")
}

func (d Decision) writeScores(b *strings.Builder, passed []Verdict) {
	if len(passed) == 0 {
		return
	}
	if len(passed[0].Scores) == 0 {
		for _, v := range passed {
			fmt.Fprintf(b, "  %s passes and was not scored\n", v.Node)
		}
		return
	}
	table := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	var header strings.Builder
	header.WriteString("  NODE\tTOTAL")
	for _, s := range passed[0].Scores {
		header.WriteString("\t" + s.Priority)
		if s.Weight != 1 {
			header.WriteString("×" + strconv.FormatInt(s.Weight, 10))
		}
	}
	fmt.Fprintln(table, header.String())
	for _, v := range passed {
		var row strings.Builder
		fmt.Fprintf(&row, "  %s\t%d", v.Node, v.Total)
		for _, s := range v.Scores {
			switch {
			case s.Skipped:
				row.WriteString("\t-")
			case s.Raw != s.Normalized:
				fmt.Fprintf(&row, "\t%d (%d)", s.Normalized, s.Raw)
			default:
				fmt.Fprintf(&row, "\t%d", s.Normalized)
			}
		}
		fmt.Fprintln(table, row.String())
	}
	_ = table.Flush() // a strings.Builder does not fail
}

func (d Decision) writeRefusals(b *strings.Builder) {
	table := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	header := false
	for _, v := range d.Verdicts {
		if v.Refusal == nil {
			continue
		}
		if !header {
			fmt.Fprintln(table, "  NODE\tREFUSED BY\tREASON\tPREEMPTION")
			header = true
		}
		reason, preemption := strings.Join(v.Refusal.Reasons, ", "), "might help"
		switch {
		case v.Refusal.Err != nil:
			reason, preemption = v.Refusal.Err.Error(), "-"
		case v.Refusal.Unresolvable:
			preemption = "no help"
		}
		fmt.Fprintf(table, "  %s\t%s\t%s\t%s\n", v.Node, v.RefusedBy, reason, preemption)
	}
	_ = table.Flush()
}

// decision returns the results of an evaluation as a Decision.
func (e *evaluation) decision() Decision {
	d := Decision{Pod: e.pod, Err: e.err}
	if e.chosen >= 0 {
		d.Node = e.nodes[e.chosen].Name
	}
	nodes := e.snapshot.nodes
	if e.wholeRefusal != nil {
		by := e.name(e.whole)
		for _, n := range nodes {
			d.Verdicts = append(d.Verdicts, Verdict{Node: n.Name, RefusedBy: by, Refusal: e.wholeRefusal})
		}
		return d
	}
	d.Verdicts = make([]Verdict, e.looked.n)
	for i := range d.Verdicts {
		at := e.looked.from + i
		d.Verdicts[i] = Verdict{Node: nodes[at].Name, Refusal: e.refusals[at]}
		if e.refusals[at] != nil {
			d.Verdicts[i].RefusedBy = e.name(int(e.refusedBy[at]))
		}
	}
	if e.chosen < 0 || len(e.scores.raw) == 0 {
		return d
	}
	scores := make([]Score, len(e.feasible)*len(e.scores.raw))
	for j, i := range e.feasible {
		v := &d.Verdicts[i]
		v.Scores, scores = scores[:len(e.scores.raw):len(e.scores.raw)], scores[len(e.scores.raw):]
		v.Total = e.scores.totals[j]
		for k, w := range e.plugins.priorities {
			s := Score{Priority: w.Name(), Weight: w.weight, Skipped: e.scores.raw[k] == nil}
			if !s.Skipped {
				s.Raw, s.Normalized = e.scores.raw[k][j], e.scores.normalized[k][j]
				s.Weighted = s.Normalized * w.weight
			}
			v.Scores[k] = s
		}
	}
	return d
}
