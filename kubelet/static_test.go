package kubelet_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/cri/simulated"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/memory"
	"github.com/keelson-dev/keelson/kubelet"
)

// staticNode is a node with static pods.
type staticNode struct {
	*node
	kubelet   *kubelet.Kubelet
	manifests *memory.Store[*corev1.Pod]
}

// runStatic starts a kubelet that also has static pods.
func (w *world) runStatic(rt *simulated.Runtime) *staticNode {
	return w.runStaticOn(rt, kubelet.Host{})
}

func (w *world) runStaticOn(rt *simulated.Runtime, host kubelet.Host) *staticNode {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	detect := informer.Options{DetectMutations: func(err error) { w.t.Error(err) }}
	manifests := memory.New[*corev1.Pod]()
	in := kubelet.Sources{Pods: informer.New(w.pods, detect), Nodes: informer.New(w.nodes, detect), Static: informer.New(manifests, detect)}
	k, err := kubelet.New(in, w, rt, w, kubelet.Options{NodeName: "n1", Host: host})
	if err != nil {
		w.t.Fatal(err)
	}
	n := &staticNode{&node{world: w, runtime: rt, cancel: cancel, done: make(chan struct{})}, k, manifests}
	var group sync.WaitGroup
	for _, run := range []func(context.Context) error{in.Pods.Run, in.Nodes.Run, in.Static.Run, k.Run} {
		group.Go(func() {
			if err := run(ctx); err != nil {
				w.t.Error(err)
			}
		})
	}
	go func() { group.Wait(); close(n.done) }()
	return n
}

// withStatic runs a test with one node that has static pods, in virtual time.
func withStatic(t *testing.T, o simulated.Options, test func(n *staticNode)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		rt := simulated.New(o)
		n := newWorld(t).runStatic(rt)
		synctest.Wait()
		test(n)
		n.stop()
		rt.Close()
	})
}

// manifest returns a static pod with that content.
func manifest(content string) *corev1.Pod {
	return newPod("web-n1", func(pod *corev1.Pod) {
		pod.UID = types.UID(content)
		pod.Annotations = map[string]string{"kubernetes.io/config.source": "file", "kubernetes.io/config.hash": content}
		pod.Spec.TerminationGracePeriodSeconds = new(int64)
		*pod.Spec.TerminationGracePeriodSeconds = 5
	})
}

// mirror returns the mirror of a static pod.
func mirror(content, uid string) *corev1.Pod {
	pod := manifest(content)
	pod.UID = types.UID(uid)
	pod.Annotations["kubernetes.io/config.mirror"] = content
	return pod
}

// running returns the UIDs of pods with running containers.
func (n *staticNode) running() []string {
	var list []string
	for _, c := range n.containers() {
		if c.State == cri.ContainerRunning {
			list = append(list, c.Labels[cri.LabelPodUID])
		}
	}
	return list
}

func (n *staticNode) expectRunning(want ...string) {
	n.t.Helper()
	if got := n.running(); len(got) != len(want) || len(want) > 0 && got[0] != want[0] {
		n.t.Errorf("containers of %v run, want %v", got, want)
	}
}

// TestStaticPod: a static pod runs without a mirror, is reported through it once there is one, and survives its
// deletion.
func TestStaticPod(t *testing.T) {
	withStatic(t, simulated.Options{Images: []string{"nginx"}}, func(n *staticNode) {
		n.manifests.Put(manifest("a"))
		n.after(time.Second)
		n.expectRunning("a")
		n.expectStatuses()
		n.pods.Put(mirror("a", "m1"))
		n.after(time.Second)
		n.expectStatuses("1s web-n1 Running Ready main=running")
		id := n.containers()[0].ID

		// The mirror is deleted: the containers keep running, and are reported through the next mirror.
		n.remove("web-n1", 0)
		n.after(time.Second)
		n.pods.Delete("default", "web-n1")
		n.after(10 * time.Second)
		n.expectStatuses()
		n.pods.Put(mirror("a", "m2"))
		n.after(time.Second)
		n.expectStatuses("13s web-n1 Running Ready main=running")
		if list := n.containers(); len(list) != 1 || list[0].ID != id {
			t.Errorf("containers are %v, was %s", list, id)
		}

		sent := n.count("patch pods/status")
		// The file is removed, and so is the pod. Deleting the mirror is not up to the kubelet.
		n.manifests.Delete("default", "web-n1")
		n.after(10 * time.Second)
		n.expectRunning()
		if now := n.count("patch pods/status"); now != sent {
			t.Errorf("%d statuses are sent of a pod that is not there", now-sent)
		}
		if n.pod("web-n1").UID != "m2" || n.count("delete pods") != 0 {
			t.Error("the kubelet has deleted the mirror")
		}
		n.pods.Delete("default", "web-n1")
		n.after(time.Minute)
		n.leftNothing()
	})
}

// TestStaticPodsOfOtherNames: a static pod waits for no other, and for no pod of its name in the API, and such a pod not
// for it.
func TestStaticPodsOfOtherNames(t *testing.T) {
	withStatic(t, slow(), func(n *staticNode) {
		n.pods.Put(newPod("db-n1"))
		n.manifests.Put(manifest("a"))
		n.after(time.Second)
		second := manifest("b")
		second.Name = "db-n1"
		n.manifests.Put(second)
		n.after(time.Second)
		n.pods.Put(newPod("web-n1")) // which is no mirror
		n.after(time.Second)
		if got := n.running(); len(got) != 4 {
			t.Errorf("containers of %v run", got)
		}
	})
}

// TestMirrorChangedByOthers: what others write to a mirror is put right with the next status.
func TestMirrorChangedByOthers(t *testing.T) {
	withStatic(t, simulated.Options{}, func(n *staticNode) {
		n.manifests.Put(manifest("a"))
		n.pods.Put(mirror("a", "m"))
		n.after(time.Second)
		pod := n.pod("web-n1").DeepCopy()
		condition(pod, corev1.PodReady).Status = corev1.ConditionFalse
		n.pods.Put(pod)
		n.after(time.Second)
		if err := n.runtime.Exit(n.containers()[0].ID, 1); err != nil {
			t.Fatal(err)
		}
		n.after(time.Second)
		n.expectStatuses("0s web-n1 Running Ready main=running", "2s web-n1 Running Ready main=running#1")
	})
}

// TestPodThatClaimsToBeAMirror: what a pod claims to be does not change when its status is sent.
func TestPodThatClaimsToBeAMirror(t *testing.T) {
	withStatic(t, simulated.Options{}, func(n *staticNode) {
		patches := n.breaks("patch pods/status", func() error {
			if time.Since(n.start) < 10*time.Second {
				return away()
			}
			return nil
		})
		n.pods.Put(newPod("web"))
		n.after(5 * time.Second)
		pod := n.pod("web").DeepCopy()
		pod.Annotations = map[string]string{"kubernetes.io/config.mirror": string(pod.UID)}
		n.pods.Put(pod)
		n.after(time.Minute)
		expectTimes(t, "patched", patches(), "0s 1s 3s 7s 15s")
	})
}

// TestStaticPodThatChanges: a static pod whose labels change is still reported through its mirror.
func TestStaticPodThatChanges(t *testing.T) {
	withStatic(t, simulated.Options{}, func(n *staticNode) {
		n.manifests.Put(manifest("a"))
		n.pods.Put(mirror("a", "m"))
		n.after(time.Second)
		changed := manifest("a")
		changed.Labels = map[string]string{"a": "b"}
		n.manifests.Put(changed)
		n.after(time.Second)
		if pod, found := n.kubelet.Pod("default", "web-n1"); !found || pod.Labels["a"] != "b" {
			t.Errorf("the pod is %v", pod)
		}
		if err := n.runtime.Exit(n.containers()[0].ID, 1); err != nil {
			t.Fatal(err)
		}
		n.after(time.Second)
		n.expectStatuses("0s web-n1 Running Ready main=running", "2s web-n1 Running Ready main=running#1")
	})
}

// TestMirrorOfWhatHasEnded: a kubelet deletes no mirror, not even of a pod that has ended.
func TestMirrorOfWhatHasEnded(t *testing.T) {
	withStatic(t, simulated.Options{}, func(n *staticNode) {
		pod, its := manifest("a"), mirror("a", "m")
		pod.Spec.RestartPolicy, its.Spec.RestartPolicy = corev1.RestartPolicyNever, corev1.RestartPolicyNever
		n.manifests.Put(pod)
		n.pods.Put(its)
		n.after(time.Second)
		n.remove("web-n1", 30)
		n.after(time.Second)
		if err := n.runtime.Exit(n.containers()[0].ID, 1); err != nil {
			t.Fatal(err)
		}
		n.after(time.Minute)
		if n.count("delete pods") != 0 || n.pod("web-n1").Status.Phase != corev1.PodFailed {
			t.Errorf("the mirror is deleted, or %s", n.pod("web-n1").Status.Phase)
		}
	})
}

// TestStaticPodOfTheSameName: a static pod waits for the end of an earlier one of its name; of several that wait, the
// last one counts.
func TestStaticPodOfTheSameName(t *testing.T) {
	withStatic(t, slow(), func(n *staticNode) {
		n.manifests.Put(manifest("a"))
		n.after(time.Second)
		for _, content := range []string{"b", "c", "d"} {
			n.manifests.Delete("default", "web-n1")
			n.manifests.Put(manifest(content))
			n.after(time.Second)
			n.expectRunning("a")
		}
		n.after(10 * time.Second)
		n.expectRunning("d")

		// A waiting pod that is removed never runs.
		n.manifests.Delete("default", "web-n1")
		n.manifests.Put(manifest("e"))
		n.after(time.Second)
		n.expectRunning("d")
		n.manifests.Delete("default", "web-n1")
		n.after(time.Minute)
		n.expectRunning()
		n.leftNothing()

		// And what comes back runs again; what has waited and run is gone when it is removed.
		n.manifests.Put(manifest("d"))
		n.after(time.Second)
		n.expectRunning("d")
		n.manifests.Delete("default", "web-n1")
		n.manifests.Put(manifest("f"))
		n.after(time.Minute)
		n.expectRunning("f")
		n.manifests.Delete("default", "web-n1")
		n.after(time.Minute)
		n.expectRunning()
		n.leftNothing()
	})
}

// TestMirrorThatGoesUnread: a status that could not be sent to a mirror waits for another one when the mirror is gone.
func TestMirrorThatGoesUnread(t *testing.T) {
	withStatic(t, simulated.Options{}, func(n *staticNode) {
		n.manifests.Put(manifest("a"))
		n.after(time.Second)
		n.breaks("patch pods/status", away)
		n.pods.Put(mirror("a", "mirror-1"))
		n.after(5 * time.Second)
		sent := n.count("patch pods/status")
		n.pods.Delete("default", "web-n1")
		n.after(10 * time.Minute)
		if got := n.count("patch pods/status"); sent == 0 || got != sent {
			t.Errorf("%d statuses were sent, and %d when there was no mirror", sent, got-sent)
		}
	})
}

// TestStaticPodTakenBack: a pod that is removed and comes back while it is still ending is started anew, unless it is
// removed again.
func TestStaticPodTakenBack(t *testing.T) {
	withStatic(t, slow(), func(n *staticNode) {
		n.manifests.Put(manifest("a"))
		n.after(time.Second)
		n.manifests.Delete("default", "web-n1")
		n.after(time.Second)
		n.manifests.Put(manifest("a"))
		n.after(time.Minute)
		n.expectRunning("a")
		n.expectEventsAbout("Started",
			"0s web-n1 spec.containers{main} Normal Started: Container started", "6s web-n1 spec.containers{main} Normal Started: Container started")

		// At once, and only for a while.
		n.manifests.Delete("default", "web-n1")
		n.manifests.Put(manifest("a"))
		n.after(time.Minute)
		n.expectRunning("a")
		n.manifests.Delete("default", "web-n1")
		n.after(time.Second)
		n.manifests.Put(manifest("a"))
		n.after(time.Second)
		n.manifests.Delete("default", "web-n1")
		n.after(time.Minute)
		n.expectRunning()
		n.leftNothing()
	})
}

// TestStaticPodEvicted: an evicted static pod stays failed until its file changes.
func TestStaticPodEvicted(t *testing.T) {
	withStatic(t, slow(), func(n *staticNode) {
		n.manifests.Put(manifest("a"))
		n.pods.Put(mirror("a", "m"))
		n.after(time.Second)
		n.expectStatuses("0s web-n1 Running Ready main=running")
		if err := n.kubelet.Evict(context.Background(), "a", short); err != nil {
			t.Fatal(err)
		}
		n.after(time.Minute)
		n.expectRunning()
		if s := n.pod("web-n1").Status; s.Phase != corev1.PodFailed || s.Reason != "Evicted" {
			t.Errorf("status is %+v", s)
		}
		n.manifests.Delete("default", "web-n1")
		n.manifests.Put(manifest("b"))
		n.after(time.Minute)
		n.expectRunning("b")
	})
}

// TestStaticPodWithoutServer: a static pod runs before the kubelet has reached an API server.
func TestStaticPodWithoutServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.fail = func(string, client.Target) error { return errors.New("connection refused") }
		rt := simulated.New(simulated.Options{Images: []string{"nginx"}})
		n := w.runStatic(rt)
		n.manifests.Put(manifest("a"))
		n.pods.Put(newPod("other"))
		n.after(10 * time.Second)
		if got := n.running(); len(got) == 0 {
			t.Error("nothing runs")
		}
		n.stop()
		rt.Close()
	})
}
