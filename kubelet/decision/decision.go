package decision

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Stage is a stage in a pod's life. It only moves forward.
type Stage int

// The stages of a pod's life.
const (
	Running     Stage = iota // the pod runs according to its spec
	Terminating              // everything that runs is stopped
	Over                     // nothing runs any more or ever will
)

// Situation is the input of a decision about a pod. It is only read.
type Situation struct {
	Pod   *corev1.Pod
	Stage Stage
	// Previous is the status of the last decision, or the one in the API.
	Previous corev1.PodStatus
	Observed Observation
	// Waiting says why containers could not be started, by their names.
	Waiting map[string]Waiting
	// Probes returns the last result of a probe of a container instance; nil knows of none.
	Probes func(containerID string, k ProbeKind) ProbeResult
	// Backoff holds the restart back-offs of containers, by BackoffKey; nil has none.
	Backoff *Backoff
	// Disruption, if set, is the condition added to a pod that is evicted. MaxGrace limits its grace period, in
	// seconds; 0 does not.
	Disruption *corev1.PodCondition
	MaxGrace   int64
	Resize     Resize
	Node       Node
	Now        time.Time
}

// Node is what statuses contain about the node.
type Node struct {
	// HostIPs are the node's addresses, at most two.
	HostIPs []string
	// Runtime is the name of the container runtime, the prefix of container IDs.
	Runtime string
}

// Waiting is why a container that should run does not.
type Waiting struct{ Reason, Message string } // as in the container's status

// ProbeKind is the kind of a probe, as messages name it.
type ProbeKind string

// The kinds of probes.
const (
	Readiness ProbeKind = "Readiness"
	Liveness  ProbeKind = "Liveness"
	Startup   ProbeKind = "Startup"
)

// ProbeResult is the result of a probe, as far as it is known.
type ProbeResult int

// The results of probes.
const (
	ProbeUnknown ProbeResult = iota // no result yet, or no such probe
	ProbeSuccess
	ProbeFailure
)

// Decision is the status to report for a pod, and what to do.
type Decision struct {
	// Status is what to report.
	Status corev1.PodStatus
	// Stage is the situation's, or Terminating if the status says that the pod has ended; what to do then is left to
	// the next decision.
	Stage   Stage
	Actions Actions
	// Again is when to decide again although nothing has changed; the zero time means never.
	Again time.Time
}

// Decide decides about a pod.
func Decide(s Situation) Decision {
	in := &s
	d := Decision{Status: in.status(), Stage: in.Stage}
	switch {
	case in.Stage == Over:
	case in.Stage == Terminating:
		in.endAll(&d.Actions)
	case Terminal(d.Status.Phase):
		d.Stage = Terminating
	default:
		d.Actions = in.actions(&d.Status)
		d.Again = in.again(d)
	}
	return d
}

// again is the earliest of the pod's deadline and the ends of its containers' back-offs.
func (in *Situation) again(d Decision) time.Time {
	at, _ := deadline(in.Pod, d.Status.StartTime)
	for _, st := range d.Actions.Start {
		if !st.Until.IsZero() && (at.IsZero() || st.Until.Before(at)) {
			at = st.Until
		}
	}
	return at
}

func (in *Situation) probe(id string, k ProbeKind) ProbeResult {
	if in.Probes == nil {
		return ProbeUnknown
	}
	return in.Probes(id, k)
}

// grace is how many seconds the pod's containers get to exit by themselves.
func (in *Situation) grace() int64 {
	if in.MaxGrace > 0 {
		return min(Grace(in.Pod), in.MaxGrace)
	}
	return Grace(in.Pod)
}

// Grace returns how many seconds a pod's containers get to exit by themselves.
func Grace(pod *corev1.Pod) int64 {
	grace := int64(0)
	switch {
	case pod.DeletionGracePeriodSeconds != nil:
		grace = *pod.DeletionGracePeriodSeconds
	case pod.Spec.TerminationGracePeriodSeconds != nil:
		grace = *pod.Spec.TerminationGracePeriodSeconds
	}
	return max(grace, 1)
}
