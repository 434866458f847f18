package static_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slices"
	"sync/atomic"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/lag"
	"github.com/keelson-dev/keelson/informer/memory"
	"github.com/keelson-dev/keelson/kubelet/static"
)

// mirroring is Mirrors at work, with an API that has pods, and nodes and static pods made by the test, in virtual time.
type mirroring struct {
	*testing.T
	api    *controllerstest.API
	static *memory.Store[*corev1.Pod]
	pods   *lag.Source[*corev1.Pod]
	nodes  *memory.Store[*corev1.Node]
	busy   atomic.Bool
	start  time.Time
}

func mirror(t *testing.T, test func(*mirroring)) {
	t.Helper()
	mirrorWith(t, func(m *mirroring) static.MirrorOptions {
		return static.MirrorOptions{Busy: func(string, string) bool { return m.busy.Load() }}
	}, test)
}

func mirrorWith(t *testing.T, options func(*mirroring) static.MirrorOptions, test func(*mirroring)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := &mirroring{
			T: t, api: controllerstest.Start(t, controllerstest.Options{}),
			static: memory.New[*corev1.Pod](), nodes: memory.New[*corev1.Node](), start: time.Now(),
		}
		m.pods = controllerstest.Source[*corev1.Pod](m.api, controllerstest.Pods())
		detect := informer.Options{DetectMutations: func(err error) { t.Error(err) }}
		in := static.Sources{
			Static: informer.New[*corev1.Pod](m.static, detect),
			Pods:   informer.New(m.pods, detect),
			Nodes:  informer.New[*corev1.Node](m.nodes, detect),
		}
		mirrors, err := static.NewMirrors(in, m.api, "n1", options(m))
		if err != nil {
			t.Fatal(err)
		}
		controllerstest.Go(t, in.Static, in.Pods, in.Nodes, mirrors)
		synctest.Wait()
		test(m)
	})
}

// away makes the server refuse all requests, until it is healed.
func (m *mirroring) away() {
	m.api.Inject(faults.Fault{Err: errors.New("the server is away"), Times: -1})
}

// put makes a static pod, or changes it.
func (m *mirroring) put(hash string) {
	pod := controllerstest.Complete(staticPod(hash))
	pod.UID, pod.Spec.NodeName = "static-"+pod.UID, "n1"
	m.static.Put(pod)
}

func (m *mirroring) registerNode() {
	m.nodes.Put(node())
	synctest.Wait() // it is known before anything else happens, which would be tried anew when it comes
}

// add makes a pod of the API, by somebody else.
func (m *mirroring) add(change ...func(*corev1.Pod)) {
	m.Helper()
	pod := mirrored("theirs", change...)
	pod.UID = ""
	controllerstest.Add(m, m.api, pod)
	synctest.Wait()
}

// onNode binds a pod.
func onNode(node string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.NodeName = node }
}

// delete is what somebody else deletes, with such options.
func (m *mirroring) delete(o metav1.DeleteOptions) {
	m.Helper()
	if err := m.api.Others.Delete(m.Context(), mirrorTarget(), o); err != nil {
		m.Fatal(err)
	}
}

func mirrorTarget() client.Target {
	return client.Target{Resource: controllerstest.Pods(), Namespace: "ns", Name: "web-n1"}
}

// expect compares what was written by now, since it was called last.
func (m *mirroring) expect(want ...string) {
	m.Helper()
	synctest.Wait()
	var got []string
	for _, r := range m.api.Writes() {
		got = append(got, fmt.Sprintf("%.0fs %s", time.Since(m.start).Seconds(), r))
	}
	m.api.Reset()
	if !slices.Equal(got, want) {
		m.Errorf("got %q, want %q", got, want)
	}
}

func (m *mirroring) mirrorHash() string {
	pod, err := client.As[*corev1.Pod](m.api.Others.Get(m.Context(), mirrorTarget()))
	if err != nil {
		return ""
	}
	return pod.Annotations[corev1.MirrorPodAnnotationKey]
}

func TestMirrors(t *testing.T) {
	mirror(t, func(m *mirroring) {
		m.put("a")
		m.expect() // the node is not registered yet
		m.registerNode()
		m.expect("0s create pods ns/web-n1")

		m.delete(*metav1.NewDeleteOptions(0))
		m.expect("0s create pods ns/web-n1")

		m.put("b")
		m.expect("0s delete pods ns/web-n1", "0s create pods ns/web-n1")
		if got := m.mirrorHash(); got != "b" {
			m.Errorf("the mirror is of %q", got)
		}

		// One that somebody deleted with a grace period is replaced at once.
		m.delete(metav1.DeleteOptions{})
		m.expect("0s delete pods ns/web-n1", "0s create pods ns/web-n1")

		m.static.Delete("ns", "web-n1")
		m.expect("0s delete pods ns/web-n1")
		if got := m.mirrorHash(); got != "" {
			m.Errorf("there is a mirror of %q", got)
		}
	})
}

func TestMirrorStaysWhileItsContainersRun(t *testing.T) {
	mirror(t, func(m *mirroring) {
		m.registerNode()
		m.put("a")
		m.expect("0s create pods ns/web-n1")
		m.busy.Store(true)
		m.static.Delete("ns", "web-n1")
		time.Sleep(5500 * time.Millisecond)
		m.expect()
		m.busy.Store(false)
		time.Sleep(time.Second)
		m.expect("6s delete pods ns/web-n1")
	})
}

func TestServerThatIsAway(t *testing.T) {
	mirror(t, func(m *mirroring) {
		m.registerNode()
		m.away()
		m.put("a")
		m.expect("0s create pods ns/web-n1")
		time.Sleep(15 * time.Second)
		m.expect("15s create pods ns/web-n1")
		m.api.Heal()
		time.Sleep(10 * time.Second)
		m.expect("25s create pods ns/web-n1")
		if got := m.mirrorHash(); got != "a" {
			m.Errorf("the mirror is of %q", got)
		}
	})
}

func TestPodsOfNoConcern(t *testing.T) {
	mirror(t, func(m *mirroring) {
		m.registerNode()
		named := func(name string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Name = name } }
		m.add(named("ordinary"), onNode("n1"), ordinary)
		m.add(named("of-another"), onNode("n2"))
		m.add(named("not-scheduled"), ordinary)
		time.Sleep(time.Minute)
		m.expect()
	})
}

// TestMirrorOfAnotherNode: a pod of that name on another node is left alone, whether it is a mirror or not.
func TestMirrorOfAnotherNode(t *testing.T) {
	mirror(t, func(m *mirroring) {
		m.registerNode()
		for _, change := range []func(*corev1.Pod){func(*corev1.Pod) {}, ordinary} {
			m.add(onNode("n2"), change)
			m.put("ours")
			time.Sleep(time.Minute)
			m.static.Delete("ns", "web-n1")
			time.Sleep(time.Minute)
			m.expect()
			m.delete(*metav1.NewDeleteOptions(0))
			synctest.Wait()
		}
	})
}

func TestOrphanOfAnEarlierKubelet(t *testing.T) {
	mirror(t, func(m *mirroring) {
		m.add(onNode("n1"))
		m.expect("0s delete pods ns/web-n1")
	})
}

// TestOrphanOfWhoKnowsWhom: without anybody to ask which pods have containers, mirrors go at once.
func TestOrphanOfWhoKnowsWhom(t *testing.T) {
	mirrorWith(t, func(*mirroring) static.MirrorOptions { return static.MirrorOptions{} }, func(m *mirroring) {
		m.add(onNode("n1"))
		m.expect("0s delete pods ns/web-n1")
	})
}

func TestMirrorsThatMakeNoSense(t *testing.T) {
	if _, err := static.NewMirrors(static.Sources{}, nil, "", static.MirrorOptions{}); err == nil {
		t.Error("mirrors of nothing")
	}
}
