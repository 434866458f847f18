package scheduler

import (
	"errors"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Predicate decides which nodes can take a pod ("Filter" upstream). A predicate may also implement Preparer and
// Local.
//
// Implementations must be safe for concurrent use, change neither the pod nor the node, and be deterministic.
type Predicate interface {
	Plugin
	// Check returns nil if the node can take the pod, and otherwise why not.
	Check(pod *corev1.Pod, node *NodeInfo) *Refusal
}

// Preparer is the part of a Predicate that examines the pod once, before any node ("PreFilter" upstream).
type Preparer interface {
	// Prepare returns how to check nodes for this pod. An error fails the attempt; it is retried with back-off.
	Prepare(pod *corev1.Pod, s *Snapshot) (Prepared, error)
}

// Prepared is the result of a Preparer for a pod. The zero value checks every node with the predicate's own
// Check.
type Prepared struct {
	// Skip means that there is nothing to check for this pod.
	Skip bool
	// Refusal, if set, refuses the pod on every node.
	Refusal *Refusal
	// Nodes, if not nil, names the only eligible nodes.
	Nodes []string
	// Check, if set, replaces the predicate's Check for this pod.
	Check func(node *NodeInfo) *Refusal
	// CheckChanged, if set, checks a node whose pods are not those in the snapshot: with pods that are nominated
	// for it, or without victims of a preemption ("AddPod" and "RemovePod" of a PreFilter upstream). was is the
	// node in the snapshot, is the same node with other pods; all other nodes are as in the snapshot. Without
	// it, Prepare is called again with a snapshot of that state, unless the predicate is Local: then Check
	// suffices.
	CheckChanged func(was, is *NodeInfo) *Refusal
	// Refusals, if not nil, are the results of Check for all nodes of the snapshot, in its order: for predicates
	// that find them faster together. The slice is read until the next call of Prepare.
	Refusals []*Refusal
}

// preparingPredicate is a predicate that examines the pod first.
type preparingPredicate interface {
	Predicate
	Preparer
}

// preparingOnly is a predicate that examines the pod, but checks no node.
type preparingOnly struct{ preparingPredicate }

func (preparingOnly) Check(*corev1.Pod, *NodeInfo) *Refusal { return nil }

func (p preparingOnly) Prepare(pod *corev1.Pod, s *Snapshot) (Prepared, error) {
	prepared, err := p.preparingPredicate.Prepare(pod, s)
	prepared.Check, prepared.Refusals = func(*NodeInfo) *Refusal { return nil }, nil
	prepared.CheckChanged = func(_, _ *NodeInfo) *Refusal { return nil }
	return prepared, err
}

// ByNode returns the result of a Preparer whose check depends on the node alone, and on no other nodes of the
// snapshot.
func ByNode(check func(node *NodeInfo) *Refusal) Prepared {
	return Prepared{Check: check, CheckChanged: func(_, is *NodeInfo) *Refusal { return check(is) }}
}

// Gate is the part of a plugin that keeps pods from being tried at all ("PreEnqueue" upstream).
type Gate interface {
	// Holds returns why the pod must not be tried yet, or nil. It is called again when the pod changes,
	// according to its Hinter.
	Holds(pod *corev1.Pod) *Refusal
}

// Hinter is the part of a plugin that knows which events may let a pod pass that it refused ("EventsToRegister"
// and queueing hints upstream). Without it, the pod is retried after every event.
type Hinter interface {
	// Events returns the kinds of events for which MayHelp is called.
	Events() EventKind
	// MayHelp reports whether to retry the pod, which this plugin refused, after the event.
	MayHelp(pod *corev1.Pod, e Event) bool
}

// Refusal is why a pod is refused: a node by a predicate, or the chosen node by a later plugin, which returns
// it as its error. It may be shared and must not be changed.
type Refusal struct {
	// Reasons are phrases to follow a number of nodes, such as "Insufficient cpu" or "node(s) were
	// unschedulable".
	Reasons []string
	// Unresolvable means that removing pods from the node would not help, so preemption need not try
	// ("UnschedulableAndUnresolvable" upstream).
	Unresolvable bool
	// Err, if set, means that the check itself failed. The attempt ends with it and is retried with back-off.
	Err error
}

// Refuse returns a refusal for the given reasons that removing pods from the node might resolve.
func Refuse(reasons ...string) *Refusal { return &Refusal{Reasons: reasons} }

// Error returns the reasons, separated by commas, or the text of Err.
func (r *Refusal) Error() string {
	switch {
	case r == nil:
		return ""
	case r.Err != nil:
		return r.Err.Error()
	}
	return strings.Join(r.Reasons, ", ")
}

// Unwrap returns Err.
func (r *Refusal) Unwrap() error { return r.Err }

// refusal splits the error of a plugin into a refusal or a failure. A nil *Refusal in an error is neither.
func refusal(err error) (*Refusal, error) {
	var r *Refusal
	if !errors.As(err, &r) {
		return nil, err
	}
	if r != nil && r.Err != nil {
		return nil, err
	}
	return r, nil
}

// PredicateFunc returns a Predicate that calls a function.
func PredicateFunc(name string, check func(pod *corev1.Pod, node *NodeInfo) *Refusal) Predicate {
	return predicateFunc{name, check}
}

type predicateFunc struct {
	name  string
	check func(*corev1.Pod, *NodeInfo) *Refusal
}

func (f predicateFunc) Name() string                                   { return f.name }
func (f predicateFunc) Check(pod *corev1.Pod, node *NodeInfo) *Refusal { return f.check(pod, node) }
