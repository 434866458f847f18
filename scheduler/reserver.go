package scheduler

import (
	"context"

	corev1 "k8s.io/api/core/v1"
)

// Reserver reserves what a pod needs beside its node's resources, such as a license or a volume, between the
// decision and the binding ("Reserve" and "Unreserve" upstream). A Reserver may also implement ReserveSkipper.
//
// Reservers are called in the profile's order, in the goroutine of Scheduler.Run, once a node is chosen and the
// pod counts as being on it. The next pod waits until they have returned, so that the next decision takes their
// reservations into account; they must be quick and leave I/O to a PreBinder.
type Reserver interface {
	Plugin
	// Reserve reserves what a pod needs on the node. The pod is shared and has no spec.nodeName yet. The
	// context ends with Run.
	//
	// The returned undo, unless it is nil, releases the reservation. It is called once, from any goroutine, if
	// the pod is not bound after all, because a later plugin refused it or failed, or because Run ends; undos
	// are called in reverse order. It must not block, and must work after the context has ended. If the pod is
	// bound, it is never called.
	//
	// A *Refusal as the error makes the pod wait for an event that may help (Hinter); it concerns the chosen
	// node only, which is not replaced by another in this attempt. Any other error retries the attempt with
	// back-off. In both cases this plugin has reserved nothing and undo is nil.
	Reserve(ctx context.Context, pod *corev1.Pod, node string) (undo func(), err error)
}

// ReserveSkipper is the part of a Reserver that knows which pods need nothing reserved. Pods that need nothing of any
// Reserver, Permitter and PreBinder are bound as fast as without any of them.
type ReserveSkipper interface {
	// SkipReserve reports whether to skip Reserve for the pod. Like Reserve, it is called in the goroutine of
	// Scheduler.Run and must be quick.
	SkipReserve(pod *corev1.Pod) bool
}

// ReserverFunc returns a Reserver that calls a function.
func ReserverFunc(name string, reserve func(ctx context.Context, pod *corev1.Pod, node string) (undo func(), err error)) Reserver {
	return reserverFunc{name, reserve}
}

type reserverFunc struct {
	name    string
	reserve func(context.Context, *corev1.Pod, string) (func(), error)
}

func (f reserverFunc) Name() string { return f.name }

func (f reserverFunc) Reserve(ctx context.Context, pod *corev1.Pod, node string) (func(), error) {
	return f.reserve(ctx, pod, node)
}
