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

// ledger records the existing objects and their usage of each quota. It is fed only by the caches' events, which keeps
// the counted and the released usage consistent.
type ledger struct {
	mu         sync.Mutex
	evaluators map[schema.GroupResource]quota.Evaluator
	spaces     map[string]*space
}

// space is a namespace. For resources whose objects all use the same, only the number is kept.
type space struct {
	numbers map[schema.GroupResource]int
	objects map[place]entry
	tallies map[string]*tally
}

type place struct {
	resource schema.GroupResource
	name     string
}

// entry is an object at the time for which its usage was last computed; the usage may decrease with time.
type entry struct {
	obj informer.Object
	at  time.Time
}

// tally is the usage of one quota's objects.
type tally struct {
	uid  types.UID
	spec *corev1.ResourceQuotaSpec
	// counted is the usage of the existing objects, released what was released since the usage was last written.
	counted, released corev1.ResourceList
	// used is the newest usage seen, and since when it has not risen.
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

// know prepares for the objects of a resource.
func (l *ledger) know(gr schema.GroupResource) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.evaluators[gr]; !ok {
		l.evaluators[gr] = quota.For(gr)
	}
}

// forget drops the objects of a resource, without taking their usage for released: whoever feeds the ledger is to
// begin again or stops.
func (l *ledger) forget(gr schema.GroupResource) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for namespace, s := range l.spaces {
		delete(s.numbers, gr)
		maps.DeleteFunc(s.objects, func(at place, _ entry) bool { return at.resource == gr })
		for _, t := range s.tallies {
			l.count(s, t)
		}
		l.tidy(namespace)
	}
	if !slices.Contains(quota.Known(), gr) {
		delete(l.evaluators, gr)
	}
}

func (l *ledger) space(namespace string) *space {
	s := l.spaces[namespace]
	if s == nil {
		s = &space{numbers: map[schema.GroupResource]int{}, objects: map[place]entry{}, tallies: map[string]*tally{}}
		l.spaces[namespace] = s
	}
	return s
}

// tidy drops an empty namespace.
func (l *ledger) tidy(namespace string) {
	if s := l.spaces[namespace]; len(s.numbers)+len(s.objects)+len(s.tallies) == 0 {
		delete(l.spaces, namespace)
	}
}

// put adds or updates an object, and returns the quotas to reconcile.
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

// drop removes an object, and returns the quotas to reconcile.
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

// move changes an object's usage of the quotas, and returns those whose usage was released, or is below that of the
// existing objects.
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

// share is an object's usage of the quota.
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

// track adds or updates a quota.
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

// count computes a tally from scratch.
func (l *ledger) count(s *space, t *tally) {
	t.counted = corev1.ResourceList{}
	for at, x := range s.objects {
		t.counted = quota.Add(t.counted, t.share(l.evaluators[at.resource], x))
	}
	for gr, n := range s.numbers {
		// Any object will do: they all use the same.
		for name, one := range t.share(l.evaluators[gr], entry{obj: &corev1.ConfigMap{}}) {
			one.Mul(int64(n))
			t.counted[name] = one
		}
	}
}

// untrack drops a deleted quota.
func (l *ledger) untrack(q *corev1.ResourceQuota) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.spaces[q.Namespace]; s != nil && s.tallies[q.Name] != nil && s.tallies[q.Name].uid == q.UID {
		delete(s.tallies, q.Name)
		l.tidy(q.Namespace)
	}
}
