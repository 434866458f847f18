package controllers

import (
	"context"
	"time"
)

// Key identifies one object to reconcile. Namespace is empty for cluster-scoped kinds.
type Key struct{ Namespace, Name string }

// String is namespace/name, or the name of a cluster-scoped object.
func (k Key) String() string {
	if k.Namespace == "" {
		return k.Name
	}
	return k.Namespace + "/" + k.Name
}

// KeyOf is the key of an object.
func KeyOf(obj interface {
	GetNamespace() string
	GetName() string
}) Key {
	return Key{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// Queue collects keys to reconcile. A key that is already queued is not queued twice, and a key is never reconciled by
// two workers at once.
type Queue interface {
	// Add queues a key to be reconciled now.
	Add(Key)
	// AddAfter queues a key to be reconciled after a delay. If it is called several times, the earliest time counts.
	AddAfter(Key, time.Duration)
}

// Result says when to reconcile a key again even if nothing changes; 0 means never.
type Result struct{ RequeueAfter time.Duration }

// Controller keeps one aspect of the cluster at its desired state.
type Controller interface {
	// Name is the controller's name upstream, such as "deployment-controller".
	Name() string
	// Watch attaches handlers to the controller's informers, which only enqueue keys. It is called once, before
	// Reconcile, and returns the caches that must be in sync first.
	Watch(q Queue) []Synced
	// Reconcile reads the current state of the object and acts; it does not distinguish new objects from old ones. The
	// key of a deleted object is not an error. Errors are retried with back-off.
	Reconcile(ctx context.Context, key Key) (Result, error)
}

// Synced is a cache whose initial sync can be waited for; *informer.Informer is one.
type Synced interface {
	// WaitSynced blocks until the first full list has been processed, or the context ends.
	WaitSynced(ctx context.Context) error
}
