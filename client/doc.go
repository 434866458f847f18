// Package client is access to an API server: one interface per verb, composed into [Client].
//
// Consumers ask for the narrowest part they need (a scheduler that binds takes a [Creator]),
// so that a test can answer with a few lines. Package rest below implements Client over the
// wire with client-go's REST client, which works over a listener and in process alike.
//
// A [Target] names what a request is about by its resource, not by its Go type; [As] puts the
// type back:
//
//	pod, err := client.As[*corev1.Pod](c.Get(ctx, target))
//
// What a command such as kubectl does before and after a request are packages of their own, each
// for itself: kubeconfig finds the server and the credentials, generate makes the objects and manifest
// reads them from files, discovery finds the resource and version that the server takes them under, printer shows
// what came back, and message tells what went wrong. Package faults puts failures in front of a Client, for tests, and
// clienttest is the suite that every Client passes.
//
// # Errors
//
// Implementations return the errors of k8s.io/apimachinery/pkg/api/errors, possibly wrapped, so
// apierrors.IsNotFound, IsConflict and the others tell what happened. A request that was not
// answered returns what the transport failed with; whether a write took effect is unknown then.
//
// # Concurrency
//
// A Client is safe for concurrent use and starts no goroutines. Objects given to it are only
// read, so shared ones may be passed; objects it returns are the caller's.
package client
