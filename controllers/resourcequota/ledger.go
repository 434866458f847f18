package resourcequota

import (
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/internal/quota"
)

// ledger is what exists, and what it takes of each quota. It is fed by the caches' events alone,
// so that what it counts and what it saw given back always fit together.
type ledger struct {
	mu         sync.Mutex
	evaluators map[schema.GroupResource]quota.Evaluator
	spaces     map[string]*space
}

// space is a namespace. Of resources whose objects all take the same, only the number is kept.
type space struct {
	numbers map[schema.GroupResource]int
	objects map[place]entry
	tallies map[string]*tally
}

type place struct {
	resource schema.GroupResource
	name     string
}

// entry is an object as of when its usage was last told, which may lessen with time.
type entry struct {
	obj informer.Object
	at  time.Time
}

// tally is what one quota's objects take.
type tally struct {
	uid  types.UID
	spec *corev1.ResourceQuotaSpec
	// counted is what is there, released what was given back since usage was last written.
	counted, released corev1.ResourceList
	// used is the newest usage that was seen, and since when it has not risen.
	used  corev1.ResourceList
	since time.Time
}

func newLedger(resources []schema.GroupResource) *ledger {
	l := &ledger{evaluators: map[schema.GroupResource]quota.Evaluator{}, spaces: map[string]*space{}}
	for _, gr := range resources {
		l.evaluators[gr] = quota.For(gr)
	}
	return l
}

func (l *ledger) space(namespace string) *space {
	s := l.spaces[namespace]
	if s == nil {
		s = &space{numbers: map[schema.GroupResource]int{}, objects: map[place]entry{}, tallies: map[string]*tally{}}
		l.spaces[namespace] = s
	}
	return s
}

// tidy forgets a namespace that has nothing in it.
func (l *ledger) tidy(namespace string) {
	if s := l.spaces[namespace]; len(s.numbers)+len(s.objects)+len(s.tallies) == 0 {
		delete(l.spaces, namespace)
	}
}

// put takes in an object that is new or has changed, and returns the quotas to look at.
func (l *ledger) put(gr schema.GroupResource, obj informer.Object, now time.Time) []controllers.Key {
	l.mu.Lock()
	defer l.mu.Unlock()
	s, e := l.space(obj.GetNamespace()), l.evaluators[gr]
	if e.Counts() {
		s.numbers[gr]++
		return s.move(obj.GetNamespace(), e, entry{}, entry{obj, now})
	}
	at := place{gr, obj.GetName()}
	before := s.objects[at]
	s.objects[at] = entry{obj, now}
	return s.move(obj.GetNamespace(), e, before, entry{obj, now})
}

// drop takes an object out, and returns the quotas to look at.
func (l *ledger) drop(gr schema.GroupResource, obj informer.Object, now time.Time) []controllers.Key {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.tidy(obj.GetNamespace())
	s, e := l.space(obj.GetNamespace()), l.evaluators[gr]
	if e.Counts() {
		if s.numbers[gr]--; s.numbers[gr] <= 0 {
			delete(s.numbers, gr)
		}
		return s.move(obj.GetNamespace(), e, entry{obj, now}, entry{})
	}
	at := place{gr, obj.GetName()}
	before := s.objects[at]
	delete(s.objects, at)
	return s.move(obj.GetNamespace(), e, before, entry{})
}

// move changes what an object takes of the quotas, and returns those that gave something back, or
// that have less usage than there is.
func (s *space) move(namespace string, e quota.Evaluator, before, after entry) []controllers.Key {
	var look []controllers.Key
	for _, name := range slices.Sorted(maps.Keys(s.tallies)) {
		t := s.tallies[name]
		was, is := t.share(e, before), t.share(e, after)
		if quota.Equal(was, is) {
			continue
		}
		change := quota.Sub(is, was)
		t.counted = quota.Add(t.counted, change)
		back := quota.Positive(quota.Sub(was, is))
		t.released = quota.Add(t.released, back)
		if len(back) > 0 || len(quota.Positive(quota.Sub(quota.Mask(t.counted, t.used), t.used))) > 0 {
			look = append(look, controllers.Key{Namespace: namespace, Name: name})
		}
	}
	return look
}

// share is what an object takes of the quota.
func (t *tally) share(e quota.Evaluator, x entry) corev1.ResourceList {
	if x.obj == nil || !t.concerns(e) || !e.InScope(t.spec, x.obj) {
		return nil
	}
	return quota.Mask(e.Usage(x.obj, x.at), t.spec.Hard)
}

func (t *tally) concerns(e quota.Evaluator) bool {
	for name := range t.spec.Hard {
		if e.Tracks(name) {
			return true
		}
	}
	return false
}

// track takes in a quota as it is now.
func (l *ledger) track(q *corev1.ResourceQuota, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.space(q.Namespace)
	t := s.tallies[q.Name]
	if t == nil || t.uid != q.UID {
		t = &tally{uid: q.UID, since: now}
		s.tallies[q.Name] = t
	}
	if len(quota.Positive(quota.Sub(q.Status.Used, t.used))) > 0 {
		t.since = now
	}
	t.used = q.Status.Used
	if t.spec == nil || !equality.Semantic.DeepEqual(*t.spec, q.Spec) {
		t.spec = &q.Spec
		l.count(s, t)
	}
}

// count fills a tally afresh.
func (l *ledger) count(s *space, t *tally) {
	t.counted = corev1.ResourceList{}
	for at, x := range s.objects {
		t.counted = quota.Add(t.counted, t.share(l.evaluators[at.resource], x))
	}
	for gr, n := range s.numbers {
		// Any object will do: they all take the same.
		for name, one := range t.share(l.evaluators[gr], entry{obj: &corev1.ConfigMap{}}) {
			one.Mul(int64(n))
			t.counted[name] = one
		}
	}
}

// untrack forgets a quota that is gone.
func (l *ledger) untrack(q *corev1.ResourceQuota) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.spaces[q.Namespace]; s != nil && s.tallies[q.Name] != nil && s.tallies[q.Name].uid == q.UID {
		delete(s.tallies, q.Name)
		l.tidy(q.Namespace)
	}
}
