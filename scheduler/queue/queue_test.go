package queue_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/scheduler/queue"
)

// clock is a time that tests set.
type clock struct{ time.Time }

func newClock() *clock { return &clock{time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)} }

func (c *clock) after(d time.Duration) time.Time {
	c.Time = c.Add(d)
	return c.Time
}

func important(name string, priority int32) *corev1.Pod {
	p := pod(name)
	p.Spec.Priority = &priority
	return p
}

// popAll returns the names of the pods to try now.
func popAll(q *queue.Queue[string], now time.Time) []string {
	var names []string
	for item := q.Pop(now); item != nil; item = q.Pop(now) {
		names = append(names, item.Pod.Name)
	}
	return names
}

func want[T any](t *testing.T, got, want T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// byName lets an event help the pods that the plugin of its name refused.
func byName() queue.Options[string] {
	return queue.Options[string]{MayHelp: func(_ *corev1.Pod, refusedBy []string, event string) bool {
		return slices.Contains(refusedBy, event)
	}}
}

func TestOrder(t *testing.T) {
	now := newClock()
	q := queue.New(now.Time, byName())
	q.Add(pod("b"), now.Time)
	q.Add(pod("a"), now.Time)
	q.Add(important("low", -1), now.Time)
	q.Add(important("high", 7), now.after(time.Second))
	q.Add(pod("c"), now.after(time.Second))
	want(t, popAll(q, now.Time), []string{"high", "b", "a", "c", "low"})
}

func TestAddReplaces(t *testing.T) {
	now := newClock()
	q := queue.New(now.Time, byName())
	q.Add(pod("a"), now.Time)
	q.Add(important("a", 3), now.Time)
	want(t, q.Counts(), queue.Counts{Active: 1})
	if got := q.Pop(now.Time); *got.Pod.Spec.Priority != 3 || got.Attempts != 1 {
		t.Errorf("got %+v", got)
	}
}

func TestDelete(t *testing.T) {
	now := newClock()
	q := queue.New(now.Time, byName())
	for i, refusedBy := range [][]string{nil, {"fit"}} {
		p := pod(fmt.Sprint(i))
		q.Add(p, now.Time)
		q.Return(q.Pop(now.Time), p, refusedBy, now.Time)
	}
	q.Add(pod("2"), now.Time)
	want(t, q.Counts(), queue.Counts{Active: 1, Backoff: 1, Waiting: 1})
	for i := range 4 {
		q.Delete(pod(fmt.Sprint(i)))
	}
	want(t, q.Counts(), queue.Counts{})
	if _, ok := q.Next(now.Time); ok {
		t.Error("an empty queue has something next")
	}
}

func TestRefusedWaitsForItsEvent(t *testing.T) {
	now := newClock()
	q := queue.New(now.Time, byName())
	q.Add(pod("a"), now.Time)
	q.Return(q.Pop(now.Time), pod("a"), []string{"fit", "ports"}, now.Time)
	q.Event("taints", now.after(time.Minute))
	want(t, q.Counts(), queue.Counts{Waiting: 1})
	q.Event("ports", now.Time)
	want(t, q.Counts(), queue.Counts{Active: 1})
	item := q.Pop(now.Time)
	want(t, item.Attempts, 2)
}

// While other pods are active, one that was refused a moment ago backs off; alone, it need not.
func TestRefusedBacksOff(t *testing.T) {
	now := newClock()
	q := queue.New(now.Time, byName())
	q.Add(pod("a"), now.Time)
	q.Return(q.Pop(now.Time), pod("a"), []string{"fit"}, now.after(300*time.Millisecond))
	q.Event("fit", now.Time)
	want(t, q.Counts(), queue.Counts{Backoff: 1})
	if next, ok := q.Next(now.Time); !ok || !next.Equal(now.Time) {
		t.Errorf("next is %v, %v", next, ok)
	}
	q.Add(important("low", -9), now.Time)
	want(t, popAll(q, now.Time), []string{"low", "a"})
}

func TestRefusedBackOffEndsBeforeLowerPriorities(t *testing.T) {
	now := newClock()
	q := queue.New(now.Time, byName())
	q.Add(pod("a"), now.Time)
	q.Return(q.Pop(now.Time), pod("a"), []string{"fit"}, now.after(300*time.Millisecond)) // until 1 s, in whole seconds
	q.Event("fit", now.Time)
	q.Add(important("low", -9), now.Time)
	q.Flush(now.after(1690 * time.Millisecond)) // 1.99 s
	want(t, q.Counts(), queue.Counts{Active: 1, Backoff: 1})
	q.Flush(now.after(10 * time.Millisecond))
	want(t, q.Counts(), queue.Counts{Active: 2})
	want(t, popAll(q, now.Time), []string{"a", "low"})
}

func TestErrorsBackOffLongerEachTime(t *testing.T) {
	now := newClock()
	q := queue.New(now.Time, byName())
	q.Add(pod("a"), now.Time)
	var waits []time.Duration
	for range 7 {
		item := q.Pop(now.Time)
		if item == nil {
			t.Fatal("nothing to pop")
		}
		q.Return(item, pod("a"), nil, now.Time)
		if q.Pop(now.Time) != nil {
			t.Fatal("popped while backing off")
		}
		next, ok := q.Next(now.Time)
		if !ok {
			t.Fatal("nothing next")
		}
		waits = append(waits, next.Sub(now.Time))
		if q.Pop(next.Add(-time.Millisecond)) != nil {
			t.Fatal("popped before next")
		}
		now.Time = next
	}
	// A back-off lasts until the end of the second in which it expires.
	want(t, waits, []time.Duration{2e9, 3e9, 5e9, 9e9, 11e9, 11e9, 11e9})
}

// A back-off that doubles to no more than the longest is what it doubles to.
func TestBackOffBelowTheLongest(t *testing.T) {
	now := newClock()
	start := now.Time
	o := byName()
	o.InitialBackoff, o.MaxBackoff = time.Second, 2*time.Second+time.Nanosecond
	q := queue.New(now.Time, o)
	q.Add(pod("a"), now.Time)
	q.Return(q.Pop(now.Time), pod("a"), nil, now.Time)
	// It fails again in the last nanosecond of a second: one more and its back-off would end in the next.
	q.Return(q.Pop(now.after(3*time.Second)), pod("a"), nil, now.after(time.Second-time.Nanosecond))
	next, ok := q.Next(now.Time)
	want(t, next.Sub(start), 6*time.Second)
	want(t, ok, true)
}

func TestErrorsAreForgottenByRefusals(t *testing.T) {
	now := newClock()
	q := queue.New(now.Time, byName())
	q.Add(pod("a"), now.Time)
	for range 4 {
		q.Return(q.Pop(now.Time), pod("a"), nil, now.Time)
		now.after(time.Minute)
	}
	q.Return(q.Pop(now.Time), pod("a"), []string{"fit"}, now.Time)
	q.Event("fit", now.after(1500*time.Millisecond))
	want(t, q.Counts(), queue.Counts{Backoff: 1}) // its first refusal: 1 s
	q.Event("fit", now.after(500*time.Millisecond))
	q.Flush(now.Time)
	want(t, q.Counts(), queue.Counts{Active: 1})
}

func TestWaitingPodsAreRetried(t *testing.T) {
	now := newClock()
	start := now.Time
	q := queue.New(now.Time, byName())
	q.Add(pod("a"), now.Time)
	q.Return(q.Pop(now.Time), pod("a"), []string{"fit"}, now.after(10*time.Second))
	var tried []time.Duration
	for len(tried) < 2 {
		next, ok := q.Next(now.Time)
		if !ok {
			t.Fatal("nothing next")
		}
		now.Time = next
		if item := q.Pop(now.Time); item != nil {
			tried = append(tried, now.Sub(start))
			q.Return(item, pod("a"), []string{"fit"}, now.Time)
		}
	}
	// The first sweep that finds it has waited more than five minutes.
	want(t, tried, []time.Duration{330 * time.Second, 660 * time.Second})
}

func TestGated(t *testing.T) {
	now := newClock()
	o := byName()
	o.Gate = func(p *corev1.Pod) string {
		if len(p.Spec.SchedulingGates) > 0 {
			return "gates"
		}
		return ""
	}
	q := queue.New(now.Time, o)
	held := pod("a")
	held.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}}
	q.Add(held, now.Time)
	want(t, q.Counts(), queue.Counts{Gated: 1})
	q.Event("fit", now.Time)
	q.Update(held, "gates", now.Time)
	want(t, q.Counts(), queue.Counts{Gated: 1})
	want(t, popAll(q, now.after(time.Hour)), nil) // swept, and held again
	q.Update(pod("a"), "labels", now.Time)
	want(t, q.Counts(), queue.Counts{Gated: 1})
	q.Update(pod("a"), "gates", now.Time)
	want(t, popAll(q, now.Time), []string{"a"})
}

// TestGatedAfterRefusal: if a gate holds a pod that was refused before, only the gate counts: other events do
// not wake the pod, but count again once the gate is open.
func TestGatedAfterRefusal(t *testing.T) {
	now := newClock()
	o := byName()
	gate, asked := "", 0
	o.Gate = func(*corev1.Pod) string { asked++; return gate }
	q := queue.New(now.Time, o)
	q.Add(pod("a"), now.Time)
	q.Return(q.Pop(now.Time), pod("a"), []string{"fit", "ports"}, now.Time)
	gate = "gates"
	q.Event("fit", now.after(time.Minute))
	want(t, q.Counts(), queue.Counts{Gated: 1})
	asked = 0
	for _, event := range []string{"fit", "ports", "taints"} {
		q.Event(event, now.after(time.Minute))
	}
	want(t, asked, 0)
	q.Event("gates", now.Time)
	want(t, asked, 1)
	want(t, q.Counts(), queue.Counts{Gated: 1})
	gate = ""
	q.Event("fit", now.Time)
	want(t, q.Counts(), queue.Counts{Gated: 1})
	q.Event("gates", now.Time)
	want(t, q.Counts(), queue.Counts{Active: 1})
	item := q.Pop(now.Time)
	want(t, item.RefusedBy, []string{"fit", "ports"})
}

func TestUpdate(t *testing.T) {
	now := newClock()
	q := queue.New(now.Time, byName())
	q.Update(pod("new"), "any", now.Time)
	q.Add(pod("a"), now.Time)
	q.Update(important("a", 5), "any", now.Time)
	want(t, popAll(q, now.Time), []string{"a", "new"})

	q.Add(pod("b"), now.Time)
	q.Return(q.Pop(now.Time), pod("b"), []string{"fit"}, now.Time)
	labelled := pod("b")
	labelled.Labels = map[string]string{"k": "v"}
	q.Update(labelled, "taints", now.after(time.Minute))
	want(t, q.Counts(), queue.Counts{Waiting: 1})
	q.Update(labelled, "fit", now.Time)
	if item := q.Pop(now.Time); item == nil || item.Pod != labelled {
		t.Errorf("popped %+v", item)
	}
}

func TestReturnOfAnOldPod(t *testing.T) {
	now := newClock()
	q := queue.New(now.Time, byName())
	q.Add(pod("a"), now.Time)
	item := q.Pop(now.Time)
	again := pod("a")
	q.Add(again, now.Time)
	q.Return(item, item.Pod, nil, now.Time)
	want(t, q.Counts(), queue.Counts{Active: 1})
	if got := q.Pop(now.Time); got.Pod != again {
		t.Error("the new pod was replaced by the old")
	}
}

// In any sequence of calls, no pod is lost or duplicated, and Next keeps its promise.
func TestRandom(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		now := newClock()
		q := queue.New(now.Time, byName())
		there := map[string]bool{}
		var out []*queue.Item
		for range 300 {
			now.after(time.Duration(r.IntN(3000)) * time.Millisecond)
			p := pod(fmt.Sprint(r.IntN(8)))
			reason := []string{"fit", "ports"}[r.IntN(2)]
			switch r.IntN(6) {
			case 0:
				if !there[p.Name] {
					q.Add(p, now.Time)
					there[p.Name] = true
				}
			case 1:
				q.Event(reason, now.Time)
			case 2:
				if item := q.Pop(now.Time); item != nil {
					out = append(out, item)
				}
			case 3:
				if len(out) > 0 {
					item := out[0]
					out = out[1:]
					q.Return(item, item.Pod, [][]string{nil, {reason}}[r.IntN(2)], now.Time)
				}
			case 4:
				if len(out) == 0 && there[p.Name] {
					q.Delete(p)
					delete(there, p.Name)
				}
			case 5:
				if next, ok := q.Next(now.Time); ok && next.Before(now.Time.Add(-time.Second)) {
					q.Flush(now.Time)
				}
			}
			c := q.Counts()
			if got := c.Active + c.Backoff + c.Waiting + c.Gated + len(out); got != len(there) {
				t.Fatalf("seed %d: %d of %d pods", seed, got, len(there))
			}
		}
		for _, item := range out {
			q.Return(item, item.Pod, nil, now.Time)
		}
		for n := 0; n < len(there); {
			next, ok := q.Next(now.Time)
			if !ok {
				t.Fatalf("seed %d: %d pods are never tried again", seed, len(there)-n)
			}
			if next.After(now.Time) {
				now.Time = next
			}
			n += len(popAll(q, now.Time))
		}
	}
}

// TestGatedWhileBackingOff: a gated pod is not among those in back-off, which are tried when nothing is active.
func TestGatedWhileBackingOff(t *testing.T) {
	now := newClock()
	o := byName()
	gate := ""
	o.Gate = func(*corev1.Pod) string { return gate }
	q := queue.New(now.Time, o)
	q.Add(pod("a"), now.Time)
	q.Return(q.Pop(now.Time), pod("a"), []string{"fit"}, now.after(300*time.Millisecond))
	gate = "gates"
	q.Event("fit", now.Time)
	want(t, q.Counts(), queue.Counts{Gated: 1})
	want(t, popAll(q, now.after(time.Minute)), nil)
}

// TestSweepsAreRare: a pod that waited too long and is held again waits as long again.
func TestSweepsAreRare(t *testing.T) {
	now := newClock()
	o := byName()
	asked := 0
	o.Gate = func(*corev1.Pod) string { asked++; return "gates" }
	q := queue.New(now.Time, o)
	q.Add(pod("a"), now.Time)
	asked = 0
	for range 120 { // an hour
		q.Flush(now.after(30 * time.Second))
	}
	want(t, asked, 10) // once in 5 min and a half
}

// TestOrderOfArrival: of equal pods that arrived at the same time, the first is tried first.
func TestOrderOfArrival(t *testing.T) {
	now := newClock()
	q := queue.New(now.Time, byName())
	var names []string
	for i := range 40 {
		names = append(names, fmt.Sprint(i*7%40))
		q.Add(pod(names[i]), now.Time)
	}
	want(t, popAll(q, now.Time), names)
}

// Without options, every event is a reason to retry a pod.
func TestEveryEventHelpsByDefault(t *testing.T) {
	now := newClock()
	q := queue.New(now.Time, queue.Options[string]{})
	q.Add(pod("a"), now.Time)
	q.Return(q.Pop(now.Time), pod("a"), []string{"fit"}, now.Time)
	q.Event("anything", now.after(time.Minute))
	want(t, q.Counts(), queue.Counts{Active: 1})
}

// A pod without a priority has priority 0.
func TestNoPriorityIsZero(t *testing.T) {
	now := newClock()
	q := queue.New(now.Time, byName())
	for _, p := range []*corev1.Pod{important("first", 0), pod("second"), important("third", 0), important("most", 1), important("least", -1)} {
		q.Add(p, now.Time)
	}
	want(t, popAll(q, now.Time), []string{"most", "first", "second", "third", "least"})
}

// A deleted pod that is updated afterwards is a new one.
func TestUpdateOfADeletedPod(t *testing.T) {
	now := newClock()
	q := queue.New(now.Time, byName())
	q.Add(pod("a"), now.Time)
	q.Return(q.Pop(now.Time), pod("a"), []string{"fit"}, now.Time)
	q.Delete(pod("a"))
	q.Update(pod("a"), "labels", now.Time)
	want(t, q.Counts(), queue.Counts{Active: 1})
	want(t, q.Pop(now.Time).Attempts, 1)
}

// An active pod needs no event, and no gate takes it back.
func TestUpdateOfActivePod(t *testing.T) {
	now := newClock()
	gate := ""
	q := queue.New(now.Time, queue.Options[string]{
		Gate:    func(*corev1.Pod) string { return gate },
		MayHelp: func(*corev1.Pod, []string, string) bool { t.Error("asked for an event's use"); return true },
	})
	q.Add(pod("a"), now.Time)
	gate = "gates"
	q.Update(important("a", 3), "labels", now.Time)
	want(t, q.Counts(), queue.Counts{Active: 1})
	want(t, *q.Pop(now.Time).Pod.Spec.Priority, 3)
}

// The back-off of refusals counts refusals, however many errors came between; that of an error after refusals
// counts errors only.
func TestRefusalsAndErrorsCountApart(t *testing.T) {
	now := newClock()
	q := queue.New(now.Time, byName())
	q.Add(pod("a"), now.Time)
	fail := func(refusedBy ...string) {
		now.after(time.Minute)
		q.Event("fit", now.Time)
		q.Return(q.Pop(now.Time), pod("a"), refusedBy, now.Time)
	}
	wait := func() time.Duration {
		q.Event("fit", now.Time)
		q.Add(important("other", 9), now.Time)
		for waited := time.Duration(0); ; waited += time.Second {
			q.Flush(now.Add(waited))
			if q.Counts().Active > 1 {
				q.Delete(pod("other"))
				return waited - time.Second // the last second counts whole
			}
		}
	}
	fail("fit")
	want(t, wait(), time.Second)
	fail("fit")
	want(t, wait(), 2*time.Second)
	fail()
	want(t, wait(), time.Second)
	fail()
	want(t, wait(), 2*time.Second)
	fail("fit")
	want(t, wait(), 4*time.Second)
	fail("fit")
	want(t, wait(), 8*time.Second)
	fail()
	want(t, wait(), time.Second)
}

// Next returns the earlier of the end of a back-off and the sweep.
func TestNextIsTheFirst(t *testing.T) {
	for _, tt := range []struct{ at, want time.Duration }{
		{27 * time.Second, 29 * time.Second}, // the back-off of an error ends
		{29 * time.Second, 30 * time.Second}, // the sweep comes before it
	} {
		now := newClock()
		start := now.Time
		q := queue.New(now.Time, byName())
		q.Add(pod("refused"), now.Time)
		q.Return(q.Pop(now.Time), pod("refused"), []string{"fit"}, now.Time)
		q.Add(pod("failed"), now.after(tt.at))
		q.Return(q.Pop(now.Time), pod("failed"), nil, now.Time)
		next, ok := q.Next(now.Time)
		if !ok || next.Sub(start) != tt.want {
			t.Errorf("next is at %v, %v", next.Sub(start), ok)
		}
	}
}

// A pod that a gate held when something happened is tried at once when it is released, if no gate holds it any more.
func TestRelease(t *testing.T) {
	now := newClock()
	o := byName()
	gate := ""
	o.Gate = func(*corev1.Pod) string { return gate }
	q := queue.New(now.Time, o)
	q.Add(pod("a"), now.Time)
	q.Return(q.Pop(now.Time), pod("a"), []string{"fit"}, now.Time)
	q.Release(pod("a"), now.after(time.Minute)) // nothing happened
	want(t, q.Counts(), queue.Counts{Waiting: 1})
	gate = "gates"
	q.Event("fit", now.Time)
	want(t, q.Counts(), queue.Counts{Gated: 1})
	q.Release(pod("a"), now.Time)
	want(t, q.Counts(), queue.Counts{Gated: 1})
	gate = ""
	q.Release(pod("a"), now.Time)
	q.Release(pod("unknown"), now.Time)
	want(t, q.Counts(), queue.Counts{Active: 1})
	want(t, q.Pop(now.Time).RefusedBy, []string{"fit"})
}

// Retry has the back-off of an error, which is longer each time, whatever the pod waits for.
func TestRetry(t *testing.T) {
	now := newClock()
	o := byName()
	gate := ""
	o.Gate = func(*corev1.Pod) string { return gate }
	q := queue.New(now.Time, o)
	q.Retry(pod("unknown"), now.Time)
	q.Add(pod("a"), now.Time)
	q.Retry(pod("a"), now.Time)
	want(t, q.Counts(), queue.Counts{Active: 1})
	var waits []time.Duration
	for i := range 3 {
		q.Return(q.Pop(now.Time), pod("a"), []string{"fit"}, now.Time)
		if i == 1 {
			gate = "gates"
			q.Event("fit", now.after(time.Minute))
			gate = ""
		}
		q.Retry(pod("a"), now.Time)
		want(t, q.Counts(), queue.Counts{Backoff: 1})
		want(t, q.Pop(now.Time) == nil, true)
		next, _ := q.Next(now.Time)
		waits = append(waits, next.Sub(now.Time))
		now.Time = next
	}
	want(t, waits, []time.Duration{2e9, 2e9, 2e9}) // a refusal forgets errors
}
