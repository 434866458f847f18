package kubelet_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/cri/simulated"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/memory"
	"github.com/keelson-dev/keelson/kubelet"
)

// world is an API server reduced to what a kubelet uses, over in-memory stores, with a record of
// everything that happens.
type world struct {
	t     testing.TB
	start time.Time
	pods  *memory.Store[*corev1.Pod]
	nodes *memory.Store[*corev1.Node]

	mu       sync.Mutex
	lease    *coordinationv1.Lease
	version  int
	fail     func(verb string, t client.Target) error
	requests []string
	changes  []string // pod statuses, one line each
	events   []string
	nodeLog  []string
}

func newWorld(t testing.TB) *world {
	return &world{t: t, start: time.Now(), pods: memory.New[*corev1.Pod](), nodes: memory.New[*corev1.Node]()}
}

// at is the virtual time since the world began.
func (w *world) at() string {
	return fmt.Sprintf("%gs", time.Since(w.start).Truncate(10*time.Millisecond).Seconds())
}

// called records a request, and reports whether it fails. The lock is held.
func (w *world) called(ctx context.Context, verb string, t client.Target) error {
	request := verb + " " + t.Resource.Resource
	if t.Subresource != "" {
		request += "/" + t.Subresource
	}
	w.requests = append(w.requests, request)
	if w.fail == nil {
		return nil
	}
	err := w.fail(verb, t)
	if !errors.Is(err, errHangs) {
		return err
	}
	w.mu.Unlock()
	defer w.mu.Lock()
	<-ctx.Done()
	return ctx.Err()
}

// errHangs is what a failure returns to leave a request without an answer.
var errHangs = errors.New("hangs")

func notFound(t client.Target) error {
	return apierrors.NewNotFound(t.Resource.GroupResource(), t.Name)
}

func (w *world) Get(ctx context.Context, t client.Target) (runtime.Object, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.called(ctx, "get", t); err != nil {
		return nil, err
	}
	switch t.Resource.Resource {
	case "nodes":
		if node, ok := w.nodes.Get("", t.Name); ok {
			return node.DeepCopy(), nil
		}
	case "leases":
		if w.lease != nil {
			return w.lease.DeepCopy(), nil
		}
	case "pods":
		if pod, ok := w.pods.Get(t.Namespace, t.Name); ok {
			return pod.DeepCopy(), nil
		}
	}
	return nil, notFound(t)
}

func (w *world) Create(ctx context.Context, t client.Target, obj runtime.Object, _ metav1.CreateOptions) (runtime.Object, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.called(ctx, "create", t); err != nil {
		return nil, err
	}
	switch o := obj.DeepCopyObject().(type) {
	case *corev1.Node:
		if _, exists := w.nodes.Get("", o.Name); exists {
			return nil, apierrors.NewAlreadyExists(t.Resource.GroupResource(), o.Name)
		}
		o.UID = types.UID("uid-of-" + o.Name)
		o.CreationTimestamp = metav1.Now()
		return w.nodes.Put(o).DeepCopy(), nil
	case *coordinationv1.Lease:
		w.lease = o
		w.stampLease()
		return w.lease.DeepCopy(), nil
	}
	return nil, fmt.Errorf("unexpected object %T", obj)
}

func (w *world) stampLease() {
	w.version++
	w.lease.ResourceVersion = fmt.Sprint(w.version)
	w.nodeLog = append(w.nodeLog, w.at()+" lease")
}

func (w *world) Update(ctx context.Context, t client.Target, obj runtime.Object, _ metav1.UpdateOptions) (runtime.Object, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.called(ctx, "update", t); err != nil {
		return nil, err
	}
	lease, ok := obj.DeepCopyObject().(*coordinationv1.Lease)
	switch {
	case !ok:
		return nil, fmt.Errorf("unexpected object %T", obj)
	case w.lease == nil:
		return nil, notFound(t)
	case lease.ResourceVersion != w.lease.ResourceVersion:
		return nil, apierrors.NewConflict(t.Resource.GroupResource(), t.Name, fmt.Errorf("stale"))
	}
	w.lease = lease
	w.stampLease()
	return w.lease.DeepCopy(), nil
}

func (w *world) Patch(ctx context.Context, t client.Target, p client.Patch, _ metav1.PatchOptions) (runtime.Object, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.called(ctx, "patch", t); err != nil {
		return nil, err
	}
	switch t.Resource.Resource {
	case "nodes":
		node, ok := w.nodes.Get("", t.Name)
		if !ok {
			return nil, notFound(t)
		}
		patched := apply(w.t, node, p)
		w.nodeLog = append(w.nodeLog, w.at()+" status")
		return w.nodes.Put(patched).DeepCopy(), nil
	case "pods":
		pod, ok := w.pods.Get(t.Namespace, t.Name)
		if !ok {
			return nil, notFound(t)
		}
		patched := apply(w.t, pod, p)
		if patched.UID != pod.UID {
			return nil, apierrors.NewConflict(t.Resource.GroupResource(), t.Name, fmt.Errorf("Precondition failed: UID in precondition: %s, UID in object meta: %s", patched.UID, pod.UID))
		}
		w.changes = append(w.changes, w.at()+" "+summary(patched))
		return w.pods.Put(patched).DeepCopy(), nil
	}
	return nil, notFound(t)
}

// apply applies a patch like an API server.
func apply[T any](t testing.TB, obj *T, p client.Patch) *T {
	before, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	if p.Type != types.StrategicMergePatchType {
		t.Fatalf("unexpected patch type %s", p.Type)
	}
	after, err := strategicpatch.StrategicMergePatch(before, p.Data, *new(T))
	if err != nil {
		t.Fatalf("patch %s: %v", p.Data, err)
	}
	out := new(T)
	if err := json.Unmarshal(after, out); err != nil {
		t.Fatal(err)
	}
	return out
}

func (w *world) Delete(ctx context.Context, t client.Target, o metav1.DeleteOptions) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.called(ctx, "delete", t); err != nil {
		return err
	}
	pod, ok := w.pods.Get(t.Namespace, t.Name)
	switch {
	case !ok:
		return notFound(t)
	case o.Preconditions == nil || *o.Preconditions.UID != pod.UID || *o.GracePeriodSeconds != 0:
		w.t.Errorf("pod %s is deleted with options %v", t.Name, o)
	}
	w.changes = append(w.changes, w.at()+" "+pod.Name+" deleted")
	w.pods.Delete(t.Namespace, t.Name)
	return nil
}

// Record records an event as a line.
func (w *world) Record(e events.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	where := e.Regarding.Name
	if e.Regarding.FieldPath != "" {
		where += " " + e.Regarding.FieldPath
	}
	w.events = append(w.events, fmt.Sprintf("%s %s %s %s: %s", w.at(), where, e.Type, e.Reason, e.Message))
}

// summary renders a pod's status as a line.
func summary(pod *corev1.Pod) string {
	parts := []string{pod.Name, string(pod.Status.Phase)}
	if pod.Status.Reason != "" {
		parts = append(parts, "("+pod.Status.Reason+")")
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			parts = append(parts, "Ready")
		}
	}
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		text := s.Name + "="
		switch {
		case s.State.Running != nil:
			text += "running"
		case s.State.Terminated != nil:
			text += fmt.Sprintf("%s(%d)", s.State.Terminated.Reason, s.State.Terminated.ExitCode)
		case s.State.Waiting != nil:
			text += s.State.Waiting.Reason
		}
		if s.RestartCount > 0 {
			text += fmt.Sprintf("#%d", s.RestartCount)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, " ")
}

// node is a running kubelet with everything that it needs.
type node struct {
	*world
	runtime *simulated.Runtime
	live    func(types.UID) bool
	cancel  context.CancelFunc
	done    chan struct{}
}

// run starts a kubelet for node "n1" on the runtime.
func (w *world) run(rt *simulated.Runtime, o kubelet.Options) *node {
	w.t.Helper()
	return w.runOn(rt, rt, o)
}

// runOn is run with a wrapper around the runtime.
func (w *world) runOn(seen kubelet.Runtime, rt *simulated.Runtime, o kubelet.Options) *node {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	pods := informer.New(w.pods, informer.Options{DetectMutations: func(err error) { w.t.Error(err) }})
	nodes := informer.New(w.nodes, informer.Options{DetectMutations: func(err error) { w.t.Error(err) }})
	if o.NodeName == "" {
		o.NodeName = "n1"
	}
	k, err := kubelet.New(kubelet.Sources{Pods: pods, Nodes: nodes}, w, seen, w, o)
	if err != nil {
		w.t.Fatal(err)
	}
	n := &node{world: w, runtime: rt, live: k.Live, cancel: cancel, done: make(chan struct{})}
	var group sync.WaitGroup
	for _, run := range []func(context.Context) error{pods.Run, nodes.Run, k.Run} {
		group.Go(func() {
			if err := run(ctx); err != nil {
				w.t.Error(err)
			}
		})
	}
	go func() { group.Wait(); close(n.done) }()
	return n
}

// stop ends the kubelet and waits for it; the runtime keeps running.
func (n *node) stop() {
	n.cancel()
	<-n.done
}

// simulate runs a test with one node in virtual time.
func simulate(t *testing.T, rt simulated.Options, o kubelet.Options, test func(n *node)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		runtime := simulated.New(rt)
		n := w.run(runtime, o)
		synctest.Wait()
		test(n)
		n.stop()
		runtime.Close()
	})
}

// after lets virtual time pass.
func (n *node) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func newPod(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	grace := int64(30)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-of-" + name),
			Generation: 1, CreationTimestamp: metav1.Now()},
		Spec: corev1.PodSpec{
			NodeName:                      "n1",
			RestartPolicy:                 corev1.RestartPolicyAlways,
			TerminationGracePeriodSeconds: &grace,
			Containers:                    []corev1.Container{{Name: "main", Image: "nginx", ImagePullPolicy: corev1.PullIfNotPresent}},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodPending, QOSClass: corev1.PodQOSBestEffort,
			Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue,
				LastTransitionTime: metav1.NewTime(time.Now().UTC())}},
		},
	}
	for _, c := range change {
		c(pod)
	}
	return pod
}

// remove marks a pod as deleted, like an API server.
func (w *world) remove(name string, grace int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	pod, ok := w.pods.Get("default", name)
	if !ok {
		w.t.Errorf("no pod %s to delete", name)
		return
	}
	pod = pod.DeepCopy()
	now := metav1.NewTime(time.Now().Add(time.Duration(grace) * time.Second))
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &now, &grace
	pod.Generation++
	w.pods.Put(pod)
}

func (w *world) pod(name string) *corev1.Pod {
	pod, ok := w.pods.Get("default", name)
	if !ok {
		w.t.Errorf("there is no pod %s", name)
		return &corev1.Pod{}
	}
	return pod
}

// expect compares the record, and clears it.
func (w *world) expect(what string, lines *[]string, want ...string) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Equal(*lines, want) {
		w.t.Errorf("%s:\n\t%s\nwant:\n\t%s", what, strings.Join(*lines, "\n\t"), strings.Join(want, "\n\t"))
	}
	*lines = nil
}

func (w *world) expectStatuses(want ...string) {
	w.t.Helper()
	w.expect("statuses", &w.changes, want...)
}

func (w *world) expectEvents(want ...string) {
	w.t.Helper()
	w.expect("events", &w.events, want...)
}

// expectEventsAbout compares the events whose line contains the text, and clears the record.
func (w *world) expectEventsAbout(text string, want ...string) {
	w.t.Helper()
	w.mu.Lock()
	w.events = slices.DeleteFunc(w.events, func(line string) bool { return !strings.Contains(line, text) })
	w.mu.Unlock()
	w.expectEvents(want...)
}

// expectOneEventAbout is expectEventsAbout for one that may be repeated at once: whatever the runtime tells causes
// another attempt.
func (w *world) expectOneEventAbout(text, want string) {
	w.t.Helper()
	w.mu.Lock()
	w.events = slices.DeleteFunc(w.events, func(line string) bool { return !strings.Contains(line, text) })
	w.events = slices.Compact(w.events)
	w.mu.Unlock()
	w.expectEvents(want)
}

// containers returns the runtime's containers.
func (n *node) containers() []cri.Container {
	list, err := n.runtime.ListContainers(context.Background(), cri.Filter{})
	if err != nil {
		n.t.Error(err)
	}
	return list
}

// leftNothing checks that the runtime is empty.
func (n *node) leftNothing() {
	n.t.Helper()
	sandboxes, err := n.runtime.ListSandboxes(context.Background(), cri.Filter{})
	if err != nil {
		n.t.Error(err)
	}
	if list := n.containers(); len(sandboxes)+len(list) > 0 {
		n.t.Errorf("the runtime still has %v and %v", sandboxes, list)
	}
}

// count returns how many requests of that kind were made.
func (w *world) count(request string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, r := range w.requests {
		if r == request {
			n++
		}
	}
	return n
}
