package decision

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Backoff makes repeated attempts under the same key wait longer each time. It has no clock, and is not safe for
// concurrent use.
type Backoff struct {
	initial, limit time.Duration
	quiet          time.Duration
	entries        map[string]backoffEntry
}

type backoffEntry struct {
	delay  time.Duration
	update time.Time
}

// NewBackoff makes a Backoff that begins with the initial wait, doubles it up to the limit, and starts over after a
// quiet of the given length.
func NewBackoff(initial, limit, quiet time.Duration) *Backoff {
	return &Backoff{initial: initial, limit: limit, quiet: quiet, entries: map[string]backoffEntry{}}
}

// Since returns when the next attempt is allowed, counting from an event such as the end of the container to restart,
// and the length of the wait; both are zero if it is allowed now.
func (b *Backoff) Since(key string, event, now time.Time) (until time.Time, delay time.Duration) {
	e := b.entries[key] // a missing entry means no wait
	if event.Sub(e.update) > b.quiet || now.Sub(event) >= e.delay {
		return time.Time{}, 0
	}
	return event.Add(e.delay), e.delay
}

// SinceUpdate is Since counting from the last update of the wait.
func (b *Backoff) SinceUpdate(key string, now time.Time) (until time.Time, delay time.Duration) {
	e := b.entries[key]
	if now.Sub(e.update) >= e.delay {
		return time.Time{}, 0
	}
	return e.update.Add(e.delay), e.delay
}

// Next lengthens the wait after an event, for the attempt after the coming one, and returns its length.
func (b *Backoff) Next(key string, event, now time.Time) time.Duration {
	e, ok := b.entries[key]
	if !ok || event.Sub(e.update) > b.quiet {
		e = backoffEntry{delay: b.initial}
	} else {
		e.delay = min(2*e.delay, b.limit)
	}
	e.update = now
	b.entries[key] = e
	return e.delay
}

// Restore sets a wait that Next returned at an earlier time, for example before a restart of the kubelet.
func (b *Backoff) Restore(key string, delay time.Duration, since time.Time) {
	b.entries[key] = backoffEntry{delay: delay, update: since}
}

// BackoffKey is the key of a container's restart back-off. A container whose definition changes starts over.
func BackoffKey(c *corev1.Container) string { return c.Name + "/" + Hash(c) }
