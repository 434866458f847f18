package nodetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
)

// Limit is the limit for everything that a test waits for.
const Limit = time.Minute

// Create creates a pod for the node in the namespace default.
func (w *World) Create(pod *corev1.Pod) *corev1.Pod {
	w.t.Helper()
	made, err := w.Clients.CoreV1().Pods("default").Create(w.Context, pod, metav1.CreateOptions{})
	w.Check(err)
	return made
}

// Delete deletes a pod, with its own grace period or one in seconds.
func (w *World) Delete(name string, grace ...int64) {
	w.t.Helper()
	var o metav1.DeleteOptions
	if len(grace) > 0 {
		o.GracePeriodSeconds = &grace[0]
	}
	w.Check(w.Clients.CoreV1().Pods("default").Delete(w.Context, name, o))
}

// Until waits until a pod satisfies a condition and returns it.
func (w *World) Until(name, what string, good func(*corev1.Pod) bool) *corev1.Pod {
	w.t.Helper()
	var last *corev1.Pod
	err := w.watch(name, func(pod *corev1.Pod, gone bool) (bool, error) {
		if gone {
			return false, fmt.Errorf("pod %s is gone", name)
		}
		last = pod
		return good(pod), nil
	})
	if err != nil {
		w.t.Fatalf("waiting for pod %s to be %s: %v\n%s\n%s", name, what, err, text(last), w.told(name))
	}
	return last
}

// Gone waits until there is no pod of that name.
func (w *World) Gone(name string) {
	w.t.Helper()
	var last *corev1.Pod
	err := w.watch(name, func(pod *corev1.Pod, gone bool) (bool, error) {
		last = pod
		return gone, nil
	})
	if err != nil {
		w.t.Fatalf("waiting for the end of pod %s: %v\n%s\n%s", name, err, text(last), w.told(name))
	}
}

// watch calls see with every state of a pod until it returns true or an error.
func (w *World) watch(name string, see func(pod *corev1.Pod, gone bool) (bool, error), other ...<-chan struct{}) error {
	other = append(other, nil)
	ctx, cancel := context.WithTimeout(w.Context, Limit)
	defer cancel()
	pods := w.Clients.CoreV1().Pods("default")
	o := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String()}
	list, err := pods.List(ctx, o)
	if err != nil {
		return err
	}
	if len(list.Items) == 0 {
		done, err := see(nil, true)
		if done || err != nil {
			return err
		}
	}
	for i := range list.Items {
		if done, err := see(&list.Items[i], false); done || err != nil {
			return err
		}
	}
	o.ResourceVersion = list.ResourceVersion
	stream, err := pods.Watch(ctx, o)
	if err != nil {
		return err
	}
	defer stream.Stop()
	for {
		select {
		case <-ctx.Done():
			return errors.New("it takes too long")
		case <-other[0]:
			return errOther
		case e, open := <-stream.ResultChan():
			pod, ok := e.Object.(*corev1.Pod)
			if !open || !ok {
				return fmt.Errorf("the watch broke off: %v", e)
			}
			if done, err := see(pod, e.Type == watch.Deleted); done || err != nil {
				return err
			}
		}
	}
}

// ReadyOr waits until a pod is ready, and returns false when something else happens first.
func (w *World) ReadyOr(name string, other <-chan struct{}) bool {
	w.t.Helper()
	return w.or(other, name, func(pod *corev1.Pod, gone bool) (bool, error) { return !gone && IsReady(pod), nil })
}

// GoneOr waits until there is no pod of that name, and returns false when something else happens first.
func (w *World) GoneOr(name string, other <-chan struct{}) bool {
	w.t.Helper()
	return w.or(other, name, func(_ *corev1.Pod, gone bool) (bool, error) { return gone, nil })
}

func (w *World) or(other <-chan struct{}, name string, see func(pod *corev1.Pod, gone bool) (bool, error)) bool {
	w.t.Helper()
	var last *corev1.Pod
	err := w.watch(name, func(pod *corev1.Pod, gone bool) (bool, error) {
		last = pod
		return see(pod, gone)
	}, other)
	if err != nil && !errors.Is(err, errOther) {
		w.t.Fatalf("waiting for pod %s: %v\n%s\n%s", name, err, text(last), w.told(name))
	}
	return err == nil
}

var errOther = errors.New("something else has happened")

// Ready waits until a pod is ready.
func (w *World) Ready(name string) *corev1.Pod {
	w.t.Helper()
	return w.Until(name, "ready", IsReady)
}

// IsReady reports whether a pod runs and is ready.
func IsReady(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodRunning && Condition(pod, corev1.PodReady) == corev1.ConditionTrue
}

// StartErrors are the containers of a pod whose last instance never ran, because the call to start it was abandoned.
func StartErrors(pod *corev1.Pod) (names []string) {
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if last := s.LastTerminationState.Terminated; last != nil && last.Reason == "StartError" && s.RestartCount == 1 {
			names = append(names, s.Name)
		}
	}
	return names
}

// Condition is the status of a pod's condition.
func Condition(pod *corev1.Pod, kind corev1.PodConditionType) corev1.ConditionStatus {
	for _, c := range pod.Status.Conditions {
		if c.Type == kind {
			return c.Status
		}
	}
	return ""
}

// UntilReady waits until the node is ready, or not ready, and returns the condition.
func (w *World) UntilReady(ready bool) corev1.NodeCondition {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.Context, Limit)
	defer cancel()
	nodes := w.Clients.CoreV1().Nodes()
	list, err := nodes.List(ctx, metav1.ListOptions{})
	w.Check(err)
	stream, err := nodes.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	w.Check(err)
	defer stream.Stop()
	var node *corev1.Node
	if len(list.Items) > 0 {
		node = &list.Items[0]
	}
	for {
		if node != nil {
			for _, c := range node.Status.Conditions {
				if c.Type == corev1.NodeReady && (c.Status == corev1.ConditionTrue) == ready {
					return c
				}
			}
		}
		e, open := <-stream.ResultChan()
		if !open {
			w.t.Fatalf("the node's readiness does not become %v: %s", ready, text(node))
		}
		node, _ = e.Object.(*corev1.Node)
	}
}

// Events returns the events of a pod: reason and message, oldest first.
func (w *World) Events(pod string) []corev1.Event {
	w.t.Helper()
	list, err := w.Clients.CoreV1().Events("default").List(w.Context, about(pod))
	w.Check(err)
	slices.SortStableFunc(list.Items, func(a, b corev1.Event) int { return a.FirstTimestamp.Compare(b.FirstTimestamp.Time) })
	return list.Items
}

func about(pod string) metav1.ListOptions {
	return metav1.ListOptions{FieldSelector: fields.Set{"involvedObject.name": pod, "involvedObject.kind": "Pod"}.String()}
}

// Event waits for an event of a pod with that reason whose message contains the text, and returns it.
func (w *World) Event(pod, reason, message string) corev1.Event {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.Context, Limit)
	defer cancel()
	events := w.Clients.CoreV1().Events("default")
	list, err := events.List(ctx, about(pod))
	w.Check(err)
	o := about(pod)
	o.ResourceVersion = list.ResourceVersion
	stream, err := events.Watch(ctx, o)
	w.Check(err)
	defer stream.Stop()
	for _, e := range list.Items {
		if e.Reason == reason && strings.Contains(e.Message, message) {
			return e
		}
	}
	for {
		change, open := <-stream.ResultChan()
		if !open {
			w.t.Fatalf("no event %s of pod %s with %q:\n%s", reason, pod, message, w.told(pod))
		}
		if e, ok := change.Object.(*corev1.Event); ok && e.Reason == reason && strings.Contains(e.Message, message) {
			return *e
		}
	}
}

// told returns the events of a pod, for messages.
func (w *World) told(pod string) string {
	list, err := w.Clients.CoreV1().Events("default").List(w.Context, about(pod))
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	for _, e := range list.Items {
		fmt.Fprintf(&b, "%s %s x%d: %s\n", e.Type, e.Reason, e.Count, e.Message)
	}
	return b.String()
}

// text formats an object for people.
func text(obj any) string {
	if pod, ok := obj.(*corev1.Pod); ok && pod != nil {
		obj = map[string]any{"deletion": pod.DeletionTimestamp, "status": pod.Status}
	}
	b, err := json.MarshalIndent(obj, "", " ")
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// cleanLimit is how long leftovers of pods may exist: a little more than the minute between two garbage collections.
const cleanLimit = 75 * time.Second

// Clean waits until the machine has nothing that was not there before the first pod.
func (w *World) Clean() {
	w.t.Helper()
	var more []string
	for end := time.Now().Add(cleanLimit); time.Now().Before(end); time.Sleep(20 * time.Millisecond) { // there is nothing to watch
		more = more[:0]
		for _, name := range w.left() {
			if !w.baseline[name] {
				more = append(more, name)
			}
		}
		if len(more) == 0 {
			return
		}
	}
	w.t.Errorf("left behind by pods that are gone:\n%s", strings.Join(more, "\n"))
}

// left lists what pods have left on the machine.
func (w *World) left() []string {
	w.t.Helper()
	list, err := w.Node().Leftovers(w.Context)
	w.Check(err)
	return list
}

// DeleteAll deletes pods and waits until they are gone and nothing is left of them.
func (w *World) DeleteAll(names ...string) {
	w.t.Helper()
	for _, name := range names {
		err := w.Clients.CoreV1().Pods("default").Delete(w.Context, name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			w.t.Fatal(err)
		}
	}
	for _, name := range names {
		w.Gone(name)
	}
	w.Clean()
}

// Sub is the world for a subtest.
func (w *World) Sub(t *testing.T) *World {
	return &World{
		t: t, Context: w.Context, Cluster: w.Cluster, Clients: w.Clients, Dir: w.Dir, options: w.options, held: w.held, baseline: w.baseline,
		shared: w.shared,
	}
}

// PID returns the first process of a pod's container, by the runtime's shims: the one whose cgroup has the ID.
func (w *World) PID(pod *corev1.Pod, container string) int {
	w.t.Helper()
	for _, s := range pod.Status.ContainerStatuses {
		if s.Name != container || s.State.Running == nil {
			continue
		}
		_, id, _ := strings.Cut(s.ContainerID, "://")
		if pid := processOf(id); pid != 0 {
			return pid
		}
		w.t.Fatalf("no process of container %s", id)
	}
	w.t.Fatalf("pod %s has no container %s that runs", pod.Name, container)
	return 0
}

// processOf finds the lowest process in the cgroups of a container.
func processOf(id string) (found int) {
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return fs.SkipDir
		}
		if found == 0 && d.IsDir() && d.Name() == id {
			b, _ := os.ReadFile(filepath.Join(path, "cgroup.procs"))
			_, _ = fmt.Sscan(string(b), &found)
			return fs.SkipDir
		}
		return nil
	})
	return found
}
