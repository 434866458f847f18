package nodelifecycle_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/nodelifecycle"
)

// script answers some requests, and notes when they came, counted from the first.
type script struct {
	request string // "patch nodes a"
	answers []error

	mu    sync.Mutex
	first func()
	began time.Time
	times []time.Duration
}

func (s *script) before(r faults.Request) error {
	if r.String() != s.request {
		return nil
	}
	s.mu.Lock()
	if len(s.times) == 0 {
		s.began = time.Now()
	}
	s.times = append(s.times, time.Since(s.began))
	n, first := len(s.times), s.first
	s.first = nil
	s.mu.Unlock()
	if first != nil {
		first()
	}
	if n <= len(s.answers) {
		return s.answers[n-1]
	}
	return nil
}

// next is what somebody else does before the next such request.
func (s *script) next(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.first = do
}

func (s *script) want(b *bench, want ...time.Duration) {
	b.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.times, want) {
		b.Errorf("%s: tried after %v, want %v", s.request, s.times, want)
	}
}

const ms = time.Millisecond

// TestNodeRequestsThatFail: a patch of taints that conflicts is tried again 100 ms later, five times; whatever else fails is
// tried again by the loop, which waits 5 ms at first.
func TestNodeRequestsThatFail(t *testing.T) {
	conflict, refused := apierrors.NewConflict(nodes.GroupResource(), "a", errors.New("late")), errors.New("no")
	cordon := func(node *corev1.Node) { node.Spec.Unschedulable = true }
	for name, tt := range map[string]struct {
		change  func(*corev1.Node)
		request string
		answers []error
		want    []time.Duration
	}{
		"conflicts": {cordon, "patch nodes a", slices.Repeat([]error{conflict}, 6), []time.Duration{0, 100 * ms, 200 * ms, 300 * ms, 400 * ms, 405 * ms, 505 * ms}},
		"refused":   {cordon, "patch nodes a", []error{refused}, []time.Duration{0, 5 * ms}},
		"unread":    {cordon, "get nodes a", []error{refused}, []time.Duration{0, 5 * ms}},
		"labels": {func(node *corev1.Node) { node.Labels = map[string]string{"kubernetes.io/os": "linux"} }, "patch nodes a",
			[]error{refused, conflict}, []time.Duration{0, 5 * ms, 15 * ms}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &script{request: tt.request, answers: tt.answers}
			inBubble(t, s.before, func(b *bench) { b.healthy("a") }, func(b *bench) {
				b.until(time.Second)
				b.change("a", tt.change)
				b.until(3 * time.Second)
				s.want(b, tt.want...)
				node := b.get("a")
				if node.Spec.Unschedulable {
					b.wantTaints("a", "unschedulable:NoSchedule")
				} else if node.Labels["beta.kubernetes.io/os"] != "linux" {
					b.Errorf("labels %v", node.Labels)
				}
			})
		})
	}
}

// TestTaintsThatOthersChange: what others did to the taints since the cache saw them is taken into account.
func TestTaintsThatOthersChange(t *testing.T) {
	t.Run("removed", func(t *testing.T) {
		s := &script{request: "get nodes a"}
		inBubble(t, s.before, func(b *bench) { b.healthy("a") }, func(b *bench) {
			b.change("a", func(node *corev1.Node) { node.Spec.Unschedulable = true })
			b.until(time.Second)
			b.wantTaints("a", "unschedulable:NoSchedule")
			s.next(func() { b.change("a", func(node *corev1.Node) { node.Spec.Taints = nil }) })
			b.writes()
			b.change("a", func(node *corev1.Node) { node.Spec.Unschedulable = false })
			b.until(2 * time.Second)
			if got := b.writes(); got != nil {
				b.Errorf("wrote %q", got)
			}
			b.wantTaints("a")
		})
	})
	t.Run("added", func(t *testing.T) {
		s := &script{request: "get nodes a"}
		inBubble(t, s.before, func(b *bench) { b.healthy("a") }, func(b *bench) {
			b.until(time.Second)
			old := metav1.NewTime(b.began.Add(-time.Hour).Truncate(time.Second))
			s.next(func() {
				b.change("a", func(node *corev1.Node) {
					node.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule, TimeAdded: &old}}
				})
			})
			b.change("a", func(node *corev1.Node) { node.Spec.Unschedulable = true })
			b.until(2 * time.Second)
			b.wantTaints("a", "unschedulable:NoSchedule")
			if got := b.get("a").Spec.Taints[0].TimeAdded; !got.Time.Equal(b.began.Add(time.Second).Truncate(time.Second)) {
				b.Errorf("added at %v", got)
			}
		})
	})
	t.Run("taken off", func(t *testing.T) {
		inBubble(t, nil, func(b *bench) { b.healthy("a", "b") }, func(b *bench) {
			b.until(2 * time.Second)
			b.hearts["b"]()
			b.until(56 * time.Second)
			b.wantTaints("b", "unreachable:NoExecute", "unreachable:NoSchedule")
			if got, want := b.get("b").Spec.Taints[0].TimeAdded.Time, b.began.Add(55*time.Second).Truncate(time.Second); !got.Equal(want) {
				b.Errorf("added at %v, want %v", got, want)
			}
			b.change("b", func(node *corev1.Node) { node.Spec.Taints = nil })
			b.until(76 * time.Second)
			b.wantTaints("b", "unreachable:NoExecute", "unreachable:NoSchedule")
		})
	})
}

// TestStatusThatFails: the status of a silent node is tried to be written six times, 20 ms apart, then with the next look; always
// with the node as the server has it. What cannot be read is read again with the next look.
func TestStatusThatFails(t *testing.T) {
	refused, look := errors.New("no"), 5*time.Second
	for name, tt := range map[string]struct {
		request string
		answers []error
		other   bool // somebody else changes the node meanwhile
		want    []time.Duration
	}{
		"refused": {"update nodes/status b", slices.Repeat([]error{refused}, 7), false,
			[]time.Duration{0, 20 * ms, 40 * ms, 60 * ms, 80 * ms, 100 * ms, look + 100*ms, look + 120*ms}},
		"changed": {"update nodes/status b", nil, true, []time.Duration{0, 20 * ms}},
		"lease":   {"get leases kube-node-lease/b", []error{refused, refused}, false, []time.Duration{0, look, 2 * look}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &script{request: tt.request, answers: tt.answers}
			inBubble(t, s.before, func(b *bench) { b.healthy("a", "b") }, func(b *bench) {
				if tt.other {
					s.next(func() { b.change("b", func(node *corev1.Node) { node.Labels = map[string]string{"x": "y"} }) })
				}
				b.until(2 * time.Second)
				b.hearts["b"]()
				b.until(64 * time.Second)
				if tt.request == "get leases kube-node-lease/b" {
					b.wantTaints("b") // it is not known to be silent
				}
				b.until(66 * time.Second)
				s.want(b, tt.want...)
				if tt.request == "get leases kube-node-lease/b" {
					return
				}
				b.wantTaints("b", "unreachable:NoExecute", "unreachable:NoSchedule")
			})
		})
	}
	t.Run("unread", func(t *testing.T) {
		s := &script{request: "update nodes/status b", answers: []error{refused}}
		read := &script{request: "get nodes b", answers: []error{refused}}
		inBubble(t, func(r faults.Request) error { return errors.Join(s.before(r), read.before(r)) }, func(b *bench) { b.healthy("a", "b") }, func(b *bench) {
			b.until(2 * time.Second)
			b.hearts["b"]()
			b.until(61 * time.Second)
			s.want(b, 0, look+20*ms)
			b.wantTaints("b", "unreachable:NoExecute", "unreachable:NoSchedule")
		})
	})
}

// TestUnseenLease: a node whose lease the cache does not have is not silent when the server has one.
func TestUnseenLease(t *testing.T) {
	inBubble(t, nil, func(b *bench) { b.node("b", corev1.ConditionTrue) }, func(b *bench) {
		b.fails = true
		b.until(2 * time.Second)
		b.leases.Hold()
		controllerstest.Add(b, b.api, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: "b"}})
		b.until(100 * time.Second)
		if got := b.writes(); got != nil {
			b.Errorf("writes: %q", got)
		}
		b.leases.Resume()
	})
}

func (b *bench) getPod(name string) *corev1.Pod {
	b.Helper()
	pod, err := client.As[*corev1.Pod](b.api.Others.Get(b.Context(), podAt(name, "")))
	if err != nil {
		b.Fatal(err)
	}
	return pod
}

func (b *bench) podReady(name string) corev1.ConditionStatus {
	b.Helper()
	return b.getPod(name).Status.Conditions[1].Status
}

// setReady is what somebody writes who takes the pod to be ready.
func (b *bench) setReady(name string) {
	b.Helper()
	pod := b.getPod(name)
	pod.Status.Conditions[1].Status = corev1.ConditionTrue
	if _, err := b.api.Others.Update(b.Context(), podAt(name, "status"), pod, metav1.UpdateOptions{}); err != nil {
		b.Fatal(err)
	}
}

// TestUnreadyPodsThatFail: pods that could not be marked unready are with the next look, once, unless the node is back by then,
// or is not the one it was.
func TestUnreadyPodsThatFail(t *testing.T) {
	yes, no := corev1.ConditionTrue, corev1.ConditionFalse
	for name, tt := range map[string]struct {
		meanwhile func(*bench) // before the next look
		then      func(*bench) // after that
		want      corev1.ConditionStatus
	}{
		"nothing": {func(*bench) {}, func(*bench) {}, no},
		"once":    {func(*bench) {}, func(b *bench) { b.setReady("p") }, yes},
		"back":    {func(b *bench) { b.post("b", yes) }, func(*bench) {}, yes},
		"no status, then not ready": {func(b *bench) {
			node := b.get("b")
			node.Status.Conditions = nil
			b.update(node, "status")
		}, func(b *bench) { b.post("b", no) }, yes},
		"another node": {func(b *bench) {
			b.deleteNode("b")
			b.node("b", no)
		}, func(*bench) {}, yes},
	} {
		t.Run(name, func(t *testing.T) {
			s := &script{request: "update pods/status ns/p", answers: []error{errors.New("no")}}
			inBubble(t, s.before, func(b *bench) {
				b.healthy("a", "b")
				b.pod("p", "b", yes)
				controllerstest.Add(b, b.api, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "new"}, Spec: corev1.PodSpec{NodeName: "b"}}) // has no conditions
			}, func(b *bench) {
				b.until(2 * time.Second)
				b.hearts["b"]()
				b.until(57 * time.Second)
				tt.meanwhile(b)
				b.until(62 * time.Second)
				tt.then(b)
				b.until(90 * time.Second)
				if got := b.podReady("p"); got != tt.want {
					b.Errorf("the pod is ready: %s", got)
				}
			})
		})
	}
}

// TestBoundPods: pods that come to a node that is not ready are marked unready, again when that fails, and no others are.
func TestBoundPods(t *testing.T) {
	yes, no := corev1.ConditionTrue, corev1.ConditionFalse
	s := &script{request: "update pods/status ns/p", answers: []error{errors.New("no")}}
	gone := &script{request: "update pods/status ns/gone", answers: []error{apierrors.NewNotFound(controllerstest.Pods().GroupResource(), "gone")}}
	inBubble(t, func(r faults.Request) error { return errors.Join(s.before(r), gone.before(r)) }, func(b *bench) {
		b.healthy("a")
		b.node("sick", no)
		b.heart("sick")
		b.pod("late", "", yes)
	}, func(b *bench) {
		b.until(7 * time.Second)
		b.events.Take()
		b.pod("p", "sick", yes)
		b.until(8 * time.Second)
		s.want(b, 0, 5*ms)
		b.pod("gone", "sick", yes)
		b.until(9 * time.Second)
		told := "Warning NodeNotReady Node is not ready"
		b.wantEvents(told, told) // for the first pod, also when it failed

		b.bind("late", "sick")
		b.until(10 * time.Second)
		if got := b.podReady("late"); got != no {
			b.Errorf("a pod that was bound is ready: %s", got)
		}
		b.setReady("late")
		b.until(20 * time.Second)
		if got := b.podReady("late"); got != yes {
			b.Errorf("a pod that was bound before is ready: %s", got)
		}

		b.deleteNode("sick")
		b.until(20*time.Second + ms)
		b.log.Reset()
		b.until(21 * time.Second)
		b.pod("lost", "sick", yes)
		b.until(22 * time.Second)
		if got := b.log.String(); !strings.Contains(got, "pod ns/lost: node \\\"sick\\\" is not in the cache") {
			b.Errorf("logged %s", got)
		}
		b.until(40 * time.Second)
		if got := b.podReady("lost"); got != yes {
			b.Errorf("a pod of a node that is no more is ready: %s", got)
		}
		for _, key := range []controllers.Key{{Namespace: "ns", Name: "unknown"}, {Name: "unknown"}} {
			if result, err := b.controller.Reconcile(b.Context(), key); err != nil || result != (controllers.Result{}) {
				b.Errorf("%s: %v, %v", key, result, err)
			}
		}
	})
}

// TestTurns: a node whose turn to be tainted it is may be back by then, or gone, or may have lost its status.
func TestTurns(t *testing.T) {
	for name, tt := range map[string]struct {
		before func(*bench) // just before it is c's turn
		want   []string
	}{
		"still silent": {func(*bench) {}, []string{"unreachable:NoExecute", "unreachable:NoSchedule"}},
		"back":         {func(b *bench) { b.post("c", corev1.ConditionTrue) }, nil},
		"gone": {func(b *bench) {
			b.deleteNode("c")
		}, nil},
		"without status": {func(b *bench) {
			node := b.get("c")
			node.Status.Conditions = nil
			b.update(node, "status")
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, func(b *bench) { b.healthy("a", "b", "c", "d", "e") }, func(b *bench) {
				b.until(2 * time.Second)
				b.hearts["b"]()
				b.hearts["c"]()
				b.until(65*time.Second + 50*ms)
				b.wantTaints("b", "unreachable:NoExecute", "unreachable:NoSchedule")
				b.wantTaints("c", "unreachable:NoSchedule")
				tt.before(b)
				b.until(65*time.Second + 200*ms)
				if name != "gone" {
					b.wantTaints("c", tt.want...)
				}
			})
		})
	}
}

// TestNewNode: a node that comes later is looked at at once; one that comes again is another one.
func TestNewNode(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.healthy("a")
		b.node("b")
	}, func(b *bench) {
		b.until(time.Second)
		b.node("late", corev1.ConditionFalse)
		b.until(2 * time.Second)
		b.wantTaints("late", "not-ready:NoSchedule")
		b.until(40 * time.Second)
		b.events.Take()
		b.deleteNode("b")
		b.until(46 * time.Second)
		b.wantEvents("Normal RemovingNode Node b event: Removing Node b from Controller")
		b.node("b")
		b.until(51 * time.Second)
		b.wantEvents("Normal RegisteredNode Node b event: Registered Node b in Controller")
		b.until(100 * time.Second)
		b.wantTaints("b") // its minute is counted from its own creation
		b.until(112 * time.Second)
		b.wantTaints("b", "unreachable:NoExecute", "unreachable:NoSchedule")
	})
}

// TestParallel: how many nodes are looked at at once, by Options.Parallel.
func TestParallel(t *testing.T) {
	for parallel, want := range map[int]int{0: 8, 1: 1, 3: 3} {
		t.Run(fmt.Sprint(parallel), func(t *testing.T) {
			var mu sync.Mutex
			now, most, asked := 0, 0, 0
			b := &bench{options: nodelifecycle.Options{Parallel: parallel}, mute: true}
			b.run(t, func(r faults.Request) error {
				if r.Verb != faults.Get || r.Target.Resource != leases {
					return nil
				}
				mu.Lock()
				now++
				asked++
				most = max(most, now)
				mu.Unlock()
				time.Sleep(10 * ms)
				mu.Lock()
				defer mu.Unlock()
				now--
				return nil
			}, func(b *bench) {
				for i := range 12 {
					b.node(fmt.Sprintf("n%02d", i), corev1.ConditionTrue)
				}
			}, func(b *bench) {
				b.until(57 * time.Second)
				if most != want || asked != 12 {
					b.Errorf("%d at once, want %d; %d in all", most, want, asked)
				}
			})
		})
	}
}
