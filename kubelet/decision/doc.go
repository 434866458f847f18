// Package decision decides what status a pod has and what a kubelet must do for it. The input is a Situation: the pod,
// its state in the runtime, the results of its probes, its containers' restart back-offs, the stage of its life, and
// the time. The output is a Decision: the status to report, the actions to take, and when to decide again.
//
// A decision is a step, not a plan. The caller carries it out, reads the runtime's state again, and decides again; so a
// kubelet that was restarted, or whose actions failed halfway, can continue from the current state. The rules are those
// of upstream's kubelet at 1.37: what init containers and sidecars wait for, which containers restart after they have
// ended, when a sandbox is replaced, in what order containers stop, the phase, the conditions, and all messages.
//
// A pod is decided on with the resources that it was given. Hold, Wish and Frees are for those who give them; the
// actions put them in force.
//
// It treats rules that restart all containers (KEP-5532) as if they restarted only the container that has ended: a node
// that uses it must reject pods with such rules.
//
// # Errors and concurrency
//
// Everything here is a pure function of its arguments: nothing does I/O, reads a clock, starts a goroutine, retains or
// modifies its arguments, or fails. Only a Backoff has state. Functions may be called concurrently, even with shared
// arguments.
package decision
