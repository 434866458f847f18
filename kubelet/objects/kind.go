package objects

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/internal/pause"
)

// maxRetry is the longest pause between attempts to watch an object.
const maxRetry = 30 * time.Second

// kind caches the objects of one kind.
type kind[T informer.Object] struct {
	resource string
	singular string // as messages name it
	server   client.Getter
	open     func(namespace, name string) (informer.Source[T], error)
	options  Options

	mu      sync.Mutex
	entries map[key]*entry[T]
	// begin starts the watch of an entry; nil while Run is not running.
	begin func(*entry[T])
}

// entry is one object that pods refer to.
type entry[T informer.Object] struct {
	key
	// pods refer to it; those with true mount it as files.
	pods map[types.UID]bool
	// stop ends the watch; nil when there is none.
	stop context.CancelFunc
	// asked is closed once the server has first answered or failed to.
	asked   chan struct{}
	watched bool // the watch has listed: object is the server's state, as of when it was last reached
	object  T
	known   bool // object exists
	missed  bool // a reader was told that it does not exist
}

func newKind[T informer.Object](resource string, server client.Getter, open func(string, string) (informer.Source[T], error), o Options) *kind[T] {
	return &kind[T]{resource: resource, singular: strings.TrimSuffix(resource, "s"), server: server, open: open, options: o, entries: map[key]*entry[T]{}}
}

// run runs the watches, also those added later, until the context ends.
func (k *kind[T]) run(ctx context.Context) {
	var watches sync.WaitGroup
	k.mu.Lock()
	k.begin = func(e *entry[T]) {
		watching, stop := context.WithCancel(ctx)
		e.stop, e.asked = stop, make(chan struct{})
		asked := e.asked
		watches.Go(func() {
			defer stop()
			k.watch(watching, e, asked)
		})
	}
	for _, e := range k.entries {
		k.startIfNeeded(e)
	}
	k.mu.Unlock()
	<-ctx.Done()
	k.mu.Lock()
	k.begin = nil
	k.mu.Unlock()
	watches.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, e := range k.entries {
		e.stop, e.watched = nil, false
	}
}

// replace replaces the references of a pod.
func (k *kind[T]) replace(uid types.UID, old, now references) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for at := range old {
		if _, still := now[at]; still {
			continue
		}
		e := k.entries[at]
		delete(e.pods, uid)
		k.stopIfUnused(e)
	}
	for at, asFile := range now {
		e := k.entries[at]
		if e == nil {
			e = &entry[T]{key: at, pods: map[types.UID]bool{}}
			k.entries[at] = e
		}
		e.pods[uid] = asFile
		k.startIfNeeded(e)
	}
}

func (k *kind[T]) startIfNeeded(e *entry[T]) {
	if k.begin == nil || k.open == nil || e.stop != nil {
		return
	}
	for _, asFile := range e.pods {
		if asFile {
			k.begin(e)
			return
		}
	}
}

func (k *kind[T]) stopIfUnused(e *entry[T]) {
	if len(e.pods) > 0 {
		return
	}
	if e.stop != nil {
		e.stop()
	}
	delete(k.entries, e.key)
}

// get returns the object from its watch, or else from the server.
func (k *kind[T]) get(ctx context.Context, at key) (T, error) {
	var none T
	k.mu.Lock()
	e := k.entries[at]
	var asked chan struct{}
	if e != nil {
		asked = e.asked
	}
	k.mu.Unlock()
	if asked != nil {
		select {
		case <-asked:
		case <-ctx.Done():
			return none, ctx.Err()
		}
		k.mu.Lock()
		object, good := e.object, e.watched && e.known
		k.mu.Unlock()
		if good {
			return object, nil
		}
	}
	return k.ask(ctx, at, e)
}

// ask reads the object from the server, and falls back on its last known state if the server is unreachable.
func (k *kind[T]) ask(ctx context.Context, at key, e *entry[T]) (T, error) {
	object, err := client.As[T](k.server.Get(ctx, client.Target{
		Resource: corev1.SchemeGroupVersion.WithResource(k.resource), Namespace: at.namespace, Name: at.name,
	}))
	if apierrors.IsNotFound(err) {
		err = apierrors.NewNotFound(corev1.Resource(k.singular), at.name)
	}
	if e == nil {
		return object, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	away := err != nil && isUnreachable(err) && ctx.Err() == nil
	switch {
	case away && e.known:
		return e.object, nil
	case away && e.watched:
		err = apierrors.NewNotFound(corev1.Resource(k.singular), at.name)
	case e.watched: // its next event will update it
	case err == nil:
		e.object, e.known = object, true
	case apierrors.IsNotFound(err):
		e.known = false
	}
	e.missed = e.missed || err != nil
	return object, err
}

// isUnreachable reports whether an error says nothing about the object, because the server did not answer or could not.
func isUnreachable(err error) bool {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		return true
	}
	return apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err)
}

// watch follows one object until the context ends or the object cannot change any more.
func (k *kind[T]) watch(ctx context.Context, e *entry[T], asked chan struct{}) {
	delay := k.options.RetryAfter
	var once sync.Once
	answered := func() { once.Do(func() { close(asked) }) }
	defer answered()
	for ctx.Err() == nil {
		final, err := k.follow(ctx, e, func() {
			answered()
			delay = k.options.RetryAfter
		})
		answered()
		if final || ctx.Err() != nil {
			return
		}
		if !errors.Is(err, informer.ErrExpired) {
			k.options.Logger.Warn("watching an object failed", "resource", k.resource, "object", e.namespace+"/"+e.name, "error", err)
		}
		_ = pause.For(ctx, delay) // the loop ends with the context
		delay = min(2*delay, maxRetry)
	}
}

// follow lists the object and watches it from there until that fails. It reports whether there is nothing more to
// watch.
func (k *kind[T]) follow(ctx context.Context, e *entry[T], listed func()) (final bool, err error) {
	source, err := k.open(e.namespace, e.name)
	if err != nil {
		return false, err
	}
	items, version, err := source.List(ctx)
	if err != nil {
		return false, err
	}
	var object T
	found := false
	for _, item := range items {
		if item.GetNamespace() == e.namespace && item.GetName() == e.name {
			object, found = item, true
		}
	}
	k.take(e, object, found)
	listed()
	for {
		if found && isImmutable(object) {
			return true, nil
		}
		stream, err := source.Watch(ctx, version)
		if err != nil {
			return false, err
		}
		for err == nil {
			var events []informer.Event[T]
			events, err = stream.Next(ctx)
			for _, event := range events {
				version = event.Version
				if event.Type == informer.Bookmark || event.Object.GetName() != e.name || event.Object.GetNamespace() != e.namespace {
					continue
				}
				object, found = event.Object, event.Type != informer.Deleted
				k.take(e, object, found)
			}
			if found && isImmutable(object) {
				stream.Close()
				return true, nil
			}
		}
		stream.Close()
		if !errors.Is(err, io.EOF) {
			return false, err
		}
		if err := pause.For(ctx, k.options.RetryAfter); err != nil {
			return false, err
		}
	}
}

// take records the server's current state and calls Changed if it differs from the previous one.
func (k *kind[T]) take(e *entry[T], object T, found bool) {
	k.mu.Lock()
	same := e.known == found && (!found || e.object.GetUID() == object.GetUID() && e.object.GetResourceVersion() == object.GetResourceVersion())
	asked := e.watched || e.known || e.missed
	e.object, e.known, e.watched = object, found, true
	var uids []types.UID
	if !same && asked {
		for uid, asFile := range e.pods {
			if asFile {
				uids = append(uids, uid)
			}
		}
	}
	k.mu.Unlock()
	if len(uids) > 0 {
		k.options.Changed(uids)
	}
}

// isImmutable reports whether the object cannot change until it is deleted.
func isImmutable(object any) bool {
	var immutable *bool
	switch o := object.(type) {
	case *corev1.ConfigMap:
		immutable = o.Immutable
	case *corev1.Secret:
		immutable = o.Immutable
	}
	return immutable != nil && *immutable
}
