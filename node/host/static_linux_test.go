package host_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/node/internal/nodetest"
)

// manifests are those of a node with static pods.
type manifests struct {
	*nodetest.World
	t   *testing.T
	dir string
}

// withManifests starts a node with a directory of manifests.
func withManifests(t *testing.T) manifests {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "node")
	if err := os.MkdirAll(filepath.Join(dir, "manifests"), 0o700); err != nil {
		t.Fatal(err)
	}
	w := nodetest.Start(t, nodetest.Options{Dir: dir})
	return manifests{w, t, filepath.Join(dir, "manifests")}
}

// put writes the manifest of a pod whose container tells its version and goes on.
func (m manifests) put(name, version string) {
	text := fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: default}
spec:
  terminationGracePeriodSeconds: 2
  containers:
  - name: c
    image: %s
    imagePullPolicy: Never
    env: [{name: VERSION, value: %q}]
    command: [sh, -c, "trap 'exit 0' TERM; while :; do sleep 3600 & wait; done"]
`, name, nodetest.Busybox, version)
	path := filepath.Join(m.dir, "."+name)
	m.Check(os.WriteFile(path, []byte(text), 0o600))
	m.Check(os.Rename(path, m.file(name)))
}

func (m manifests) file(name string) string { return filepath.Join(m.dir, name+".yaml") }

func (m manifests) remove(name string) { m.Check(os.Remove(m.file(name))) }

// containers are those of the runtime that run and are called c, by their pods' UIDs.
func (m manifests) containers() map[string]string {
	runtime, err := m.Node().Runtime()
	m.Check(err)
	defer func() { _ = runtime.Close() }()
	list, err := runtime.ListContainers(m.Context, cri.Filter{})
	m.Check(err)
	found := map[string]string{}
	for _, c := range list {
		if c.Metadata.Name == "c" && c.State == cri.ContainerRunning {
			found[c.Labels[cri.LabelPodUID]] = c.ID
		}
	}
	return found
}

// TestStaticPods: a pod of a manifest runs and is seen by its mirror; the mirror is no more than that.
func TestStaticPods(t *testing.T) {
	w := withManifests(t)
	w.put("web", "1")
	mirror := w.ready("web-node-0")
	if !metav1.IsControlledBy(mirror, w.self()) || mirror.Annotations["kubernetes.io/config.source"] != "file" {
		t.Errorf("mirror of %v with %v", mirror.OwnerReferences, mirror.Annotations)
	}
	if mirror.Status.PodIP == "" || mirror.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("its status is %+v", mirror.Status)
	}
	pid := w.PID(mirror, "c")

	// The mirror is deleted, by force or not: another one comes, and the containers notice nothing.
	for _, grace := range []int64{30, 0} {
		w.Delete("web-node-0", grace)
		next := w.another(mirror)
		if now := w.PID(next, "c"); now != pid {
			t.Errorf("process %d has become %d", pid, now)
		}
		mirror = next
	}

	// Another manifest is another pod.
	w.put("web", "2")
	next := w.another(mirror)
	if next.Spec.Containers[0].Env[0].Value != "2" || next.Status.ContainerStatuses[0].ContainerID == mirror.Status.ContainerStatuses[0].ContainerID {
		t.Errorf("after a change: %+v", next.Status.ContainerStatuses)
	}
	if n := len(w.containers()); n != 1 {
		t.Errorf("%d containers run", n)
	}

	w.remove("web")
	w.Gone("web-node-0")
	w.Clean()
}

// TestStaticPodsOutliveTheKubelet: a kubelet that is killed finds them again.
func TestStaticPodsOutliveTheKubelet(t *testing.T) {
	w := withManifests(t)
	for _, name := range []string{"kept", "changed", "removed"} {
		w.put(name, "1")
	}
	before := map[string]*corev1.Pod{}
	for _, name := range []string{"kept", "changed", "removed"} {
		before[name] = w.ready(name + "-node-0")
	}
	pid := w.PID(before["kept"], "c")
	w.KillKubelet()
	w.put("changed", "2")
	w.remove("removed")
	w.StartKubelet()
	w.Gone("removed-node-0")
	if now := w.another(before["changed"]); now.Spec.Containers[0].Env[0].Value != "2" {
		t.Errorf("version is %s", now.Spec.Containers[0].Env[0].Value)
	}
	kept := w.ready("kept-node-0")
	if now := w.PID(kept, "c"); now != pid || kept.UID != before["kept"].UID || kept.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("process %d has become %d; %+v", pid, now, kept.Status)
	}
	for _, name := range []string{"kept", "changed"} {
		w.remove(name)
		w.Gone(name + "-node-0")
	}
	w.Clean()
}

// TestStaticPodsWithoutServer: they need no API server, and are told to it when it is there again.
func TestStaticPodsWithoutServer(t *testing.T) {
	w := withManifests(t)
	w.ServerAway(true)
	w.KillKubelet()
	w.put("early", "1")
	w.StartKubelet()
	started := w.untilRunning(1)
	w.put("late", "1")
	for uid, id := range w.untilRunning(2) {
		if was, known := started[uid]; known && was != id {
			t.Errorf("container %s has become %s", was, id)
		}
	}
	w.remove("early")
	w.untilRunning(1)
	w.ServerAway(false)
	late := w.ready("late-node-0")
	if late.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("status of late is %+v", late.Status.ContainerStatuses)
	}
	w.remove("late")
	w.Gone("late-node-0")
	w.Clean()
}

// self is the node.
func (m manifests) self() *corev1.Node {
	node, err := m.Clients.CoreV1().Nodes().Get(m.Context, "node-0", metav1.GetOptions{})
	m.Check(err)
	return node
}

// ready waits until there is a pod that is ready.
func (m manifests) ready(name string) *corev1.Pod {
	m.t.Helper()
	return appears(m.Context, m.t, m.Clients, appearance{name, "ready", nodetest.IsReady})
}

// another waits until another pod of the name is ready.
func (m manifests) another(than *corev1.Pod) *corev1.Pod {
	m.t.Helper()
	return appears(m.Context, m.t, m.Clients, appearance{than.Name, "another and ready", func(pod *corev1.Pod) bool {
		return pod.UID != than.UID && nodetest.IsReady(pod)
	}})
}

// appearance is what is waited for of a pod.
type appearance struct {
	name, what string
	good       func(*corev1.Pod) bool
}

// appears waits until there is a pod that is as is wanted, whatever happens to others of its name.
func appears(ctx context.Context, t *testing.T, clients kubernetes.Interface, a appearance) *corev1.Pod {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, nodetest.Limit)
	defer cancel()
	changes, err := clients.CoreV1().Pods("default").Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + a.name})
	if err != nil {
		t.Fatal(err)
	}
	defer changes.Stop()
	var last *corev1.Pod
	for change := range changes.ResultChan() { // which begins with what there is
		if pod, ok := change.Object.(*corev1.Pod); ok && change.Type != watch.Deleted {
			if last = pod; a.good(pod) {
				return pod
			}
		}
	}
	text, _ := json.MarshalIndent(last, "", " ")
	t.Fatalf("pod %s does not become %s:\n%s", a.name, a.what, text)
	return nil
}

// untilRunning waits until n containers run and returns them.
func (m manifests) untilRunning(n int) map[string]string {
	m.t.Helper()
	for end := time.Now().Add(nodetest.Limit); ; time.Sleep(20 * time.Millisecond) { // there is no API to tell
		list := m.containers()
		if len(list) == n {
			return list
		}
		if time.Now().After(end) {
			m.t.Fatalf("%d containers run, want %d", len(list), n)
		}
	}
}
