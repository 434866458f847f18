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
	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/podgc"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/lag"
)

var nodes = corev1.SchemeGroupVersion.WithResource("nodes")

// bench is a running controller with an API, in a bubble.
type bench struct {
	*testing.T
	api   *controllerstest.API
	nodes *lag.Source[*corev1.Node]
	began time.Time
}

// graceless holds deletions to being without grace, and with no conditions.
type graceless struct {
	*controllerstest.API
	t *testing.T
}

func (g graceless) Delete(ctx context.Context, at client.Target, o metav1.DeleteOptions) error {
	if o.GracePeriodSeconds == nil || *o.GracePeriodSeconds != 0 || o.Preconditions != nil {
		g.t.Errorf("deletes %v with %+v", at, o)
	}
	return g.API.Delete(ctx, at, o)
}

// inBubble runs test against a controller; prepare makes what is there before it starts.
func inBubble(t *testing.T, o podgc.Options, prepare, test func(*bench)) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t, api: controllerstest.Start(t, controllerstest.Options{})}
		b.nodes = controllerstest.Source[*corev1.Node](b.api, nodes)
		detect := informer.Options{DetectMutations: func(err error) { t.Error(err) }}
		in := podgc.Sources{
			Nodes: informer.New(b.nodes, detect),
			Pods:  informer.New(controllerstest.Source[*corev1.Pod](b.api, controllerstest.Pods()), detect),
		}
		prepare(b)
		controllerstest.Go(t, in.Nodes, in.Pods, controllers.NewLoop(podgc.New(in, graceless{b.api, t}, o), controllers.Options{}))
		time.Sleep(100 * time.Millisecond) // until the first round
		b.began = time.Now()
		synctest.Wait()
		test(b)
	})
}

func (b *bench) until(d time.Duration) {
	time.Sleep(time.Until(b.began.Add(d)))
	synctest.Wait()
}

// pod creates a pod of namespace ns; change may alter it before.
func (b *bench) pod(name, node string, phase corev1.PodPhase, change func(*corev1.Pod)) {
	b.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
		Spec:       corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: phase},
	}
	if change != nil {
		change(pod)
	}
	controllerstest.Add(b, b.api, pod)
}

// held gives a pod a finalizer, so that it outlives its deletion.
func held(pod *corev1.Pod) { pod.Finalizers = []string{"example.com/hold"} }

func (b *bench) delete(at client.Target) {
	b.Helper()
	if err := b.api.Others.Delete(b.Context(), at, metav1.DeleteOptions{}); err != nil {
		b.Fatal(err)
	}
}

func podAt(pod string) client.Target {
	return client.Target{Resource: controllerstest.Pods(), Namespace: "ns", Name: pod}
}

func (b *bench) node(name string, ready corev1.ConditionStatus, taints ...string) *corev1.Node {
	b.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
	for _, key := range taints {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute})
	}
	return controllerstest.Add(b, b.api, node)
}

// wantWrites compares the controller's writes since the last call, as text with patches.
func (b *bench) wantWrites(want ...string) {
	b.Helper()
	var got []string
	for _, w := range b.api.Writes() {
		got = append(got, strings.TrimSpace(w.String()+" "+string(w.Patch)))
	}
	b.api.Reset()
	if !slices.Equal(got, want) {
		b.Errorf("%v after:\n got %q\nwant %q", time.Since(b.began), got, want)
	}
}

const failed = `{"metadata":{"uid":"uid-%05d"},"status":{"observedGeneration":%d,"phase":"Failed"}}`

func TestTerminated(t *testing.T) {
	inBubble(t, podgc.Options{Terminated: 2}, func(b *bench) {
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
		b.wantWrites("delete pods ns/new")
	})
}

// TestEvictedFirst: evicted pods go before others, however old, and only those that failed by it are.
func TestEvictedFirst(t *testing.T) {
	inBubble(t, podgc.Options{Terminated: 2}, func(b *bench) {
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

// round runs one round over pods that do not change.
func (b *bench) round(ctx context.Context, o podgc.Options, pods many) {
	b.Helper()
	b.began = time.Now()
	in := podgc.Sources{Nodes: informer.New(controllerstest.Source[*corev1.Node](b.api, nodes), informer.Options{}), Pods: informer.New(pods, informer.Options{})}
	controllerstest.Go(b, in.Pods)
	synctest.Wait()
	if _, err := podgc.New(in, b.api, o).Reconcile(ctx, controllers.Key{}); err != nil {
		b.Error(err)
	}
}

// TestThreshold: by default 12500 ended pods are kept.
func TestThreshold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t, api: controllerstest.Start(t, controllerstest.Options{})}
		b.round(t.Context(), podgc.Options{}, failedPods(12502))
		b.wantWrites("delete pods ns/p00000", "delete pods ns/p00001")
	})
}

// TestStops: after the end no more pods are removed.
func TestStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		b := &bench{T: t, api: controllerstest.Start(t, controllerstest.Options{Before: func(faults.Request) error { stop(); return nil }})}
		b.round(ctx, podgc.Options{Terminated: 1}, failedPods(3))
		b.wantWrites("delete pods ns/p00000")
	})
}

func failedPods(n int) many {
	all := make(many, n)
	for i := range all {
		all[i] = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprintf("p%05d", i)}, Status: corev1.PodStatus{Phase: corev1.PodFailed}}
	}
	return all
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
	inBubble(t, podgc.Options{Terminated: -1}, func(b *bench) {
		for i := range 5 {
			b.pod(fmt.Sprint("p", i), "", corev1.PodFailed, nil)
		}
	}, func(b *bench) {
		b.until(time.Minute)
		b.wantWrites()
	})
}

func TestOutOfService(t *testing.T) {
	inBubble(t, podgc.Options{}, func(b *bench) {
		b.node("dead", corev1.ConditionUnknown, corev1.TaintNodeOutOfService)
		b.node("ready", corev1.ConditionTrue, corev1.TaintNodeOutOfService)
		b.node("silent", corev1.ConditionUnknown, corev1.TaintNodeUnreachable)
		for _, node := range []string{"dead", "ready", "silent"} {
			b.pod("on-"+node, node, corev1.PodRunning, nil)
			b.delete(podAt("on-" + node))
		}
		b.pod("stays", "dead", corev1.PodRunning, nil)
		b.pod("ended", "dead", corev1.PodSucceeded, held)
		b.delete(podAt("ended"))
	}, func(b *bench) {
		b.wantWrites("delete pods ns/ended", "patch pods/status ns/on-dead "+fmt.Sprintf(failed, 4, 2), "delete pods ns/on-dead")
	})
}

// TestOutOfServiceOldestFirst: it is the readiness of a node that counts, not another of its conditions; the oldest pod goes first.
func TestOutOfServiceOldestFirst(t *testing.T) {
	inBubble(t, podgc.Options{}, func(b *bench) {
		dead := b.node("dead", corev1.ConditionUnknown, "example.com/other", corev1.TaintNodeOutOfService)
		dead.Status.Conditions = append(dead.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionTrue})
		at := client.Target{Resource: nodes, Name: "dead", Subresource: "status"}
		if _, err := b.api.Others.Update(b.Context(), at, dead, metav1.UpdateOptions{}); err != nil {
			b.Fatal(err)
		}
		for _, name := range []string{"c", "a", "b"} {
			b.pod(name, "dead", corev1.PodSucceeded, held)
			b.delete(podAt(name))
			time.Sleep(time.Second)
		}
	}, func(b *bench) {
		b.wantWrites("delete pods ns/c", "delete pods ns/a", "delete pods ns/b")
	})
}

func TestUnscheduled(t *testing.T) {
	inBubble(t, podgc.Options{}, func(b *bench) {
		b.pod("held", "", corev1.PodPending, held)
		b.delete(podAt("held"))
		b.pod("waits", "", corev1.PodPending, held)
	}, func(b *bench) {
		b.wantWrites("patch pods/status ns/held "+fmt.Sprintf(failed, 1, 2), "delete pods ns/held")
		b.until(20 * time.Second)
		b.wantWrites("delete pods ns/held") // its finalizer holds it still
	})
}

func TestOrphaned(t *testing.T) {
	inBubble(t, podgc.Options{}, func(b *bench) {
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
		b.wantWrites()
		b.until(80 * time.Second)
		if got := len(b.api.Writes()); got != 2 {
			b.Errorf("%d writes about a pod that came to the missing node late", got)
		}
	})
}

// TestQuarantine: a node that shows up in time, or that the server knows, keeps its pods.
func TestQuarantine(t *testing.T) {
	inBubble(t, podgc.Options{}, func(b *bench) {
		b.pod("early", "late-node", corev1.PodRunning, nil)
		b.pod("hidden", "unseen-node", corev1.PodRunning, nil)
	}, func(b *bench) {
		b.until(30 * time.Second)
		b.node("late-node", corev1.ConditionTrue)
		synctest.Wait()
		b.nodes.Hold()
		b.node("unseen-node", corev1.ConditionTrue)
		b.until(10 * time.Minute)
		b.wantWrites()
	})
}

// TestFailures: what the server refuses is tried again, and does not keep from the rest.
func TestFailures(t *testing.T) {
	inBubble(t, podgc.Options{}, func(b *bench) {
		no := errors.New("no")
		b.api.Inject(faults.Fault{Verb: faults.Delete, Resource: "pods", Name: "a", Err: no})
		b.api.Inject(faults.Fault{Verb: faults.Patch, Resource: "pods/status", Name: "b", Err: no})
		b.api.Inject(faults.Fault{Verb: faults.Get, Resource: "nodes", Name: "gone", Err: no})
		for _, name := range []string{"a", "b", "c"} {
			b.pod(name, "gone", corev1.PodRunning, nil)
		}
	}, func(b *bench) {
		b.until(79 * time.Second) // asking for the node failed at 40 s
		b.wantWrites()
		b.until(80 * time.Second)
		left := func(want int) {
			b.Helper()
			list, err := client.As[*corev1.PodList](b.api.Others.List(b.Context(), client.Target{Resource: controllerstest.Pods()}, metav1.ListOptions{}))
			if err != nil || len(list.Items) != want {
				b.Errorf("left: %v, %v", list, err)
			}
		}
		left(2)
		b.until(121 * time.Second)
		left(0)
	})
}

// TestQuarantineBegins when the node is missed, not when its pods are seen.
func TestQuarantineBegins(t *testing.T) {
	inBubble(t, podgc.Options{}, func(b *bench) {
		b.node("n", corev1.ConditionTrue)
		b.pod("p", "n", corev1.PodSucceeded, nil)
	}, func(b *bench) {
		b.until(30 * time.Second)
		b.delete(client.Target{Resource: nodes, Name: "n"})
		b.until(79 * time.Second)
		b.wantWrites()
		b.until(80 * time.Second)
		b.wantWrites("delete pods ns/p")
	})
}

// TestSeenAgain: a node that the cache shows is not asked for.
func TestSeenAgain(t *testing.T) {
	inBubble(t, podgc.Options{}, func(b *bench) {
		b.pod("p", "n", corev1.PodSucceeded, nil)
	}, func(b *bench) {
		b.until(30 * time.Second)
		b.node("n", corev1.ConditionTrue)
		synctest.Wait()
		b.nodes.Hold() // from here on only the server knows that it goes again
		b.delete(client.Target{Resource: nodes, Name: "n"})
		b.until(10 * time.Minute)
		if got := b.api.Requests(); len(got) != 0 {
			b.Errorf("asked %v", got)
		}
	})
}

// TestLog: what failed is logged, that something is gone already is not.
func TestLog(t *testing.T) {
	gone := apierrors.NewNotFound(controllerstest.Pods().GroupResource(), "x")
	no := errors.New("no")
	for name, tt := range map[string]struct {
		fault faults.Fault
		want  string
	}{
		"node":         {faults.Fault{Verb: faults.Get, Resource: "nodes", Err: no}, `level=WARN msg="asking for a missing node failed" node=gone error=no`},
		"no node":      {faults.Fault{Verb: faults.Get, Resource: "nodes", Err: apierrors.NewNotFound(nodes.GroupResource(), "gone")}, ""},
		"status":       {faults.Fault{Verb: faults.Patch, Resource: "pods/status", Err: no}, `level=WARN msg="removing a pod failed" pod=ns/a why=orphaned error="status of pod ns/a: no"`},
		"no pod":       {faults.Fault{Verb: faults.Patch, Resource: "pods/status", Err: gone}, ""},
		"deletion":     {faults.Fault{Verb: faults.Delete, Resource: "pods", Err: no}, `level=WARN msg="removing a pod failed" pod=ns/a why=orphaned error="deleting: no"`},
		"deleted":      {faults.Fault{Verb: faults.Delete, Resource: "pods", Err: gone}, ""},
		"nothing else": {},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			logger := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey {
					return slog.Attr{}
				}
				return a
			}}))
			inBubble(t, podgc.Options{Logger: logger}, func(b *bench) {
				b.api.Inject(tt.fault)
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
