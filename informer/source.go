package informer

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ErrExpired means that the history after the requested version is gone, or that the reader fell too far behind. List
// again.
var ErrExpired = errors.New("resource version expired")

// Object is a decoded API object. Objects of a Source are shared: readers never change them.
type Object interface {
	runtime.Object
	metav1.Object
}

// EventType is what happened to an object, as seen through a Source's selection.
type EventType string

// The event types. A Bookmark carries only a Version.
const (
	Added    EventType = "ADDED"
	Modified EventType = "MODIFIED"
	Deleted  EventType = "DELETED"
	Bookmark EventType = "BOOKMARK"
)

// Event is one change.
type Event[T Object] struct {
	Type    EventType
	Object  T      // the new state, or the last one before a deletion
	Version string // resource version of the change
}

// Source lists and watches the objects of one kind, or a selection of them. It is the narrow contract by which
// authorizers, admission plugins, controllers, scheduler and kubelet read state. Implementations are safe for
// concurrent use.
type Source[T Object] interface {
	// List returns the objects and the resource version they are consistent at.
	List(ctx context.Context) (items []T, version string, err error)
	// Watch streams every change after version, in order, without gap or duplicate, or fails
	// with ErrExpired.
	Watch(ctx context.Context, version string) (Stream[T], error)
}

// Stream is one watch, used by one goroutine at a time.
type Stream[T Object] interface {
	// Next blocks until there are changes and returns at least one. It fails with ErrExpired when the reader must list
	// again, with io.EOF when the stream ended regularly (watch again from the last version), with ctx.Err() when the
	// context ends.
	Next(ctx context.Context) ([]Event[T], error)
	// Close releases the stream; it may be called more than once.
	Close()
}
