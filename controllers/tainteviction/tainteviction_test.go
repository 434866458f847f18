package tainteviction_test

import (
	"context"
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
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/internal/trial"
	"github.com/keelson-dev/keelson/controllers/tainteviction"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/internal/fakeapi"
	"github.com/keelson-dev/keelson/lifecycle"
)

var nodes = corev1.SchemeGroupVersion.WithResource("nodes")

// bench is a running controller with a server, in a bubble.
type bench struct {
	*testing.T
	api    *fakeapi.Server
	events fakeapi.Recorder
	began  time.Time
	log    trial.Text // of failures
}

func inBubble(t *testing.T, before func(fakeapi.Action) error, test func(*bench)) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t, api: fakeapi.New(fakeapi.Options{Before: before}), began: time.Now()}
		detect := informer.Options{DetectMutations: func(err error) { t.Error(err) }}
		in := tainteviction.Sources{
			Nodes: informer.New(fakeapi.Source[*corev1.Node](b.api, nodes), detect),
			Pods:  informer.New(fakeapi.Source[*corev1.Pod](b.api, fakeapi.Pods), detect),
		}
		loop := controllers.NewLoop(tainteviction.New(in, b.api, &b.events), controllers.Options{Workers: 3, Logger: slog.New(slog.NewTextHandler(&b.log, &slog.HandlerOptions{Level: slog.LevelWarn}))})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- lifecycle.Group(in.Nodes, in.Pods, loop).Run(ctx) }()
		b.put(nodes.Resource, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
		test(b)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func (b *bench) until(d time.Duration) {
	time.Sleep(time.Until(b.began.Add(d)))
	synctest.Wait()
}

// put creates a node or pod.
func (b *bench) put(resource string, obj interface {
	metav1.Object
	informer.Object
}) {
	b.Helper()
	at := client.Target{Resource: corev1.SchemeGroupVersion.WithResource(resource), Namespace: obj.GetNamespace()}
	if _, err := b.api.Create(b.Context(), at, obj, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
}

func pod(name string, tolerations ...corev1.Toleration) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
		Spec:       corev1.PodSpec{NodeName: "n", Tolerations: tolerations},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
}

func toleration(key string, seconds int64) corev1.Toleration {
	return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, TolerationSeconds: ptr.To(seconds)}
}

// taint gives the node NoExecute taints of these keys, and one that does not drive anyone off.
func (b *bench) taint(keys ...string) {
	b.Helper()
	at := client.Target{Resource: nodes, Name: "n"}
	obj, err := b.api.Get(b.Context(), at)
	if err != nil {
		b.Fatal(err)
	}
	node := obj.(*corev1.Node)
	node.Spec.Taints = []corev1.Taint{{Key: "soft", Effect: corev1.TaintEffectNoSchedule}}
	for _, key := range keys {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute})
	}
	if _, err := b.api.Update(b.Context(), at, node, metav1.UpdateOptions{}); err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
}

func (b *bench) get(name string) *corev1.Pod {
	b.Helper()
	obj, err := b.api.Get(b.Context(), client.Target{Resource: fakeapi.Pods, Namespace: "ns", Name: name})
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
		b.put("pods", pod("p"))
		b.put("pods", pod("stays", corev1.Toleration{Operator: corev1.TolerationOpExists}))
		b.taint()
		b.wantEvents()
		b.api.Reset()
		b.taint("gone")
		b.wantDeleted("p", true)
		b.wantDeleted("stays", false)
		var writes []string
		for _, a := range b.api.Actions() {
			writes = append(writes, a.String())
		}
		if want := []string{"update nodes n", "patch pods/status ns/p", "delete pods ns/p"}; !slices.Equal(writes, want) {
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
		b.put("pods", pod("late"))
		b.wantDeleted("late", true)
	})
}

func TestEvictsAfterToleration(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.put("pods", pod("p", toleration("a", 300), toleration("b", 10)))
		b.until(100 * time.Second)
		b.taint("a")
		b.put("pods", pod("short", toleration("a", 20)))
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
			change: func(b *bench) {
				p := b.get("p")
				p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
				if _, err := b.api.Update(b.Context(), client.Target{Resource: fakeapi.Pods, Namespace: "ns", Name: "p"}, p, metav1.UpdateOptions{}); err != nil {
					b.Fatal(err)
				}
			},
			events: []string{"Normal TaintManagerEviction Cancelling deletion of Pod ns/p"},
		},
		"the pod goes and one of its name comes": {
			change: func(b *bench) {
				at := client.Target{Resource: fakeapi.Pods, Namespace: "ns", Name: "p"}
				if err := b.api.Delete(b.Context(), at, *metav1.NewDeleteOptions(0)); err != nil {
					b.Fatal(err)
				}
				synctest.Wait()
				b.put("pods", pod("p", toleration("a", 600)))
			},
			events: []string{"Normal TaintManagerEviction Cancelling deletion of Pod ns/p"},
		},
		"something else changes": {
			change: func(b *bench) {
				p := b.get("p")
				p.Labels = map[string]string{"x": "y"}
				if _, err := b.api.Update(b.Context(), client.Target{Resource: fakeapi.Pods, Namespace: "ns", Name: "p"}, p, metav1.UpdateOptions{}); err != nil {
					b.Fatal(err)
				}
			},
			evicted: true,
			events:  []string{"Normal TaintManagerEviction Marking for deletion Pod ns/p"},
		},
		"the node goes": {
			change: func(b *bench) {
				if err := b.api.Delete(b.Context(), client.Target{Resource: nodes, Name: "n"}, metav1.DeleteOptions{}); err != nil {
					b.Fatal(err)
				}
			},
			evicted: true,
			events:  []string{"Normal TaintManagerEviction Marking for deletion Pod ns/p"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, func(b *bench) {
				b.put("pods", pod("p", toleration("a", 300)))
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
		b.put("pods", pod("p", toleration("a", 300)))
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
			left := tt.failures
			before := func(a fakeapi.Action) error {
				if a.Verb == fakeapi.Delete && left > 0 {
					left--
					return errors.New("no")
				}
				return nil
			}
			inBubble(t, before, func(b *bench) {
				b.put("pods", pod("p"))
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
	left := 4
	inBubble(t, func(a fakeapi.Action) error {
		if a.Verb == fakeapi.Patch && left > 0 {
			left--
			return errors.New("no")
		}
		return nil
	}, func(b *bench) {
		b.put("pods", pod("p"))
		b.api.Reset()
		b.taint("a")
		b.until(10 * time.Second)
		b.wantDeleted("p", true)
		deletions := 0
		for _, a := range b.api.Actions() {
			if a.Verb == fakeapi.Delete {
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
	gone := apierrors.NewNotFound(fakeapi.Pods.GroupResource(), "p")
	for name, tt := range map[string]struct {
		verb   string
		answer error
		tries  int
		told   bool
	}{
		"refused":  {fakeapi.Delete, errors.New("no"), 5, true},
		"unread":   {fakeapi.Get, errors.New("no"), 5, true},
		"gone":     {fakeapi.Get, gone, 1, false},
		"gone now": {fakeapi.Delete, gone, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			var tries []time.Time
			tainted := false
			inBubble(t, func(a fakeapi.Action) error {
				if !tainted || a.Verb != tt.verb || a.Target.Resource != fakeapi.Pods {
					return nil
				}
				tries = append(tries, time.Now())
				return tt.answer
			}, func(b *bench) {
				b.put("pods", pod("p"))
				tainted = true
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

// TestBound: a pod that comes to a tainted node has to go; one whose time runs keeps it when it is bound.
func TestBound(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.taint("a")
		p := pod("p")
		p.Spec.NodeName = ""
		b.put("pods", p)
		b.until(time.Minute)
		b.wantEvents()
		p = b.get("p")
		p.Spec.NodeName = "n"
		if _, err := b.api.Update(b.Context(), client.Target{Resource: fakeapi.Pods, Namespace: "ns", Name: "p"}, p, metav1.UpdateOptions{}); err != nil {
			b.Fatal(err)
		}
		synctest.Wait()
		b.wantDeleted("p", true)
	})
}

// tolerate gives the pod p other tolerations.
func (b *bench) tolerate(tolerations ...corev1.Toleration) {
	b.Helper()
	p := b.get("p")
	p.Spec.Tolerations = tolerations
	if _, err := b.api.Update(b.Context(), client.Target{Resource: fakeapi.Pods, Namespace: "ns", Name: "p"}, p, metav1.UpdateOptions{}); err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
}

// TestWhichDeadline: a deadline that was set before stands even when a taint comes that is tolerated for no time; one of the same
// moment does not stand.
func TestWhichDeadline(t *testing.T) {
	t.Run("set before", func(t *testing.T) {
		inBubble(t, nil, func(b *bench) {
			b.put("pods", pod("p", toleration("a", 300), toleration("b", 0)))
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
			b.put("pods", pod("p", toleration("a", 300)))
			b.taint("a")
			b.tolerate(toleration("a", 10))
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
		p := pod("p")
		p.Spec.NodeName = "late"
		b.put("pods", p)
		b.until(time.Second)
		b.wantDeleted("p", false)
		b.put(nodes.Resource, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "late"},
			Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "a", Effect: corev1.TaintEffectNoExecute}}},
		})
		b.wantDeleted("p", true)
	})
}
