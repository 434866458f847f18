package static_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/memory"
	"github.com/keelson-dev/keelson/internal/fakeapi"
	"github.com/keelson-dev/keelson/kubelet/static"
)

// mirroring is Mirrors at work, with a server and static pods made by the test, in virtual time.
type mirroring struct {
	t      *testing.T
	api    *fakeapi.Server
	static *memory.Store[*corev1.Pod]
	start  time.Time

	mu     sync.Mutex
	broken bool
	busy   bool
}

func mirror(t *testing.T, test func(*mirroring)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := &mirroring{t: t, static: memory.New[*corev1.Pod](), start: time.Now()}
		m.api = fakeapi.New(fakeapi.Options{Before: func(a fakeapi.Action) error {
			m.mu.Lock()
			defer m.mu.Unlock()
			if m.broken && a.Target.Resource == fakeapi.Pods {
				return errors.New("the server is away")
			}
			return nil
		}})
		nodes := corev1.SchemeGroupVersion.WithResource("nodes")
		in := static.Sources{
			Static: informer.New[*corev1.Pod](m.static, informer.Options{}),
			Pods:   informer.New(fakeapi.Source[*corev1.Pod](m.api, fakeapi.Pods), informer.Options{}),
			Nodes:  informer.New(fakeapi.Source[*corev1.Node](m.api, nodes), informer.Options{}),
		}
		mirrors, err := static.NewMirrors(in, m.api, "n1", static.MirrorOptions{Busy: func(string, string) bool {
			m.mu.Lock()
			defer m.mu.Unlock()
			return m.busy
		}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		for _, run := range []func(context.Context) error{in.Static.Run, in.Pods.Run, in.Nodes.Run, mirrors.Run} {
			group.Go(func() {
				if err := run(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		defer func() { cancel(); group.Wait() }()
		synctest.Wait()
		test(m)
		if changed := m.api.Mutated(); len(changed) > 0 {
			t.Errorf("shared objects were changed: %v", changed)
		}
	})
}

func (m *mirroring) set(broken, busy bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.broken, m.busy = broken, busy
}

// put makes a static pod, or changes it.
func (m *mirroring) put(hash string) {
	pod := staticPod(hash)
	pod.UID, pod.Spec.NodeName = "static-"+pod.UID, "n1"
	m.static.Put(pod)
}

func (m *mirroring) registerNode() {
	m.t.Helper()
	target := client.Target{Resource: corev1.SchemeGroupVersion.WithResource("nodes"), Name: "n1"}
	if _, err := m.api.Create(m.t.Context(), target, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, metav1.CreateOptions{}); err != nil {
		m.t.Fatal(err)
	}
	synctest.Wait() // it is known before anything else happens, which would be tried anew when it comes
}

func podTarget(name string) client.Target {
	return client.Target{Resource: fakeapi.Pods, Namespace: "ns", Name: name}
}

// expect says which requests about pods there have been by now, since it was asked last.
func (m *mirroring) expect(want ...string) {
	m.t.Helper()
	synctest.Wait()
	var got []string
	for _, a := range m.api.Actions() {
		if a.Target.Resource == fakeapi.Pods {
			got = append(got, fmt.Sprintf("%.0fs %s", time.Since(m.start).Seconds(), a))
		}
	}
	m.api.Reset()
	if strings.Join(got, ", ") != strings.Join(want, ", ") {
		m.t.Errorf("got %q, want %q", got, want)
	}
}

func (m *mirroring) mirrorHash() string {
	obj, err := m.api.Get(m.t.Context(), podTarget("web-n1"))
	if err != nil {
		return ""
	}
	return obj.(*corev1.Pod).Annotations[corev1.MirrorPodAnnotationKey]
}

func TestMirrors(t *testing.T) {
	mirror(t, func(m *mirroring) {
		m.put("a")
		m.expect() // the node is not registered yet
		m.registerNode()
		m.expect("0s create pods ns/web-n1")

		now := int64(0)
		if err := m.api.Delete(t.Context(), podTarget("web-n1"), metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
			t.Fatal(err)
		}
		m.expect("0s delete pods ns/web-n1", "0s create pods ns/web-n1") // the first by the test

		m.put("b")
		m.expect("0s delete pods ns/web-n1", "0s create pods ns/web-n1")
		if got := m.mirrorHash(); got != "b" {
			t.Errorf("the mirror is of %q", got)
		}

		// One that is only marked, by somebody who waits for its containers, is replaced.
		if err := m.api.Delete(t.Context(), podTarget("web-n1"), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		m.expect("0s delete pods ns/web-n1", "0s delete pods ns/web-n1", "0s create pods ns/web-n1")

		m.static.Delete("ns", "web-n1")
		m.expect("0s delete pods ns/web-n1")
		if got := m.mirrorHash(); got != "" {
			t.Errorf("there is a mirror of %q", got)
		}
	})
}

func TestMirrorStaysWhileItsContainersRun(t *testing.T) {
	mirror(t, func(m *mirroring) {
		m.registerNode()
		m.put("a")
		m.expect("0s create pods ns/web-n1")
		m.set(false, true)
		m.static.Delete("ns", "web-n1")
		time.Sleep(5500 * time.Millisecond)
		m.expect()
		m.set(false, false)
		time.Sleep(time.Second)
		m.expect("6s delete pods ns/web-n1")
	})
}

func TestServerThatIsAway(t *testing.T) {
	mirror(t, func(m *mirroring) {
		m.registerNode()
		m.set(true, false)
		m.put("a")
		m.expect("0s create pods ns/web-n1")
		time.Sleep(15 * time.Second)
		m.expect("15s create pods ns/web-n1")
		m.set(false, false)
		time.Sleep(10 * time.Second)
		m.expect("25s create pods ns/web-n1")
		if got := m.mirrorHash(); got != "a" {
			t.Errorf("the mirror is of %q", got)
		}
	})
}

func TestPodsOfNoConcern(t *testing.T) {
	mirror(t, func(m *mirroring) {
		m.registerNode()
		for name, change := range map[string]func(*corev1.Pod){
			"ordinary":      ordinary,
			"of-another":    func(p *corev1.Pod) { p.Spec.NodeName = "n2" },
			"not-scheduled": func(p *corev1.Pod) { p.Spec.NodeName = "" },
		} {
			pod := mirrored("h", func(p *corev1.Pod) { p.Name, p.UID, p.Spec.NodeName = name, "", "n1" }, change)
			if _, err := m.api.Create(t.Context(), podTarget(""), pod, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		m.api.Reset()
		time.Sleep(time.Minute)
		m.expect()
	})
}

// TestMirrorOfAnotherNode: a pod of the name that another node has stays, whether it is in the way or not.
func TestMirrorOfAnotherNode(t *testing.T) {
	mirror(t, func(m *mirroring) {
		m.registerNode()
		for _, change := range []func(*corev1.Pod){func(*corev1.Pod) {}, ordinary} {
			theirs := mirrored("theirs", func(p *corev1.Pod) { p.UID, p.Spec.NodeName = "", "n2" }, change)
			if _, err := m.api.Create(m.t.Context(), podTarget(""), theirs, metav1.CreateOptions{}); err != nil {
				m.t.Fatal(err)
			}
			synctest.Wait()
			m.api.Reset()
			m.put("ours")
			time.Sleep(time.Minute)
			m.static.Delete("ns", "web-n1")
			time.Sleep(time.Minute)
			m.expect()
			now := int64(0)
			if err := m.api.Delete(m.t.Context(), podTarget("web-n1"), metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
				m.t.Fatal(err)
			}
			synctest.Wait()
		}
	})
}

func TestOrphanOfAnEarlierKubelet(t *testing.T) {
	mirror(t, func(m *mirroring) {
		orphan := mirrored("h", func(p *corev1.Pod) { p.UID, p.Spec.NodeName = "", "n1" })
		if _, err := m.api.Create(t.Context(), podTarget(""), orphan, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		m.expect("0s create pods ns/web-n1", "0s delete pods ns/web-n1") // the first by the test
	})
}

func TestMirrorsThatMakeNoSense(t *testing.T) {
	if _, err := static.NewMirrors(static.Sources{}, nil, "", static.MirrorOptions{}); err == nil {
		t.Error("mirrors of nothing")
	}
}
