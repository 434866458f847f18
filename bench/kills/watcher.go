package main

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// source lists and watches one kind.
type source struct {
	list  func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watch func(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// watcher follows one kind and trusts nothing: each event must be consistent with its state.
type watcher struct {
	source
	mu       sync.Mutex
	moved    chan struct{}     // closed and replaced at each step
	known    map[string]string // revision by name
	revision int64             // of the last event
	counts
}

func newWatcher(s source) *watcher {
	return &watcher{source: s, moved: make(chan struct{})}
}

// run watches until the context ends or the server is gone.
func (w *watcher) run(ctx context.Context) error {
	for ctx.Err() == nil {
		if w.known == nil {
			if err := w.relist(ctx); err != nil {
				return gone(err)
			}
		}
		stream, err := w.watch(ctx, metav1.ListOptions{ResourceVersion: strconv.FormatInt(w.at(), 10), AllowWatchBookmarks: true})
		if expired(err) {
			w.expire()
			continue
		}
		if err != nil {
			return gone(err)
		}
		w.mu.Lock()
		w.resumed++
		w.mu.Unlock()
		err = w.follow(ctx, stream)
		stream.Stop()
		if err != nil {
			return err
		}
	}
	return nil
}

// gone turns a lost connection into the end of a run, and returns other errors.
func gone(err error) error {
	if _, refused := err.(apierrors.APIStatus); refused {
		return fmt.Errorf("%w: a watcher was refused: %w", errViolated, err)
	}
	return nil
}

func expired(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }

func (w *watcher) at() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.revision
}

func (w *watcher) expire() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.known = nil
	w.relisted++
}

func (w *watcher) relist(ctx context.Context) error {
	list, err := w.list(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	revisions, at, err := revisionsOf(list)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.known, w.revision = revisions, at
	w.step()
	return nil
}

func (w *watcher) step() {
	close(w.moved)
	w.moved = make(chan struct{})
}

// follow takes events until the stream ends.
func (w *watcher) follow(ctx context.Context, stream watch.Interface) error {
	for e := range stream.ResultChan() {
		if e.Type == watch.Error {
			if context.Cause(ctx) != nil {
				return nil //nolint:nilerr // this is how client-go reports that the client ends the watch
			}
			err := apierrors.FromObject(e.Object)
			switch {
			case expired(err):
				w.expire()
				return nil
			case disconnected(err):
				return nil
			}
			return fmt.Errorf("%w: a watch failed: %w", errViolated, err)
		}
		if err := w.take(e); err != nil {
			return err
		}
	}
	return nil
}

// disconnected reports whether a watch ended because the client lost its connection. client-go reports most lost
// connections as the end of the stream, but those that its HTTP/2 transport closes itself as an event that could not be
// decoded.
func disconnected(err error) bool {
	cause, ok := apierrors.StatusCause(err, "ClientWatchDecoding")
	return ok && strings.Contains(cause.Message, "http2: client connection ")
}

// take checks one event against the state.
func (w *watcher) take(e watch.Event) error {
	obj, err := meta.Accessor(e.Object)
	if err != nil {
		return err
	}
	at, err := strconv.ParseInt(obj.GetResourceVersion(), 10, 64)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if e.Type == watch.Bookmark {
		w.revision = max(w.revision, at)
		w.step()
		return nil
	}
	name := obj.GetName()
	_, there := w.known[name]
	switch {
	case at <= w.revision:
		return fmt.Errorf("%w: %s %s at %d after revision %d", errViolated, e.Type, name, at, w.revision)
	case there == (e.Type == watch.Added):
		return fmt.Errorf("%w: %s %s at %d, but it was known: %v", errViolated, e.Type, name, at, there)
	case e.Type == watch.Deleted:
		delete(w.known, name)
	default:
		w.known[name] = obj.GetResourceVersion()
	}
	w.revision = at
	w.events++
	w.step()
	return nil
}

// reach waits until the watcher has reached a revision.
func (w *watcher) reach(ctx context.Context, revision int64) error {
	for {
		w.mu.Lock()
		at, moved := w.revision, w.moved
		w.mu.Unlock()
		if at >= revision {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return fmt.Errorf("%w: a watch stays at revision %d and never tells %d: %w", errViolated, at, revision, ctx.Err())
		}
	}
}

// agrees compares the watcher's state with a list.
func (w *watcher) agrees(list runtime.Object) error {
	want, _, err := revisionsOf(list)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !maps.Equal(w.known, want) {
		return fmt.Errorf("%w: a watcher knows %v, the list shows %v", errViolated, w.known, want)
	}
	return nil
}

func revisionsOf(list runtime.Object) (map[string]string, int64, error) {
	revisions := map[string]string{}
	err := meta.EachListItem(list, func(o runtime.Object) error {
		obj, err := meta.Accessor(o)
		if err == nil {
			revisions[obj.GetName()] = obj.GetResourceVersion()
		}
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	l, err := meta.ListAccessor(list)
	if err != nil {
		return nil, 0, err
	}
	at, err := strconv.ParseInt(l.GetResourceVersion(), 10, 64)
	return revisions, at, err
}
