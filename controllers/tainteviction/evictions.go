package tainteviction

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/controllers"
)

// tolerated reports whether taints evict a pod with such tolerations, and after what time; a negative time means at
// once, because a taint is not tolerated. For each taint the first matching toleration counts.
func tolerated(taints []corev1.Taint, tolerations []corev1.Toleration) (after time.Duration, leaves bool) {
	least := int64(math.MaxInt64)
	for i := range taints {
		at := slices.IndexFunc(tolerations, func(t corev1.Toleration) bool {
			return t.ToleratesTaint(logr.Discard(), &taints[i], false)
		})
		if at < 0 {
			return -1, true
		}
		if seconds := tolerations[at].TolerationSeconds; seconds != nil {
			least = min(least, max(*seconds, 0))
		}
	}
	if least == math.MaxInt64 {
		return 0, false
	}
	return time.Duration(least) * time.Second, true
}

// evictions holds the pods that have a deadline.
type evictions struct {
	*sync.Mutex
	changed map[controllers.Key]bool // pods to process
	pending map[controllers.Key]*deadline
}

// deadline is when a pod is to be deleted.
type deadline struct {
	set, at time.Time
	started bool // the deletion has started: too late to cancel
}

func newEvictions() evictions {
	return evictions{Mutex: &sync.Mutex{}, changed: map[controllers.Key]bool{}, pending: map[controllers.Key]*deadline{}}
}

// touch records that a pod has changed.
func (e evictions) touch(key controllers.Key) {
	e.Lock()
	defer e.Unlock()
	e.changed[key] = true
}

// touched reports whether a pod has changed since the last call. If not, its key was only enqueued for its deadline.
func (e evictions) touched(key controllers.Key) bool {
	e.Lock()
	defer e.Unlock()
	changed := e.changed[key]
	delete(e.changed, key)
	return changed
}

// stands reports whether a pod has a deadline that its current tolerations do not change: one that was set earlier, or
// that has passed.
func (e evictions) stands(key controllers.Key, now time.Time) bool {
	e.Lock()
	defer e.Unlock()
	d, ok := e.pending[key]
	return ok && (d.set.Before(now) || !d.at.After(d.set) || d.started)
}

// set sets a pod's deadline unless it has one.
func (e evictions) set(key controllers.Key, now, at time.Time) bool {
	e.Lock()
	defer e.Unlock()
	if _, had := e.pending[key]; had {
		return false
	}
	e.pending[key] = &deadline{set: now, at: at}
	return true
}

// cancel removes a pod's deadline, and reports whether it had one that was in the future when it was set.
func (e evictions) cancel(key controllers.Key) bool {
	e.Lock()
	defer e.Unlock()
	d, ok := e.pending[key]
	if !ok || d.started {
		return false
	}
	delete(e.pending, key)
	return d.at.After(d.set)
}

// start begins the deletion of a pod whose deadline has passed; otherwise it returns the time left, 0 if there is no
// deadline.
func (e evictions) start(key controllers.Key, now time.Time) (wait time.Duration, due bool) {
	e.Lock()
	defer e.Unlock()
	d, ok := e.pending[key]
	if !ok {
		return 0, false
	}
	if wait := d.at.Sub(now); wait > 0 {
		return wait, false
	}
	d.started = true
	return 0, true
}

// done ends what start began.
func (e evictions) done(key controllers.Key) {
	e.Lock()
	defer e.Unlock()
	delete(e.pending, key)
}
