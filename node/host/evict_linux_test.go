package host_test

import (
	"context"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/kubelet/eviction"
	"github.com/keelson-dev/keelson/kubelet/garbage"
	"github.com/keelson-dev/keelson/lifecycle"
	"github.com/keelson-dev/keelson/node"
	"github.com/keelson-dev/keelson/node/bundled"
	"github.com/keelson-dev/keelson/node/containerd/containerdtest"
	"github.com/keelson-dev/keelson/node/host"
	"github.com/keelson-dev/keelson/node/internal/nodetest"
	"github.com/keelson-dev/keelson/node/ociimage"
)

// TestEvictedForLocalStorage: pods that take more of the disk than they may fail, with upstream's words, and others do
// not.
func TestEvictedForLocalStorage(t *testing.T) {
	w := nodetest.Start(t, nodetest.Options{})
	small, large := resource.MustParse("1Mi"), resource.MustParse("1Gi")
	limit := corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceEphemeralStorage: small}}
	fill := func(path string) string {
		return "dd if=/dev/zero of=" + path + " bs=1M count=4; trap 'exit 0' TERM; while :; do sleep 3600 & wait; done"
	}
	scratch := func(name string, limit *resource.Quantity) *corev1.Pod {
		pod := nodetest.Pod(name, nodetest.Shell("c", fill("/cache/file")))
		pod.Spec.Volumes = []corev1.Volume{{Name: "cache", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: limit}}}}
		pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "cache", MountPath: "/cache"}}
		return pod
	}
	layer := nodetest.Pod("layer", nodetest.Shell("c", fill("/file")), nodetest.Sleeper("d"))
	layer.Spec.Containers[0].Resources = limit
	layer.Spec.Containers[1].Resources = corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceEphemeralStorage: large}}
	total := scratch("total", nil)
	total.Spec.Containers[0].Resources = limit
	pods := map[string]struct {
		pod     *corev1.Pod
		message string
	}{
		"volume": {scratch("volume", &small), `Usage of EmptyDir volume "cache" exceeds the limit "1Mi". `},
		"layer":  {layer, `Container c exceeded its local ephemeral storage limit "1Mi". `},
		"total":  {total, `Pod ephemeral local storage usage exceeds the total limit of containers 1Mi. `},
	}
	w.Create(scratch("modest", &large))
	for _, p := range pods {
		w.Create(p.pod)
	}
	for name, p := range pods {
		pod := w.Until(name, "evicted", func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodFailed })
		evicted(t, pod, p.message)
		if nodetest.Condition(pod, corev1.DisruptionTarget) != "" {
			t.Errorf("%s was evicted for its own fault: %+v", name, pod.Status.Conditions)
		}
		w.Event(name, "Evicted", p.message)
	}
	if pod := w.Ready("modest"); pod.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("a pod below its limit: %+v", pod.Status)
	}
	w.DeleteAll("modest", "volume", "layer", "total")
}

// evicted fails unless the pod was, for what the message says.
func evicted(t *testing.T, pod *corev1.Pod, message string) {
	t.Helper()
	if pod.Status.Reason != "Evicted" || !strings.Contains(pod.Status.Message, message) {
		t.Errorf("%s: %s %q, want something of %q", pod.Name, pod.Status.Reason, pod.Status.Message, message)
	}
	for _, s := range pod.Status.ContainerStatuses {
		if s.State.Terminated == nil {
			t.Errorf("%s: container %+v", pod.Name, s.State)
		}
	}
	if nodetest.IsReady(pod) {
		t.Errorf("%s has failed and is ready", pod.Name)
	}
}

// disrupted fails unless the pod says that it has failed for the node's sake, and not by its own fault.
func disrupted(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	at := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.DisruptionTarget })
	if at < 0 {
		t.Errorf("%s: conditions %+v", pod.Name, pod.Status.Conditions)
	} else if c := pod.Status.Conditions[at]; c.Status != corev1.ConditionTrue || c.Reason != "TerminationByKubelet" || c.Message != pod.Status.Message {
		t.Errorf("%s: condition %+v", pod.Name, c)
	}
}

// machine is a cluster whose node's thresholds may be others in each life of its kubelet.
type machine struct {
	t          *testing.T
	ctx        context.Context
	dir        string
	cluster    *cluster.Cluster
	clients    kubernetes.Interface
	thresholds atomic.Pointer[[]eviction.Threshold]
	node       atomic.Pointer[bundled.Node]
	options    bundled.Options
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	tools := containerdtest.Tools(t)
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	t.Cleanup(cancel)
	m := &machine{t: t, ctx: ctx, dir: filepath.Join(t.TempDir(), "node")}
	for _, build := range []func(context.Context, string, io.Writer) (string, error){ociimage.Pause, ociimage.Busybox, ociimage.Nginx} {
		archive, err := build(ctx, tools.Images, io.Discard)
		m.check(err)
		m.options.Archives = append(m.options.Archives, archive)
	}
	m.runShort(nil)
	t.Cleanup(func() {
		if n := m.node.Load(); n != nil {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			if err := n.Remove(ctx); err != nil {
				t.Error(err)
			}
		}
	})
	seed := time.Now().UnixNano() ^ int64(os.Getpid())<<8
	network := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 64 | byte(seed)&63, byte(seed >> 8), 0}), 24)
	var err error
	m.cluster, err = cluster.Start(ctx, cluster.Options{Nodes: cluster.Nodes{Count: 1, Network: network, Run: func(ctx context.Context, parts node.Parts) error {
		n, err := bundled.New(m.dir, parts.PodCIDRs[0], tools, m.options)
		if err != nil {
			return err
		}
		m.node.Store(n)
		return m.run(ctx, n, parts)
	}}})
	m.check(err)
	t.Cleanup(func() {
		if err := m.cluster.Close(); err != nil {
			t.Errorf("the cluster broke: %v", err)
		}
	})
	m.clients, err = kubernetes.NewForConfig(m.cluster.Config())
	m.check(err)
	m.check(m.cluster.WaitNodes(ctx))
	return m
}

// run is one life of the node.
func (m *machine) run(ctx context.Context, n *bundled.Node, parts node.Parts) error {
	if err := n.Start(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	runtime, err := n.Runtime()
	if err != nil {
		return err
	}
	defer func() { _ = runtime.Close() }()
	h, err := host.New(parts, runtime, host.Options{
		Dir: filepath.Join(m.dir, "kubelet"), LogDir: filepath.Join(m.dir, "logs"), CgroupRoot: n.Daemon().CgroupRoot() + "/kubepods",
		Addresses: n.Addresses(),
		Upkeep:    host.Upkeep{Thresholds: *m.thresholds.Load(), Images: &garbage.ImagePolicy{High: 100, Low: 100}},
		Logger:    slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	return lifecycle.Group(n.Daemon(), h).Run(ctx)
}

func (m *machine) check(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

// runShort says of what there is to be too little from the kubelet's next life on; nil is of nothing.
func (m *machine) runShort(hard map[string]string) {
	m.t.Helper()
	list, err := eviction.Parse(eviction.Config{Hard: hard})
	m.check(err)
	m.thresholds.Store(&list)
}

// restart begins a new life of the kubelet.
func (m *machine) restart() {
	m.t.Helper()
	n, err := m.cluster.Node("node-0")
	m.check(err)
	n.Stop()
	n.Start()
}

func (m *machine) create(pod *corev1.Pod) {
	m.t.Helper()
	_, err := m.clients.CoreV1().Pods("default").Create(m.ctx, pod, metav1.CreateOptions{})
	m.check(err)
}

// until waits until a pod of the name is as is wanted.
func (m *machine) until(name, what string, good func(*corev1.Pod) bool) *corev1.Pod {
	m.t.Helper()
	return appears(m.ctx, m.t, m.clients, appearance{name, what, good})
}

// pressure waits until the node has a condition or has it not.
func (m *machine) pressure(kind corev1.NodeConditionType, status corev1.ConditionStatus) corev1.NodeCondition {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.ctx, nodetest.Limit)
	defer cancel()
	changes, err := m.clients.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{})
	m.check(err)
	defer changes.Stop()
	var last *corev1.Node
	for change := range changes.ResultChan() {
		if node, ok := change.Object.(*corev1.Node); ok {
			last = node
			for _, c := range node.Status.Conditions {
				if c.Type == kind && c.Status == status {
					return c
				}
			}
		}
	}
	m.t.Fatalf("%s does not become %s: %+v", kind, status, last)
	return corev1.NodeCondition{}
}

// bound is a pod of the node that no scheduler is asked about.
func bound(name string, containers ...corev1.Container) *corev1.Pod {
	pod := nodetest.Pod(name, containers...)
	pod.Spec.NodeName = "node-0"
	return pod
}

func failed(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodFailed }

// told waits for an event.
func (m *machine) told(about, reason, message string) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.ctx, nodetest.Limit)
	defer cancel()
	changes, err := m.clients.CoreV1().Events("").Watch(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + about})
	m.check(err)
	defer changes.Stop()
	var seen []string
	for change := range changes.ResultChan() {
		if e, ok := change.Object.(*corev1.Event); ok {
			if e.Reason == reason && strings.Contains(e.Message, message) {
				return
			}
			seen = append(seen, e.Reason+": "+e.Message)
		}
	}
	m.t.Errorf("no event %s with %q about %s:\n%s", reason, message, about, strings.Join(seen, "\n"))
}

// gone deletes all pods and waits until nothing of them is left on the machine.
func (m *machine) gone() {
	m.t.Helper()
	m.check(m.clients.CoreV1().Pods("default").DeleteCollection(m.ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
	var left []string
	for end := time.Now().Add(nodetest.Limit); time.Now().Before(end); time.Sleep(50 * time.Millisecond) { // nobody tells
		var err error
		if left, err = m.node.Load().Leftovers(m.ctx); len(left) == 0 && err == nil {
			return
		}
	}
	m.t.Errorf("left behind: %v", left)
}

// TestMemoryPressure: a node that is short of memory says so, evicts and refuses pods that have asked for none, and
// takes critical ones.
func TestMemoryPressure(t *testing.T) {
	m := newMachine(t)
	for _, name := range []string{"victim", "critical"} {
		pod := bound(name, nodetest.Sleeper("c"))
		if name == "critical" {
			pod.Spec.PriorityClassName = "system-node-critical"
		}
		m.create(pod)
		m.until(name, "ready", nodetest.IsReady)
	}
	m.pressure(corev1.NodeMemoryPressure, corev1.ConditionFalse)

	m.runShort(map[string]string{"memory.available": "99%"})
	m.restart()
	c := m.pressure(corev1.NodeMemoryPressure, corev1.ConditionTrue)
	if c.Reason != "KubeletHasInsufficientMemory" || c.Message != "kubelet has insufficient memory available" {
		t.Errorf("the node says %s: %s", c.Reason, c.Message)
	}
	victim := m.until("victim", "evicted", failed)
	evicted(t, victim, "The node was low on resource: memory. Threshold quantity: ")
	disrupted(t, victim)
	m.told("victim", "Evicted", "The node was low on resource: memory.")
	m.told("node-0", "EvictionThresholdMet", "Attempting to reclaim memory")

	m.create(bound("refused", nodetest.Sleeper("c")))
	refused := m.until("refused", "refused", failed)
	if s := refused.Status; s.Reason != "Evicted" || !strings.Contains(s.Message, "The node had condition: [MemoryPressure]. ") || len(s.ContainerStatuses) > 0 && s.ContainerStatuses[0].ContainerID != "" {
		t.Errorf("refused: %+v", s)
	}
	late := bound("late", nodetest.Sleeper("c"))
	late.Spec.PriorityClassName = "system-node-critical"
	m.create(late)
	m.until("late", "ready", nodetest.IsReady)

	m.runShort(nil)
	m.restart()
	m.pressure(corev1.NodeMemoryPressure, corev1.ConditionFalse)
	m.create(bound("after", nodetest.Sleeper("c")))
	m.until("after", "ready", nodetest.IsReady)
	for _, name := range []string{"critical", "late"} {
		if pod := m.until(name, "ready", nodetest.IsReady); pod.Status.ContainerStatuses[0].RestartCount != 0 {
			t.Errorf("%s: %+v", name, pod.Status)
		}
	}
	if pod := m.until("victim", "there", func(*corev1.Pod) bool { return true }); !failed(pod) {
		t.Errorf("a pod that was evicted is %s after a restart", pod.Status.Phase)
	}
	m.gone()
}

// TestDiskPressure: a node whose disk is full throws away images that nothing uses and containers that are over before
// it evicts pods.
func TestDiskPressure(t *testing.T) {
	m := newMachine(t)
	done := bound("done", nodetest.Shell("c", "exit 0"))
	done.Spec.RestartPolicy = corev1.RestartPolicyNever
	m.create(done)
	m.create(bound("victim", nodetest.Sleeper("c")))
	m.until("done", "over", func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodSucceeded })
	m.until("victim", "ready", nodetest.IsReady)
	if images := m.images(); !slices.Contains(images, nodetest.Nginx) {
		t.Fatalf("images are %v", images)
	}

	m.runShort(map[string]string{"nodefs.available": "99%"})
	m.restart()
	c := m.pressure(corev1.NodeDiskPressure, corev1.ConditionTrue)
	if c.Reason != "KubeletHasDiskPressure" || c.Message != "kubelet has disk pressure" {
		t.Errorf("the node says %s: %s", c.Reason, c.Message)
	}
	victim := m.until("victim", "evicted", failed)
	evicted(t, victim, "The node was low on resource: ephemeral-storage. Threshold quantity: ")
	disrupted(t, victim)
	m.told("node-0", "EvictionThresholdMet", "Attempting to reclaim ephemeral-storage")
	if images := m.images(); slices.Contains(images, nodetest.Nginx) || !slices.Contains(images, bundled.PauseImage) {
		t.Errorf("images after a reclaim are %v", images)
	}
	m.create(bound("refused", nodetest.Sleeper("c")))
	if s := m.until("refused", "refused", failed).Status; !strings.Contains(s.Message, "The node had condition: [DiskPressure]. ") {
		t.Errorf("refused: %+v", s)
	}
	pod := m.until("done", "there", func(*corev1.Pod) bool { return true })
	if pod.Status.Phase != corev1.PodSucceeded || pod.Status.ContainerStatuses[0].State.Terminated.Reason != "Completed" {
		t.Errorf("a pod that had succeeded is %+v", pod.Status)
	}
	if list := m.containers(pod); len(list) > 0 {
		t.Errorf("its container is still there: %+v", list)
	}
	m.gone()
}

// containers are what the runtime has of a pod.
func (m *machine) containers(pod *corev1.Pod) []cri.Container {
	m.t.Helper()
	runtime, err := m.node.Load().Runtime()
	m.check(err)
	defer func() { _ = runtime.Close() }()
	list, err := runtime.ListContainers(m.ctx, cri.Filter{Labels: map[string]string{cri.LabelPodUID: string(pod.UID)}})
	m.check(err)
	return list
}

// images are the names of those that are there.
func (m *machine) images() []string {
	m.t.Helper()
	runtime, err := m.node.Load().Runtime()
	m.check(err)
	defer func() { _ = runtime.Close() }()
	list, err := runtime.ListImages(m.ctx)
	m.check(err)
	var names []string
	for _, image := range list {
		names = append(names, image.Tags...)
	}
	return names
}
