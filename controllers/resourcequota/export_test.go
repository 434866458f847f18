package resourcequota

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/informer"
)

// Refused is a pure part, for tables.
var Refused = refused

// Ledger is the ledger of the known resources, by itself.
type Ledger struct{ l *ledger }

// NewLedger makes one that knows these resources.
func NewLedger(resources ...string) Ledger {
	var all []schema.GroupResource
	for _, r := range resources {
		all = append(all, schema.GroupResource{Resource: r})
	}
	return Ledger{newLedger(all)}
}

func (l Ledger) Put(r string, obj informer.Object, now time.Time) []controllers.Key {
	return l.l.put(schema.GroupResource{Resource: r}, obj, now)
}

func (l Ledger) Drop(r string, obj informer.Object, now time.Time) []controllers.Key {
	return l.l.drop(schema.GroupResource{Resource: r}, obj, now)
}

func (l Ledger) Track(q *corev1.ResourceQuota, now time.Time) { l.l.track(q, now) }
func (l Ledger) Untrack(q *corev1.ResourceQuota)              { l.l.untrack(q) }
func (l Ledger) Age(now time.Time) []controllers.Key          { return l.l.age(now) }
func (l Ledger) Spaces() int                                  { return len(l.l.spaces) }

// Judge returns the usage, whether it is to be written and whether it is unaccounted for; ok is false for a quota that is not tracked.
func (l Ledger) Judge(q *corev1.ResourceQuota, now time.Time, quiet time.Duration) (used, released corev1.ResourceList, write, unaccounted, ok bool) {
	v, ok := l.l.judge(q, now, quiet)
	return v.status.Used, v.released, v.write, v.unaccounted, ok
}

func (l Ledger) Settle(q *corev1.ResourceQuota, released corev1.ResourceList) {
	l.l.settle(q, released)
}
