package host_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/node/internal/nodetest"
)

// steps counts the calls of kubelets and kills the one that makes a chosen one.
type steps struct {
	mu     sync.Mutex
	calls  []string
	victim int // the number of the call to die after; -1 is none
	died   chan struct{}
}

func killAfter(victim int) *steps { return &steps{victim: victim, died: make(chan struct{})} }

func (s *steps) after(call string) (dead bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, call)
	if len(s.calls)-1 != s.victim {
		return false
	}
	close(s.died)
	return true
}

// call is the one that the kubelet died after.
func (s *steps) call() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[s.victim]
}

// everything is a pod with an init container, three kinds of volumes and two containers.
func everything(w *nodetest.World, t *testing.T, name string) *corev1.Pod {
	t.Helper()
	pod := nodetest.Pod(name, nodetest.Sleeper("a"), nodetest.Sleeper("b"))
	pod.Spec.InitContainers = []corev1.Container{nodetest.Shell("init", "cat /config/key > /memory/copy")}
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: "config"},
		}}},
		{Name: "memory", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}},
		{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: ptr.To[int64](3600)}},
		}}}},
	}
	mounts := []corev1.VolumeMount{{Name: "config", MountPath: "/config"}, {Name: "memory", MountPath: "/memory"}, {Name: "token", MountPath: "/token"}}
	for _, c := range []*corev1.Container{&pod.Spec.InitContainers[0], &pod.Spec.Containers[0], &pod.Spec.Containers[1]} {
		c.VolumeMounts = mounts
	}
	return pod
}

func config(w *nodetest.World, t *testing.T) {
	t.Helper()
	_, err := w.Clients.CoreV1().ConfigMaps("default").Create(w.Context, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "config"}, Data: map[string]string{"key": "value"},
	}, metav1.CreateOptions{})
	w.Check(err)
}

// TestKubeletKilledAtEveryStep: whatever a kubelet has done of a pod's start or stop when it is killed, the next one
// completes it, and nothing is left.
func TestKubeletKilledAtEveryStep(t *testing.T) {
	w := nodetest.Start(t, nodetest.Options{})
	config(w, t)
	for n, stopping, starting := 0, true, true; starting || stopping; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			w := w.Sub(t)
			pod := everything(w, t, fmt.Sprintf("pod-%d", n))
			start := killAfter(n)
			w.SetHook(nodetest.Hook{After: start.after})
			w.Create(pod)
			w.ReadyOr(pod.Name, start.died)
			starting = restart(w, t, "start", n, start)
			started(w, t, w.Ready(pod.Name))

			stop := killAfter(n)
			w.SetHook(nodetest.Hook{After: stop.after})
			w.Delete(pod.Name)
			w.GoneOr(pod.Name, stop.died)
			stopping = restart(w, t, "stop", n, stop)
			w.Gone(pod.Name)
			w.Clean()
		})
	}
}

// restart starts a new kubelet where the old one has died, and reports whether it has.
func restart(w *nodetest.World, t *testing.T, what string, n int, s *steps) bool {
	t.Helper()
	w.SetHook(nodetest.Hook{})
	select {
	case <-s.died:
	default:
		t.Logf("%s takes %d calls", what, len(s.calls))
		return false
	}
	t.Logf("killed at %s after call %d: %s", what, n, s.call())
	w.KillKubelet()
	w.StartKubelet()
	return true
}

// started fails unless all of a pod runs exactly once, and for the first time.
func started(w *nodetest.World, t *testing.T, pod *corev1.Pod) {
	t.Helper()
	for _, s := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
		if s.RestartCount != 0 && !slices.Contains(nodetest.StartErrors(pod), s.Name) {
			t.Errorf("container %s was restarted %d times", s.Name, s.RestartCount)
		}
	}
	runtime, err := w.Node().Runtime()
	w.Check(err)
	defer func() { _ = runtime.Close() }()
	if calm := nodetest.StartErrors(pod); len(calm) > 0 {
		return // the kubelet died while containers were being started, which failed and was done again
	}
	filter := cri.Filter{Labels: map[string]string{cri.LabelPodUID: string(pod.UID)}}
	sandboxes, err := runtime.ListSandboxes(w.Context, filter)
	w.Check(err)
	if len(sandboxes) != 1 {
		t.Errorf("%d sandboxes: %v", len(sandboxes), sandboxes)
	}
	containers, err := runtime.ListContainers(w.Context, filter)
	w.Check(err)
	have := map[string]int{}
	for _, c := range containers {
		have[fmt.Sprint(c.Metadata.Name, " ", c.State)]++
	}
	want := map[string]int{fmt.Sprint("init ", cri.ContainerExited): 1, fmt.Sprint("a ", cri.ContainerRunning): 1, fmt.Sprint("b ", cri.ContainerRunning): 1}
	if fmt.Sprint(have) != fmt.Sprint(want) {
		t.Errorf("containers are %v, want %v", have, want)
	}
}

// TestKubeletKilledDuringCalls: the same in the middle of calls of the runtime, which hears of the end or not.
func TestKubeletKilledDuringCalls(t *testing.T) {
	if testing.Short() {
		t.Skip("long: the run without -short has it")
	}
	w := nodetest.Start(t, nodetest.Options{})
	config(w, t)
	seeded := rand.New(rand.NewPCG(4, 9))
	for n := range 12 {
		delay := time.Duration(seeded.IntN(80)) * time.Millisecond
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			w := w.Sub(t)
			pod := everything(w, t, fmt.Sprintf("pod-%d", n))
			w.Create(pod)
			interrupted(w, t, n, delay, func(died <-chan struct{}) bool { return w.ReadyOr(pod.Name, died) })
			started(w, t, w.Ready(pod.Name))
			w.Delete(pod.Name)
			interrupted(w, t, n/2, delay, func(died <-chan struct{}) bool { return w.GoneOr(pod.Name, died) })
			w.Gone(pod.Name)
			w.Clean()
		})
	}
}

// interrupted kills the kubelet a while after it has begun a call, unless what it does is done earlier.
func interrupted(w *nodetest.World, t *testing.T, n int, delay time.Duration, wait func(died <-chan struct{}) bool) {
	t.Helper()
	died := make(chan struct{})
	var mu sync.Mutex
	calls := 0
	w.SetHook(nodetest.Hook{Before: func(call string, kill func() bool) {
		mu.Lock()
		defer mu.Unlock()
		if calls++; calls == n+1 {
			time.AfterFunc(delay, func() { // in the middle, or after it
				if kill() {
					close(died)
				}
			})
		}
	}})
	wait(died)
	w.SetHook(nodetest.Hook{})
	select {
	case <-died:
		w.KillKubelet()
		w.StartKubelet()
	default:
	}
}

// TestDeletedWhileNoKubeletRuns: pods that nobody looked after when they were deleted, by force or not.
func TestDeletedWhileNoKubeletRuns(t *testing.T) {
	w := nodetest.Start(t, nodetest.Options{})
	config(w, t)
	for _, name := range []string{"forced", "asked"} {
		w.Create(everything(w, t, name))
	}
	for _, name := range []string{"forced", "asked"} {
		w.Ready(name)
	}
	w.KillKubelet()
	w.Delete("asked")
	w.Delete("forced", 0)
	w.Gone("forced")
	w.StartKubelet()
	w.Gone("asked")
	w.Clean()
}

// TestForgottenBeforeTheSandbox: a pod that had nothing but its volumes and cgroup when its kubelet died, and was deleted
// before there was another one.
func TestForgottenBeforeTheSandbox(t *testing.T) {
	w := nodetest.Start(t, nodetest.Options{})
	config(w, t)
	died := make(chan struct{})
	var once sync.Once
	w.SetHook(nodetest.Hook{After: func(call string) bool {
		if call == "Ensure" {
			once.Do(func() { close(died) })
		}
		return call == "Ensure"
	}})
	w.Create(everything(w, t, "early"))
	if w.ReadyOr("early", died) {
		t.Fatal("no cgroup was made")
	}
	w.KillKubelet()
	w.SetHook(nodetest.Hook{})
	w.Delete("early", 0)
	w.Gone("early")
	w.StartKubelet()
	w.UntilReady(true)
	w.Clean()
}

// TestBothKilled: containerd and the kubelet are killed together while pods run, start and stop.
func TestBothKilled(t *testing.T) {
	w := nodetest.Start(t, nodetest.Options{})
	config(w, t)
	w.Create(everything(w, t, "running"))
	w.Create(everything(w, t, "stopping"))
	pid := w.PID(w.Ready("running"), "a")
	w.Ready("stopping")
	died := make(chan struct{})
	var once sync.Once
	w.SetHook(nodetest.Hook{Before: func(call string, kill func() bool) {
		if call == "RunPodSandbox" {
			once.Do(func() {
				time.AfterFunc(30*time.Millisecond, func() { // somewhere in the middle
					kill()
					close(died)
				})
			})
		}
	}})
	w.Delete("stopping")
	w.Create(everything(w, t, "starting"))
	w.ReadyOr("starting", died)
	w.KillContainerd()
	w.KillKubelet()
	w.SetHook(nodetest.Hook{})
	w.StartKubelet()
	w.Gone("stopping")
	started(w, t, w.Ready("starting"))
	if now := w.PID(w.Ready("running"), "a"); now != pid {
		t.Errorf("process %d has become %d", pid, now)
	}
	w.DeleteAll("running", "starting")
}
