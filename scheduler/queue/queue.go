package queue

import (
	"cmp"
	"container/heap"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	window     = time.Second      // back-offs end together at whole seconds
	sweepEvery = 30 * time.Second // how often to look for pods that waited too long
)

// Options are the options of a Queue with events of type E. The zero value is valid.
type Options[E any] struct {
	// InitialBackoff is the back-off after a pod's first failure, doubled with each failure up to MaxBackoff; 0
	// means 1 s and 10 s.
	InitialBackoff, MaxBackoff time.Duration
	// MaxWait is how long a refused pod waits for an event; 0 means 5 minutes.
	MaxWait time.Duration
	// Gate returns the name of the gate that holds a pod back, or "". nil holds none.
	Gate func(pod *corev1.Pod) string
	// MayHelp reports whether an event is a reason to retry a pod that the named plugins refused. It must
	// depend on nothing else. nil means always.
	MayHelp func(pod *corev1.Pod, refusedBy []string, event E) bool
}

// Item is a pod and its history in the queue.
type Item struct {
	Pod *corev1.Pod
	// Attempts is how often the pod was popped.
	Attempts int
	// RefusedBy names the plugins that last refused the pod, or hold it now; empty after an error.
	RefusedBy []string

	refusals int // attempts that ended in a refusal
	errors   int // errors since the last refusal
	// since is when the pod was added, or returned; ties are in the order of seq.
	since   time.Time
	seq     uint64
	until   time.Time // end of the back-off, zero if not known yet
	flushed time.Time // when it last waited too long
	gated   bool

	list  *list // its list, nil if it is out of the queue or waits
	index int
}

type key struct{ namespace, name string }

func keyOf(pod *corev1.Pod) key { return key{pod.Namespace, pod.Name} }

// Queue holds pending pods. Make one with New.
type Queue[E any] struct {
	o     Options[E]
	start time.Time
	swept time.Time // the last sweep
	seq   uint64

	items   map[key]*Item
	active  list
	backoff list // refused before
	errors  list // failed before; never popped early
	waiting map[key]*Item
}

// New returns an empty queue.
func New[E any](now time.Time, o Options[E]) *Queue[E] {
	if o.InitialBackoff <= 0 {
		o.InitialBackoff = time.Second
	}
	if o.MaxBackoff <= 0 {
		o.MaxBackoff = 10 * time.Second
	}
	if o.MaxWait <= 0 {
		o.MaxWait = 5 * time.Minute
	}
	if o.Gate == nil {
		o.Gate = func(*corev1.Pod) string { return "" }
	}
	if o.MayHelp == nil {
		o.MayHelp = func(*corev1.Pod, []string, E) bool { return true }
	}
	return &Queue[E]{
		o: o, start: now, swept: now,
		items:  map[key]*Item{},
		active: list{less: byPriority}, backoff: list{less: byEnd}, errors: list{less: byEnd},
		waiting: map[key]*Item{},
	}
}

// byPriority orders the attempts: higher spec.priority first, then earlier.
func byPriority(a, b *Item) int {
	return cmp.Or(
		cmp.Compare(priority(b.Pod), priority(a.Pod)),
		a.since.Compare(b.since),
		cmp.Compare(a.seq, b.seq),
	)
}

func priority(pod *corev1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}

func byEnd(a, b *Item) int { return cmp.Or(a.until.Compare(b.until), byPriority(a, b)) }

// Add adds a new pod. It replaces one of the same name.
func (q *Queue[E]) Add(pod *corev1.Pod, now time.Time) {
	q.Delete(pod)
	item := &Item{Pod: pod}
	q.enter(item, now)
	q.activate(item)
}

// enter adds an item that arrives now.
func (q *Queue[E]) enter(item *Item, now time.Time) {
	q.seq++
	item.since, item.seq = now, q.seq
	q.items[keyOf(item.Pod)] = item
}

// Delete removes a pod, if it is there.
func (q *Queue[E]) Delete(pod *corev1.Pod) {
	k := keyOf(pod)
	if item := q.items[k]; item != nil {
		q.remove(item)
		delete(q.items, k)
	}
}

// remove removes an item from its list.
func (q *Queue[E]) remove(item *Item) {
	if item.list != nil {
		item.list.remove(item)
	}
	delete(q.waiting, keyOf(item.Pod))
}

// Update replaces the state of a pod; the event is about this change. A waiting pod is retried if that may
// help. A pod that is not in the queue is added.
func (q *Queue[E]) Update(pod *corev1.Pod, event E, now time.Time) {
	item := q.items[keyOf(pod)]
	if item == nil {
		q.Add(pod, now)
		return
	}
	item.Pod = pod
	if item.list != nil {
		heap.Fix(item.list, item.index)
		return
	}
	if q.o.MayHelp(pod, item.RefusedBy, event) {
		q.requeue(item, now)
	}
}

// Event makes the pods active that the event may help, or lets them back off.
func (q *Queue[E]) Event(event E, now time.Time) {
	for _, item := range q.waitingThat(func(item *Item) bool {
		refusedBy := item.RefusedBy
		if item.gated {
			refusedBy = refusedBy[len(refusedBy)-1:] // only the gate counts
		}
		return q.o.MayHelp(item.Pod, refusedBy, event)
	}) {
		q.requeue(item, now)
	}
}

// waitingThat returns the items that wait for an event and meet a condition, in any order: their next list
// sorts them by priority.
func (q *Queue[E]) waitingThat(meets func(*Item) bool) []*Item {
	var some []*Item
	for _, item := range q.waiting {
		if meets(item) {
			some = append(some, item)
		}
	}
	return some
}

// Pop removes and returns the pod to try now, or nil if there is none. If the attempt fails, the caller returns
// the item with Return.
func (q *Queue[E]) Pop(now time.Time) *Item {
	q.Flush(now)
	item := q.active.first()
	if item == nil {
		// Back-offs save time for other pods, and there are none.
		item = q.backoff.first()
	}
	if item == nil {
		return nil
	}
	q.remove(item)
	delete(q.items, keyOf(item.Pod))
	item.Attempts++
	return item
}

// Return returns an item after a failed attempt: with the names of the predicates that refused the pod, so that
// it waits for an event, or without names after an error, so that it is retried after its back-off. The pod may
// be a newer state of the item's. If the queue has a new pod of this name, that one stays and the item is
// dropped.
func (q *Queue[E]) Return(item *Item, pod *corev1.Pod, refusedBy []string, now time.Time) {
	if q.items[keyOf(pod)] != nil {
		return
	}
	item.Pod, item.RefusedBy = pod, refusedBy
	if len(refusedBy) == 0 {
		item.errors++
	} else {
		item.refusals++
		item.errors = 0
	}
	item.until, item.flushed = time.Time{}, time.Time{}
	q.enter(item, now)
	if len(refusedBy) == 0 {
		q.requeue(item, now)
		return
	}
	q.waiting[keyOf(pod)] = item
}

// Release tries a pod again that a gate holds, unless a gate still does. Nothing happens to others.
func (q *Queue[E]) Release(pod *corev1.Pod, now time.Time) {
	if item := q.items[keyOf(pod)]; item != nil && item.gated {
		q.requeue(item, now)
	}
}

// Retry tries a pod again after the back-off of an error, whatever it waits for, unless it is active.
func (q *Queue[E]) Retry(pod *corev1.Pod, now time.Time) {
	item := q.items[keyOf(pod)]
	if item == nil || item.list == &q.active {
		return
	}
	q.remove(item)
	item.RefusedBy, item.gated = nil, false
	item.errors++
	item.since, item.until = now, time.Time{}
	q.requeue(item, now)
}

// requeue moves an item to where it is retried, now or after its back-off.
func (q *Queue[E]) requeue(item *Item, now time.Time) {
	if !q.backsOff(item, now) {
		q.activate(item)
		return
	}
	if q.hold(item) {
		return
	}
	q.remove(item)
	if len(item.RefusedBy) == 0 {
		q.errors.add(item)
	} else {
		q.backoff.add(item)
	}
}

func (q *Queue[E]) activate(item *Item) {
	if q.hold(item) {
		return
	}
	q.remove(item)
	q.active.add(item)
}

// hold makes an unlisted item wait if a gate holds it, and reports whether it did.
func (q *Queue[E]) hold(item *Item) bool {
	gate := q.o.Gate(item.Pod)
	if item.gated {
		item.RefusedBy, item.gated = item.RefusedBy[:len(item.RefusedBy)-1], false
	}
	if gate == "" {
		return false
	}
	item.RefusedBy, item.gated = append(slices.Clip(item.RefusedBy), gate), true
	q.waiting[keyOf(item.Pod)] = item
	return true
}

// backsOff reports whether the back-off since the last failure lasts, and records its end.
func (q *Queue[E]) backsOff(item *Item, now time.Time) bool {
	n := item.refusals
	if item.errors > 0 {
		n = item.errors
	}
	if n == 0 {
		return false
	}
	if item.until.IsZero() {
		wait := q.o.MaxBackoff
		if shift := n - 1; q.o.InitialBackoff <= q.o.MaxBackoff>>shift {
			wait = q.o.InitialBackoff << shift
		}
		item.until = item.since.Add(wait).Truncate(window)
	}
	return !item.until.Before(now.Truncate(window))
}

// Flush activates the pods whose back-off has ended, and those that waited too long. Pop does so, too.
func (q *Queue[E]) Flush(now time.Time) {
	for _, l := range []*list{&q.backoff, &q.errors} {
		for item := l.first(); item != nil && !q.backsOff(item, now); item = l.first() {
			l.remove(item)
			q.active.add(item)
		}
	}
	if now.Sub(q.swept) < sweepEvery {
		return
	}
	q.swept = q.start.Add(now.Sub(q.start).Truncate(sweepEvery))
	for _, item := range q.waitingThat(func(item *Item) bool {
		// As of the sweep, which may have been due a moment ago.
		return q.swept.Sub(q.lastTried(item)) > q.o.MaxWait
	}) {
		item.flushed = q.swept
		q.requeue(item, now)
	}
}

func (q *Queue[E]) lastTried(item *Item) time.Time {
	if item.flushed.After(item.since) {
		return item.flushed
	}
	return item.since
}

// Next returns when Pop may return something even if nothing else is called, or false if it never will.
func (q *Queue[E]) Next(now time.Time) (time.Time, bool) {
	if q.active.Len() > 0 || q.backoff.Len() > 0 {
		return now, true
	}
	var next time.Time
	earlier := func(t time.Time) {
		if next.IsZero() || t.Before(next) {
			next = t
		}
	}
	if item := q.errors.first(); item != nil {
		earlier(item.until.Add(window))
	}
	if len(q.waiting) > 0 {
		earlier(q.swept.Add(sweepEvery))
	}
	return next, !next.IsZero()
}

// Counts are the numbers of pods in a queue.
type Counts struct {
	Active  int // to be tried now
	Backoff int // in back-off
	Waiting int // for an event, without the gated
	Gated   int // held by a Gate
}

// Counts returns the numbers of pods in the queue.
func (q *Queue[E]) Counts() Counts {
	c := Counts{Active: q.active.Len(), Backoff: q.backoff.Len() + q.errors.Len()}
	for _, item := range q.waiting {
		if item.gated {
			c.Gated++
		} else {
			c.Waiting++
		}
	}
	return c
}
