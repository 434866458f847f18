// Package garbagecollector is upstream's garbage-collector-controller: objects whose owners are
// all gone are deleted; an owner that is deleted in the foreground waits for those of its
// dependents that block it, and one that orphans them is taken out of their owner references
// first.
//
// It keeps a graph of all objects of all kinds that it is given, and nothing of them but their
// metadata. Before it deletes it asks the server, never the graph alone: a reference counts as
// dangling only if the server has no object of that kind, name, namespace and uid. References
// that cannot be judged, to kinds that are not served or from an object without a namespace to
// one with, keep their object alive, as upstream.
//
// A Controller starts no goroutines and is safe for concurrent use by the workers of a Loop. An
// error of Reconcile is one of the server, and is to be retried.
package garbagecollector
