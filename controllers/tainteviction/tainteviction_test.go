package tainteviction_test

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/internal/trial"
	"github.com/keelson-dev/keelson/controllers/tainteviction"
	"github.com/keelson-dev/keelson/informer"
)

var nodes = corev1.SchemeGroupVersion.WithResource("nodes")

// bench is a running controller with its API, in a bubble.
type bench struct {
	*testing.T
	api    *controllerstest.API
	events controllerstest.Recorder
	began  time.Time
	log    trial.Text // of failures
}

func inBubble(t *testing.T, before func(faults.Request) error, test func(*bench)) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t, api: controllerstest.Start(t, controllerstest.Options{Before: before}), began: time.Now()}
		detect := informer.Options{DetectMutations: func(err error) { t.Error(err) }}
		in := tainteviction.Sources{
			Nodes: informer.New(controllerstest.Source[*corev1.Node](b.api, nodes), detect),
			Pods:  informer.New(controllerstest.Source[*corev1.Pod](b.api, controllerstest.Pods()), detect),
		}
		log := slog.New(slog.NewTextHandler(&b.log, &slog.HandlerOptions{Level: slog.LevelWarn}))
		loop := controllers.NewLoop(tainteviction.New(in, b.api, &b.events), controllers.Options{Workers: 3, Logger: log})
		controllerstest.Go(t, in.Nodes, in.Pods, loop)
		b.put(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
		test(b)
	})
}

func (b *bench) until(d time.Duration) {
	time.Sleep(time.Until(b.began.Add(d)))
	synctest.Wait()
}

// put creates a node or pod.
func (b *bench) put(obj informer.Object) {
	b.Helper()
	controllerstest.Add(b, b.api, obj)
	synctest.Wait()
}

// p is where the pod p is.
func p(subresource string) client.Target {
	return client.Target{Resource: controllerstest.Pods(), Namespace: "ns", Name: "p", Subresource: subresource}
}

// update is what others make of the pod p.
func (b *bench) update(change func(*corev1.Pod)) {
	b.Helper()
	pod := b.get("p")
	change(pod)
	if _, err := b.api.Others.Update(b.Context(), p(""), pod, metav1.UpdateOptions{}); err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
}

// delete is what others delete.
func (b *bench) delete(t client.Target) {
	b.Helper()
	if err := b.api.Others.Delete(b.Context(), t, *metav1.NewDeleteOptions(0)); err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
}

func pod(name string, tolerations ...corev1.Toleration) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
		Spec:       corev1.PodSpec{NodeName: "n", Tolerations: tolerations, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
}

func toleration(key string, seconds int64) corev1.Toleration {
	return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr.To(seconds)}
}

// taint gives the node NoExecute taints of these keys, and one that evicts no pods.
func (b *bench) taint(keys ...string) {
	b.Helper()
	at := client.Target{Resource: nodes, Name: "n"}
	obj, err := b.api.Others.Get(b.Context(), at)
	if err != nil {
		b.Fatal(err)
	}
	node := obj.(*corev1.Node)
	node.Spec.Taints = []corev1.Taint{{Key: "soft", Effect: corev1.TaintEffectNoSchedule}}
	for _, key := range keys {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute})
	}
	if _, err := b.api.Others.Update(b.Context(), at, node, metav1.UpdateOptions{}); err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
}

func (b *bench) get(name string) *corev1.Pod {
	b.Helper()
	obj, err := b.api.Others.Get(b.Context(), client.Target{Resource: controllerstest.Pods(), Namespace: "ns", Name: name})
	if err != nil {
		b.Fatal(err)
	}
	return obj.(*corev1.Pod)
}

func (b *bench) wantDeleted(name string, want bool) {
	b.Helper()
	if got := b.get(name).DeletionTimestamp != nil; got != want {
		b.Errorf("%v after: %s deleted is %v", time.Since(b.began), name, got)
	}
}

func (b *bench) wantEvents(want ...string) {
	b.Helper()
	got := b.events.Take()
	slices.Sort(got)
	if !slices.Equal(got, want) {
		b.Errorf("events:\n got %q\nwant %q", got, want)
	}
}

func TestEvictsAtOnce(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.put(pod("p"))
		b.put(pod("stays", corev1.Toleration{Operator: corev1.TolerationOpExists}))
		b.taint()
		b.wantEvents()
		b.taint("gone")
		b.wantDeleted("p", true)
		b.wantDeleted("stays", false)
		var writes []string
		for _, a := range b.api.Writes() {
			writes = append(writes, a.String())
		}
		if want := []string{"patch pods/status ns/p", "delete pods ns/p"}; !slices.Equal(writes, want) {
			b.Errorf("writes %q", writes)
		}
		b.wantEvents("Normal TaintManagerEviction Marking for deletion Pod ns/p")
		p := b.get("p")
		if *p.DeletionGracePeriodSeconds != 30 || len(p.Status.Conditions) != 1 {
			b.Fatalf("deleted with %v s, conditions %v", *p.DeletionGracePeriodSeconds, p.Status.Conditions)
		}
		c := p.Status.Conditions[0]
		if c.Type != corev1.DisruptionTarget || c.Status != corev1.ConditionTrue || c.Reason != "DeletionByTaintManager" ||
			c.Message != "Taint manager: deleting due to NoExecute taint" || c.ObservedGeneration != 1 || c.LastTransitionTime.IsZero() {
			b.Errorf("condition %+v", c)
		}
		// A pod that comes to a tainted node goes as well.
		b.put(pod("late"))
		b.wantDeleted("late", true)
	})
}

func TestEvictsAfterToleration(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.put(pod("p", toleration("a", 300), toleration("b", 10)))
		b.until(100 * time.Second)
		b.taint("a")
		b.put(pod("short", toleration("a", 20)))
		b.until(119 * time.Second)
		b.wantDeleted("short", false)
		b.until(120 * time.Second)
		b.wantDeleted("short", true)
		// Another taint does not change the deadline that is set, even if it is tolerated less.
		b.taint("a", "b")
		b.until(399 * time.Second)
		b.wantDeleted("p", false)
		b.until(400 * time.Second)
		b.wantDeleted("p", true)
		// As upstream, a pod that is being deleted is deleted again when taints change.
		b.wantEvents("Normal TaintManagerEviction Marking for deletion Pod ns/p",
			"Normal TaintManagerEviction Marking for deletion Pod ns/short", "Normal TaintManagerEviction Marking for deletion Pod ns/short")
		b.until(2000 * time.Second)
		b.wantEvents()
	})
}

func TestCancels(t *testing.T) {
	for name, tt := range map[string]struct {
		change  func(b *bench)
		evicted bool // at 300 s
		events  []string
	}{
		"the taint goes": {
			change: func(b *bench) { b.taint() },
			events: []string{"Normal TaintManagerEviction Cancelling deletion of Pod ns/p"},
		},
		"the taint comes again": {
			change: func(b *bench) { b.taint(); b.taint("a") },
			events: []string{"Normal TaintManagerEviction Cancelling deletion of Pod ns/p"},
		},
		"a taint that is not tolerated": {
			change:  func(b *bench) { b.taint("a", "b") },
			evicted: true,
			events: []string{
				"Normal TaintManagerEviction Cancelling deletion of Pod ns/p",
				"Normal TaintManagerEviction Marking for deletion Pod ns/p",
			},
		},
		"tolerated for ever": {
			change: func(b *bench) { b.update(func(p *corev1.Pod) { p.Spec.Tolerations[0].TolerationSeconds = nil }) },
			events: []string{"Normal TaintManagerEviction Cancelling deletion of Pod ns/p"},
		},
		"the pod goes and one of its name comes": {
			change: func(b *bench) {
				b.delete(p(""))
				b.put(pod("p", toleration("a", 600)))
			},
			events: []string{"Normal TaintManagerEviction Cancelling deletion of Pod ns/p"},
		},
		"something else changes": {
			change:  func(b *bench) { b.update(func(p *corev1.Pod) { p.Labels = map[string]string{"x": "y"} }) },
			evicted: true,
			events:  []string{"Normal TaintManagerEviction Marking for deletion Pod ns/p"},
		},
		"the node goes": {
			change:  func(b *bench) { b.delete(client.Target{Resource: nodes, Name: "n"}) },
			evicted: true,
			events:  []string{"Normal TaintManagerEviction Marking for deletion Pod ns/p"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, func(b *bench) {
				b.put(pod("p", toleration("a", 300)))
				b.taint("a")
				b.until(100 * time.Second)
				tt.change(b)
				b.until(300 * time.Second)
				b.wantDeleted("p", tt.evicted)
				b.wantEvents(tt.events...)
			})
		})
	}
}

// TestTolerationStartsAnew: after the taint was gone, the whole time counts again.
func TestTolerationStartsAnew(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.put(pod("p", toleration("a", 300)))
		b.taint("a")
		b.until(200 * time.Second)
		b.taint()
		b.until(250 * time.Second)
		b.taint("a")
		b.until(549 * time.Second)
		b.wantDeleted("p", false)
		b.until(550 * time.Second)
		b.wantDeleted("p", true)
	})
}

func TestRetries(t *testing.T) {
	for name, tt := range map[string]struct {
		failures int
		evicted  bool
	}{"in time": {4, true}, "given up": {5, false}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, func(b *bench) {
				b.api.Inject(faults.Fault{Verb: faults.Delete, Err: errors.New("no"), Times: tt.failures})
				b.put(pod("p"))
				b.taint("a")
				b.until(10 * time.Second)
				b.wantDeleted("p", tt.evicted)
				b.wantEvents("Normal TaintManagerEviction Marking for deletion Pod ns/p")
			})
		})
	}
}

// TestReasonComesFirst: no pod is deleted before its status says why.
func TestReasonComesFirst(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.api.Inject(faults.Fault{Verb: faults.Patch, Err: errors.New("no"), Times: 4})
		b.put(pod("p"))
		b.taint("a")
		b.until(10 * time.Second)
		b.wantDeleted("p", true)
		deletions := 0
		for _, a := range b.api.Writes() {
			if a.Verb == faults.Delete {
				deletions++
			}
		}
		if deletions != 1 || len(b.get("p").Status.Conditions) != 1 {
			b.Errorf("deleted %d times, conditions %v", deletions, b.get("p").Status.Conditions)
		}
	})
}

// TestTries: a deletion is tried five times, 10 ms apart; then the failure is reported. A pod that is gone is none.
func TestTries(t *testing.T) {
	gone := apierrors.NewNotFound(controllerstest.Pods().GroupResource(), "p")
	for name, tt := range map[string]struct {
		verb   string
		answer error
		tries  int
		told   bool
	}{
		"refused":  {faults.Delete, errors.New("no"), 5, true},
		"unread":   {faults.Get, errors.New("no"), 5, true},
		"gone":     {faults.Get, gone, 1, false},
		"gone now": {faults.Delete, gone, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			var tries []time.Time
			inBubble(t, func(r faults.Request) error {
				if r.Verb == tt.verb {
					tries = append(tries, time.Now())
				}
				return nil
			}, func(b *bench) {
				b.api.Inject(faults.Fault{Verb: tt.verb, Err: tt.answer, Times: -1})
				b.put(pod("p"))
				b.taint("a")
				b.until(time.Minute)
				for i, at := range tries {
					if got := at.Sub(b.began); got != time.Duration(i)*10*time.Millisecond {
						t.Errorf("try %d after %v", i, got)
					}
				}
				if len(tries) != tt.tries || strings.Contains(b.log.String(), "evicting pod ns/p") != tt.told {
					t.Errorf("%d tries, logged %s", len(tries), b.log.String())
				}
			})
		})
	}
}

// TestBound: an unbound pod need not go; one that is bound to a tainted node has to.
func TestBound(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.taint("a")
		unbound := pod("p")
		unbound.Spec.NodeName = ""
		b.put(unbound)
		b.until(time.Minute)
		b.wantEvents()
		binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Target: corev1.ObjectReference{Kind: "Node", Name: "n"}}
		if _, err := b.api.Others.Create(b.Context(), p("binding"), binding, metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
		synctest.Wait()
		b.wantDeleted("p", true)
	})
}

// TestWhichDeadline: a deadline that was set before stands even when a taint comes that is tolerated for no time; one of the same
// moment does not stand.
func TestWhichDeadline(t *testing.T) {
	t.Run("set before", func(t *testing.T) {
		inBubble(t, nil, func(b *bench) {
			b.put(pod("p", toleration("a", 300), toleration("b", 0)))
			b.taint("a")
			b.until(100 * time.Second)
			b.taint("a", "b")
			b.until(299 * time.Second)
			b.wantDeleted("p", false)
			b.until(300 * time.Second)
			b.wantDeleted("p", true)
		})
	})
	t.Run("set just now", func(t *testing.T) {
		inBubble(t, nil, func(b *bench) {
			b.put(pod("p", toleration("a", 300)))
			b.taint("a")
			b.update(func(p *corev1.Pod) { *p.Spec.Tolerations[0].TolerationSeconds = 10 })
			b.until(9 * time.Second)
			b.wantDeleted("p", false)
			b.until(10 * time.Second)
			b.wantDeleted("p", true)
		})
	})
}

// TestNodesThatCome: the pods of a node that is known only after them have to go as well; those of one that never is stay.
func TestNodesThatCome(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		early := pod("p")
		early.Spec.NodeName = "late"
		b.put(early)
		b.until(time.Second)
		b.wantDeleted("p", false)
		b.put(&corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "late"},
			Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "a", Effect: corev1.TaintEffectNoExecute}}},
		})
		b.wantDeleted("p", true)
	})
}
