package controllers

import (
	"context"
	"time"
)

// Key names one object to bring to its desired state. Namespace is empty for cluster kinds.
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

// Queue takes keys that need a look. A key that is queued already is not queued twice, and a
// key is never reconciled by two workers at once.
type Queue interface {
	// Add queues a key for now.
	Add(Key)
	// AddAfter queues a key for later. Of several times asked for, the earliest counts.
	AddAfter(Key, time.Duration)
}

// Result says when a key wants another look although nothing changed; 0 is never.
type Result struct{ RequeueAfter time.Duration }

// Controller keeps one aspect of the cluster at its desired state.
type Controller interface {
	// Name is the controller's name upstream, such as "deployment-controller".
	Name() string
	// Watch attaches handlers that enqueue keys, and nothing else, to the controller's
	// informers. It is called once, before Reconcile, and returns what must be in sync first.
	Watch(q Queue) []Synced
	// Reconcile looks at the object afresh and acts; it treats new and old objects alike. The
	// key of an object that is gone is not an error. An error is retried with back-off.
	Reconcile(ctx context.Context, key Key) (Result, error)
}

// Synced is a cache that can be waited for; *informer.Informer is one.
type Synced interface {
	// WaitSynced blocks until the first full list has been taken in, or the context ends.
	WaitSynced(ctx context.Context) error
}
