// Package garbagecollector is upstream's garbage-collector-controller: objects whose owners are
// all gone are deleted; an owner that is deleted in the foreground waits for its dependents,
// and one that orphans them is taken out of their owner references first.
//
// It keeps a graph of all objects of all kinds that it is given, and nothing of them but their
// metadata. Before it deletes it asks the server, never the graph alone.
package garbagecollector
