package resourcequota

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/internal/quota"
)

// verdict is the desired status of a quota.
type verdict struct {
	status corev1.ResourceQuotaStatus
	// write reports whether it has to be written: it differs, or released usage must be subtracted from the newest
	// usage.
	write bool
	// released is the usage that writing subtracts.
	released corev1.ResourceList
	// unaccounted reports that the usage exceeds that of the existing objects.
	unaccounted bool
	// since is when usage last rose.
	since time.Time
}

// judge compares a quota's status with the existing objects. quiet is how long after the last rise all charges count as
// settled.
func (l *ledger) judge(q *corev1.ResourceQuota, now time.Time, quiet time.Duration) (verdict, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.spaces[q.Namespace]
	if s == nil || s.tallies[q.Name] == nil || s.tallies[q.Name].uid != q.UID {
		return verdict{}, false
	}
	t := s.tallies[q.Name]
	v := verdict{released: t.released, since: t.since}
	settled := now.Sub(t.since) >= quiet
	used := corev1.ResourceList{}
	for name := range q.Spec.Hard {
		was, known := q.Status.Used[name]
		if !l.tracks(name) {
			if known { // of a resource that has just gone, the last objects may have been released
				was = was.DeepCopy()
				was.Sub(t.released[name])
				used[name] = was
			}
			continue
		}
		there := t.counted[name]
		if !settled {
			was = was.DeepCopy()
			was.Sub(t.released[name])
			if was.Cmp(there) > 0 {
				there, v.unaccounted = was, true
			}
		}
		used[name] = there
	}
	v.status = corev1.ResourceQuotaStatus{Hard: q.Spec.Hard.DeepCopy(), Used: used}
	v.write = len(t.released) > 0 || q.Status.Used == nil || !quota.Equal(used, q.Status.Used) ||
		!equality.Semantic.DeepEqual(q.Spec.Hard, q.Status.Hard)
	return v, true
}

func (l *ledger) tracks(name corev1.ResourceName) bool {
	for _, e := range l.evaluators {
		if e.Tracks(name) {
			return true
		}
	}
	return false
}

// settle records that released usage has been subtracted.
func (l *ledger) settle(q *corev1.ResourceQuota, released corev1.ResourceList) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.spaces[q.Namespace]; s != nil && s.tallies[q.Name] != nil && s.tallies[q.Name].uid == q.UID {
		t := s.tallies[q.Name]
		t.released = quota.Positive(quota.Sub(t.released, released))
	}
}

// age recomputes the usage of objects whose usage decreases with time, and returns all quotas.
func (l *ledger) age(now time.Time) []controllers.Key {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []controllers.Key
	for namespace, s := range l.spaces {
		for name := range s.tallies {
			all = append(all, controllers.Key{Namespace: namespace, Name: name})
		}
		if len(s.tallies) == 0 {
			continue
		}
		for at, x := range s.objects {
			if x.obj.GetDeletionTimestamp() == nil {
				continue
			}
			s.objects[at] = entry{x.obj, now}
			s.move(namespace, l.evaluators[at.resource], x, s.objects[at])
		}
	}
	return all
}
