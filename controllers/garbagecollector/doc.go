// Package garbagecollector is upstream's garbage-collector-controller. It deletes objects whose owners are all gone. An
// owner deleted in the foreground waits for the dependents that block its deletion; one that orphans its dependents is
// first removed from their owner references.
//
// The controller keeps a graph of all objects of the given kinds, with only their metadata. Before it deletes an object
// it asks the server and never relies on the graph alone: a reference is dangling only if the server has no object of
// that kind, name, namespace and uid. References that cannot be resolved (to kinds that are not served, or from an
// object without a namespace to one with a namespace) keep their object alive, as upstream.
//
// A Controller starts no goroutines and is safe for concurrent use by the workers of a Loop. Reconcile returns errors
// of the server, which are retried.
package garbagecollector
