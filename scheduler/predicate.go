package scheduler

import (
	corev1 "k8s.io/api/core/v1"
)

// Predicate says which nodes can take a pod ("Filter" upstream). A predicate may also
// implement Preparer, Gate, Hinter and Local.
//
// Implementations are safe for concurrent use, change neither the pod nor the node, and answer
// the same question always the same way.
type Predicate interface {
	// Name tells predicates apart: no two of a profile share one.
	Name() string
	// Check returns nil when the node can take the pod, and why not otherwise.
	Check(pod *corev1.Pod, node *NodeInfo) *Refusal
}

// Preparer is the part of a Predicate that looks at the pod once, before any node ("PreFilter"
// upstream).
type Preparer interface {
	// Prepare returns how to check nodes for this pod. An error fails the attempt; it is
	// retried with back-off.
	Prepare(pod *corev1.Pod, s *Snapshot) (Prepared, error)
}

// Prepared is what a Preparer found out about a pod. The zero value checks every node with the
// predicate's own Check.
type Prepared struct {
	// Skip: there is nothing to check for this pod.
	Skip bool
	// Refusal, when set, refuses the pod on every node.
	Refusal *Refusal
	// Nodes, when not nil, names the only nodes that come into question.
	Nodes []string
	// Check, when set, takes the place of the predicate's Check for this pod.
	Check func(node *NodeInfo) *Refusal
}

// Gate is the part of a Predicate that keeps pods from being tried at all ("PreEnqueue"
// upstream).
type Gate interface {
	// Holds returns why the pod is not to be tried yet, or nil. It is asked again when the pod
	// changes, as its Hinter says.
	Holds(pod *corev1.Pod) *Refusal
}

// Hinter is the part of a Predicate that knows which events may let a pod pass that it refused
// ("EventsToRegister" and queueing hints upstream). Without it every event has the pod tried
// again.
type Hinter interface {
	// Events returns the kinds of events that MayHelp wants to be asked about.
	Events() EventKind
	// MayHelp says whether the pod, which this predicate refused, deserves another try.
	MayHelp(pod *corev1.Pod, e Event) bool
}

// Local is the part of a Predicate or Priority whose answers depend on nothing but the node's
// NodeInfo and those fields of the pod that its signature is made of. What it says about a
// node is remembered for all pods of one signature until the node changes. It must not look at
// the Snapshot in Prepare, nor at the snapshot and the feasible nodes in PrepareScores.
type Local interface {
	// Signature appends the fields to b, in a form that differs when they differ. It returns
	// false for a pod whose answers must not be remembered.
	Signature(b []byte, pod *corev1.Pod) ([]byte, bool)
}

// Refusal is why a predicate refuses a node. It may be shared: nobody changes it.
type Refusal struct {
	// Reasons are phrases that make sense behind a number of nodes, such as
	// "Insufficient cpu" or "node(s) were unschedulable".
	Reasons []string
	// Unresolvable: removing pods from the node would not help, so preemption need not try
	// ("UnschedulableAndUnresolvable" upstream).
	Unresolvable bool
	// Err, when set, says that the check itself failed. The attempt ends with it and is retried
	// with back-off.
	Err error
}

// Refuse is a refusal for the given reasons that removing pods from the node might lift.
func Refuse(reasons ...string) *Refusal { return &Refusal{Reasons: reasons} }

// PredicateFunc is a Predicate made of a function.
func PredicateFunc(name string, check func(pod *corev1.Pod, node *NodeInfo) *Refusal) Predicate {
	return predicateFunc{name, check}
}

type predicateFunc struct {
	name  string
	check func(*corev1.Pod, *NodeInfo) *Refusal
}

func (f predicateFunc) Name() string                                   { return f.name }
func (f predicateFunc) Check(pod *corev1.Pod, node *NodeInfo) *Refusal { return f.check(pod, node) }
