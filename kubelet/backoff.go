package kubelet

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// backoff makes repeated attempts at the same thing wait longer each time: initial, doubling to
// limit, and from the beginning after calm. It is used by one goroutine.
type backoff struct {
	initial, limit time.Duration
	calm           time.Duration
	entries        map[string]backoffEntry
}

type backoffEntry struct {
	delay  time.Duration
	update time.Time
}

func newBackoff(initial, limit, calm time.Duration) *backoff {
	return &backoff{initial: initial, limit: limit, calm: calm, entries: map[string]backoffEntry{}}
}

// since returns until when an attempt has to wait that counts from an event, such as the end of
// the container to restart, and the length of the wait; zero when it may be made now.
func (b *backoff) since(key string, event, now time.Time) (until time.Time, delay time.Duration) {
	e, ok := b.entries[key]
	if !ok || event.Sub(e.update) > b.calm || now.Sub(event) >= e.delay {
		return time.Time{}, 0
	}
	return event.Add(e.delay), e.delay
}

// sinceUpdate is since for attempts that count from the last failure itself.
func (b *backoff) sinceUpdate(key string, now time.Time) (until time.Time, delay time.Duration) {
	e, ok := b.entries[key]
	if !ok || now.Sub(e.update) >= e.delay {
		return time.Time{}, 0
	}
	return e.update.Add(e.delay), e.delay
}

// next lengthens the wait, because of an event, for the attempt after this one.
func (b *backoff) next(key string, event, now time.Time) {
	e, ok := b.entries[key]
	if !ok || event.Sub(e.update) > b.calm {
		e = backoffEntry{delay: b.initial}
	} else {
		e.delay = min(2*e.delay, b.limit)
	}
	e.update = now
	b.entries[key] = e
}

// backoffKey starts a container over when its definition changes.
func backoffKey(c *corev1.Container) string { return c.Name + "/" + hashOf(c) }
