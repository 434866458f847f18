package podgc_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/podgc"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/internal/fakeapi"
)

var nodes = corev1.SchemeGroupVersion.WithResource("nodes")

// bench is a running controller with a server, in a bubble.
type bench struct {
	*testing.T
	api   *fakeapi.Server
	nodes *fakeapi.Feed[*corev1.Node]
	began time.Time
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
		loop := controllers.NewLoop(podgc.New(in, b.api, o), controllers.Options{})
		prepare(b)
		b.api.Reset()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- controllers.Group(in.Nodes, in.Pods, loop).Run(ctx) }()
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
