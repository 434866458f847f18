package podgc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/podgc"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/internal/fakeapi"
	"github.com/keelson-dev/keelson/lifecycle"
)

var nodes = corev1.SchemeGroupVersion.WithResource("nodes")

// bench is a running controller with a server, in a bubble.
type bench struct {
	*testing.T
	api   *fakeapi.Server
	nodes *fakeapi.Feed[*corev1.Node]
	began time.Time
	stop  context.CancelFunc // ends the controller
}

// graceless holds deletions to being without grace, and with no conditions.
type graceless struct {
	*fakeapi.Server
	t *testing.T
}

func (g graceless) Delete(ctx context.Context, at client.Target, o metav1.DeleteOptions) error {
	if o.GracePeriodSeconds == nil || *o.GracePeriodSeconds != 0 || o.Preconditions != nil {
		g.t.Errorf("deletes %v with %+v", at, o)
	}
	return g.Server.Delete(ctx, at, o)
}

// inBubble runs test against a controller; prepare makes what is there before it starts.
func inBubble(t *testing.T, o podgc.Options, before func(fakeapi.Action) error, prepare, test func(*bench)) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t, api: fakeapi.New(fakeapi.Options{Before: before})}
		b.nodes = fakeapi.Source[*corev1.Node](b.api, nodes)
		detect := informer.Options{DetectMutations: func(err error) { t.Error(err) }}
		in := podgc.Sources{
			Nodes: informer.New(b.nodes, detect),
			Pods:  informer.New(fakeapi.Source[*corev1.Pod](b.api, fakeapi.Pods), detect),
		}
		loop := controllers.NewLoop(podgc.New(in, graceless{b.api, t}, o), controllers.Options{})
		prepare(b)
		b.api.Reset()
		ctx, cancel := context.WithCancel(t.Context())
		b.stop = cancel
		done := make(chan error)
		go func() { done <- lifecycle.Group(in.Nodes, in.Pods, loop).Run(ctx) }()
		time.Sleep(100 * time.Millisecond) // until the first round
		b.began = time.Now()
		synctest.Wait()
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

// pod creates a pod of namespace ns; change may alter it before, and "deleted" ones are marked.
func (b *bench) pod(name, node string, phase corev1.PodPhase, change func(*corev1.Pod)) {
	b.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: phase}}
	if change != nil {
		change(pod)
	}
	if _, err := b.api.Create(b.Context(), client.Target{Resource: fakeapi.Pods, Namespace: "ns"}, pod, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) delete(name string) {
	b.Helper()
	if err := b.api.Delete(b.Context(), client.Target{Resource: fakeapi.Pods, Namespace: "ns", Name: name}, metav1.DeleteOptions{}); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) node(name string, ready corev1.ConditionStatus, taints ...string) {
	b.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
	for _, key := range taints {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute})
	}
	if _, err := b.api.Create(b.Context(), client.Target{Resource: nodes}, node, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
}

// wantWrites compares the writes since the last call, as text with patches.
func (b *bench) wantWrites(want ...string) {
	b.Helper()
	var got []string
	for _, a := range b.api.Actions() {
		text := a.String()
		if a.Patch != nil {
			text += " " + string(a.Patch)
		}
		got = append(got, text)
	}
	b.api.Reset()
	if !slices.Equal(got, want) {
		b.Errorf("%v after:\n got %q\nwant %q", time.Since(b.began), got, want)
	}
}

const failed = `{"metadata":{"uid":"uid-%05d"},"status":{"observedGeneration":%d,"phase":"Failed"}}`

func TestTerminated(t *testing.T) {
	inBubble(t, podgc.Options{Terminated: 2}, nil, func(b *bench) {
		b.node("n", corev1.ConditionTrue)
		for i, name := range []string{"oldest", "old", "z-new", "new", "evicted"} {
			if i != 3 {
				time.Sleep(time.Second) // the two new ones are made in the same second
			}
			b.pod(name, "n", corev1.PodSucceeded, func(pod *corev1.Pod) {
				if name == "evicted" {
					pod.Status.Phase, pod.Status.Reason = corev1.PodFailed, "Evicted"
				}
			})
		}
		b.pod("running", "n", corev1.PodRunning, nil)
		b.pod("pending", "", corev1.PodPending, nil)
		b.pod("unknown", "n", corev1.PodUnknown, nil)
	}, func(b *bench) {
		b.wantWrites("delete pods ns/evicted", "delete pods ns/oldest", "delete pods ns/old")
		b.until(time.Hour)
		b.wantWrites()
		b.pod("newest", "n", corev1.PodFailed, nil)
		b.until(time.Hour + 25*time.Second)
		b.wantWrites("create pods ns/newest", "delete pods ns/new")
	})
}

// TestEvictedFirst: evicted pods go before others, however old, and only those that failed by it are.
func TestEvictedFirst(t *testing.T) {
	inBubble(t, podgc.Options{Terminated: 2}, nil, func(b *bench) {
		for _, pod := range []struct {
			name, reason string
			phase        corev1.PodPhase
		}{
			{"c-succeeded", "Evicted", corev1.PodSucceeded}, {"b-oom", "OOMKilled", corev1.PodFailed}, {"a-new", "", corev1.PodFailed},
			{"z-evicted", "Evicted", corev1.PodFailed}, {"0-evicted", "Evicted", corev1.PodFailed},
		} {
			time.Sleep(time.Second)
			b.pod(pod.name, "", pod.phase, func(p *corev1.Pod) { p.Status.Reason = pod.reason })
		}
	}, func(b *bench) {
		b.wantWrites("delete pods ns/z-evicted", "delete pods ns/0-evicted", "delete pods ns/c-succeeded")
	})
}

// TestThreshold: by default 12500 ended pods are kept.
func TestThreshold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all many
		for i := range 12502 {
			all = append(all, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprintf("p%05d", i)}, Status: corev1.PodStatus{Phase: corev1.PodFailed}})
		}
		b := &bench{T: t, api: fakeapi.New(fakeapi.Options{}), began: time.Now()}
		in := podgc.Sources{Nodes: informer.New(fakeapi.Source[*corev1.Node](b.api, nodes), informer.Options{}), Pods: informer.New(all, informer.Options{})}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- in.Pods.Run(ctx) }()
		synctest.Wait()
		if _, err := podgc.New(in, b.api, podgc.Options{}).Reconcile(ctx, controllers.Key{}); err != nil {
			t.Error(err)
		}
		b.wantWrites("delete pods ns/p00000", "delete pods ns/p00001")
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// many are pods that are there and do not change.
type many []*corev1.Pod

func (m many) List(context.Context) ([]*corev1.Pod, string, error) { return m, "1", nil }

func (m many) Watch(context.Context, string) (informer.Stream[*corev1.Pod], error) { return m, nil }

func (m many) Next(ctx context.Context) ([]informer.Event[*corev1.Pod], error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (m many) Close() {}

func TestTerminatedAllKept(t *testing.T) {
	inBubble(t, podgc.Options{Terminated: -1}, nil, func(b *bench) {
		for i := range 5 {
			b.pod(fmt.Sprint("p", i), "", corev1.PodFailed, nil)
		}
	}, func(b *bench) {
		b.until(time.Minute)
		b.wantWrites()
	})
}

func TestOutOfService(t *testing.T) {
	inBubble(t, podgc.Options{}, nil, func(b *bench) {
		b.node("dead", corev1.ConditionUnknown, corev1.TaintNodeOutOfService)
		b.node("ready", corev1.ConditionTrue, corev1.TaintNodeOutOfService)
		b.node("silent", corev1.ConditionUnknown, corev1.TaintNodeUnreachable)
		for _, node := range []string{"dead", "ready", "silent"} {
			b.pod("on-"+node, node, corev1.PodRunning, nil)
			b.delete("on-" + node)
		}
		b.pod("stays", "dead", corev1.PodRunning, nil)
		b.pod("ended", "dead", corev1.PodSucceeded, func(pod *corev1.Pod) { pod.Finalizers = []string{"example.com/hold"} })
		b.delete("ended")
	}, func(b *bench) {
		b.wantWrites("delete pods ns/ended", "patch pods/status ns/on-dead "+fmt.Sprintf(failed, 4, 2), "delete pods ns/on-dead")
	})
}

// TestOutOfServiceOldestFirst: it is the readiness of a node that counts, not another of its conditions; the oldest pod goes first.
func TestOutOfServiceOldestFirst(t *testing.T) {
	inBubble(t, podgc.Options{}, nil, func(b *bench) {
		b.node("dead", corev1.ConditionUnknown, "example.com/other", corev1.TaintNodeOutOfService)
		b.change("dead", func(node *corev1.Node) {
			node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionTrue})
		})
		for _, name := range []string{"c", "a", "b"} {
			b.pod(name, "dead", corev1.PodSucceeded, func(pod *corev1.Pod) { pod.Finalizers = []string{"example.com/hold"} })
			b.delete(name)
			time.Sleep(time.Second)
		}
	}, func(b *bench) {
		b.wantWrites("delete pods ns/c", "delete pods ns/a", "delete pods ns/b")
	})
}

// change changes a node's status.
func (b *bench) change(name string, change func(*corev1.Node)) {
	b.Helper()
	at := client.Target{Resource: nodes, Name: name, Subresource: "status"}
	node, err := client.As[*corev1.Node](b.api.Get(b.Context(), client.Target{Resource: nodes, Name: name}))
	if err != nil {
		b.Fatal(err)
	}
	change(node)
	if _, err := b.api.Update(b.Context(), at, node, metav1.UpdateOptions{}); err != nil {
		b.Fatal(err)
	}
}

func TestUnscheduled(t *testing.T) {
	inBubble(t, podgc.Options{}, nil, func(b *bench) {
		hold := func(pod *corev1.Pod) { pod.Finalizers = []string{"example.com/hold"} }
		b.pod("held", "", corev1.PodPending, hold)
		b.delete("held")
		b.pod("waits", "", corev1.PodPending, hold)
	}, func(b *bench) {
		b.wantWrites("patch pods/status ns/held "+fmt.Sprintf(failed, 1, 2), "delete pods ns/held")
		b.until(20 * time.Second)
		b.wantWrites("delete pods ns/held") // its finalizer holds it still
	})
}

func TestOrphaned(t *testing.T) {
	inBubble(t, podgc.Options{}, nil, func(b *bench) {
		b.node("n", corev1.ConditionTrue)
		b.pod("fine", "n", corev1.PodRunning, nil)
		b.pod("lost", "gone", corev1.PodRunning, nil)
		b.pod("ended", "gone", corev1.PodSucceeded, nil)
	}, func(b *bench) {
		b.until(39 * time.Second)
		b.wantWrites()
		b.until(40 * time.Second)
		b.wantWrites("delete pods ns/ended",
			`patch pods/status ns/lost {"metadata":{"uid":"uid-00003"},"status":{"conditions":[{"type":"DisruptionTarget","observedGeneration":1,"status":"True","lastProbeTime":null,"lastTransitionTime":"2000-01-01T00:00:40Z","reason":"DeletionByPodGC","message":"PodGC: node no longer exists"}],"observedGeneration":1,"phase":"Failed"}}`,
			"delete pods ns/lost")
		b.pod("late", "gone", corev1.PodRunning, nil)
		b.until(79 * time.Second)
		b.wantWrites("create pods ns/late")
		b.until(80 * time.Second)
		if got := len(b.api.Actions()); got != 2 {
			b.Errorf("%d writes about a pod that came to the missing node late", got)
		}
	})
}

// TestQuarantine: a node that shows up in time, or that the server knows, keeps its pods.
func TestQuarantine(t *testing.T) {
	inBubble(t, podgc.Options{}, nil, func(b *bench) {
		b.pod("early", "late-node", corev1.PodRunning, nil)
		b.pod("hidden", "unseen-node", corev1.PodRunning, nil)
	}, func(b *bench) {
		b.until(30 * time.Second)
		b.node("late-node", corev1.ConditionTrue)
		synctest.Wait()
		b.nodes.Hold()
		b.node("unseen-node", corev1.ConditionTrue)
		b.api.Reset()
		b.until(10 * time.Minute)
		b.wantWrites()
	})
}

// TestFailures: what the server refuses is tried again, and does not keep from the rest.
func TestFailures(t *testing.T) {
	refuse := map[string]int{"delete pods ns/a": 1, "patch pods/status ns/b": 1, "get nodes gone": 1}
	before := func(a fakeapi.Action) error {
		if refuse[a.String()] > 0 {
			refuse[a.String()]--
			return errors.New("no")
		}
		return nil
	}
	inBubble(t, podgc.Options{}, before, func(b *bench) {
		for _, name := range []string{"a", "b", "c"} {
			b.pod(name, "gone", corev1.PodRunning, nil)
		}
	}, func(b *bench) {
		b.until(79 * time.Second) // asking for the node failed at 40 s
		b.wantWrites()
		b.until(80 * time.Second)
		list, err := b.api.List(b.Context(), client.Target{Resource: fakeapi.Pods}, metav1.ListOptions{})
		if err != nil || len(list.(*corev1.PodList).Items) != 2 {
			b.Errorf("left: %v, %v", list, err)
		}
		b.until(121 * time.Second)
		list, err = b.api.List(b.Context(), client.Target{Resource: fakeapi.Pods}, metav1.ListOptions{})
		if err != nil || len(list.(*corev1.PodList).Items) != 0 {
			b.Errorf("left: %v, %v", list, err)
		}
	})
}

// TestQuarantineBegins when the node is missed, not when its pods are seen.
func TestQuarantineBegins(t *testing.T) {
	inBubble(t, podgc.Options{}, nil, func(b *bench) {
		b.node("n", corev1.ConditionTrue)
		b.pod("p", "n", corev1.PodSucceeded, nil)
	}, func(b *bench) {
		b.until(30 * time.Second)
		if err := b.api.Delete(b.Context(), client.Target{Resource: nodes, Name: "n"}, metav1.DeleteOptions{}); err != nil {
			b.Fatal(err)
		}
		b.api.Reset()
		b.until(79 * time.Second)
		b.wantWrites()
		b.until(80 * time.Second)
		b.wantWrites("delete pods ns/p")
	})
}

// TestSeenAgain: a node that the cache shows is not asked for.
func TestSeenAgain(t *testing.T) {
	asked := 0
	inBubble(t, podgc.Options{}, func(a fakeapi.Action) error {
		if a.Verb == fakeapi.Get && a.Target.Resource == nodes {
			asked++
		}
		return nil
	}, func(b *bench) {
		b.pod("p", "n", corev1.PodSucceeded, nil)
	}, func(b *bench) {
		b.until(30 * time.Second)
		b.node("n", corev1.ConditionTrue)
		synctest.Wait()
		b.nodes.Hold() // from here on only the server knows that it goes again
		if err := b.api.Delete(b.Context(), client.Target{Resource: nodes, Name: "n"}, metav1.DeleteOptions{}); err != nil {
			b.Fatal(err)
		}
		b.api.Reset()
		b.until(10 * time.Minute)
		b.wantWrites()
		if asked != 0 {
			b.Errorf("asked %d times", asked)
		}
		b.nodes.Resume()
	})
}

// TestLog: what failed is logged, that something is gone already is not.
func TestLog(t *testing.T) {
	gone := apierrors.NewNotFound(fakeapi.Pods.GroupResource(), "x")
	for name, tt := range map[string]struct {
		action string
		err    error
		want   string
	}{
		"node":         {"get nodes gone", errors.New("no"), `level=WARN msg="asking for a missing node failed" node=gone error=no`},
		"no node":      {"get nodes gone", apierrors.NewNotFound(nodes.GroupResource(), "gone"), ""},
		"status":       {"patch pods/status ns/a", errors.New("no"), `level=WARN msg="removing a pod failed" pod=ns/a why=orphaned error="status of pod ns/a: no"`},
		"no pod":       {"patch pods/status ns/a", gone, ""},
		"deletion":     {"delete pods ns/a", errors.New("no"), `level=WARN msg="removing a pod failed" pod=ns/a why=orphaned error="deleting: no"`},
		"deleted":      {"delete pods ns/a", gone, ""},
		"nothing else": {"", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			logger := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey {
					return slog.Attr{}
				}
				return a
			}}))
			inBubble(t, podgc.Options{Logger: logger}, func(a fakeapi.Action) error {
				if a.String() == tt.action {
					return tt.err
				}
				return nil
			}, func(b *bench) {
				b.pod("a", "gone", corev1.PodRunning, nil)
				b.node("there", corev1.ConditionTrue)
				b.pod("fine", "there", corev1.PodRunning, nil)
			}, func(b *bench) {
				b.until(45 * time.Second)
				if got := strings.TrimSpace(out.String()); got != tt.want {
					b.Errorf("logged %q, want %q", got, tt.want)
				}
			})
		})
	}
}

// TestStops: after the end no more pods are removed.
func TestStops(t *testing.T) {
	var running *bench
	inBubble(t, podgc.Options{Terminated: 1}, func(a fakeapi.Action) error {
		if a.Verb == fakeapi.Delete {
			running.stop()
		}
		return nil
	}, func(b *bench) {
		running = b
		for i := range 3 {
			b.pod(fmt.Sprint("p", i), "", corev1.PodFailed, nil)
		}
	}, func(b *bench) {
		b.wantWrites("delete pods ns/p0")
	})
}
