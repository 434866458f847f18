package pinning_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	cadvisor "github.com/google/cadvisor/lib/model"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/utils/cpuset"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/kubelet/pinning"
	"github.com/keelson-dev/keelson/kubelet/pinning/cpus"
	"github.com/keelson-dev/keelson/kubelet/pinning/memory"
	"github.com/keelson-dev/keelson/kubelet/pinning/numa"
)

// node are the pods of a node, and the runtime of upstream's managers.
type node struct {
	mu   sync.Mutex
	list map[types.UID]*corev1.Pod
}

func (n *node) Pods() []*corev1.Pod {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Collect(maps.Values(n.list))
}

func (n *node) Live(uid types.UID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.list[uid] != nil
}

func (n *node) set(pod *corev1.Pod, live bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.list, pod.UID)
	if live {
		n.list[pod.UID] = pod
	}
}

func (*node) AddSource(string)                                {}
func (*node) AllReady() bool                                  { return true }
func (*node) GetPodStatus(types.UID) (corev1.PodStatus, bool) { return corev1.PodStatus{}, false }

type ours struct{}

func (ours) UpdateContainerResources(context.Context, string, cri.Resources) error { return nil }

type theirs struct{}

func (theirs) UpdateContainerResources(context.Context, string, *runtimeapi.ContainerResources) error {
	return nil
}

// upstream are the three managers.
type upstream struct {
	cpus     cpumanager.Manager
	memory   memorymanager.Manager
	topology topologymanager.Manager
}

// setting is one random machine with its policies.
type setting struct {
	ours   pinning.Machine
	theirs *cadvisor.MachineInfo
	pinning.Settings
}

func (s *setting) upstream(ctx context.Context, dir string, n *node) (*upstream, error) {
	u := &upstream{}
	log := klog.FromContext(ctx)
	var err error
	t := s.Topology
	if u.topology, err = topologymanager.NewManager(log, s.theirs.Topology, t.Policy, t.Scope, t.Options); err != nil {
		return nil, err
	}
	c := s.CPUs
	u.cpus, err = cpumanager.NewManager(log, c.Policy, c.Options, time.Hour, s.theirs, c.Reserved, s.Reserved, dir, u.topology)
	if err != nil {
		return nil, err
	}
	var reserved []kubeletconfig.MemoryReservation
	for _, r := range s.Memory.Reserved {
		reserved = append(reserved, kubeletconfig.MemoryReservation{NumaNode: int32(r.Node), Limits: r.Limits})
	}
	u.memory, err = memorymanager.NewManager(log, s.Memory.Policy, s.theirs, s.Reserved, reserved, dir, u.topology)
	if err != nil {
		return nil, err
	}
	u.topology.AddHintProvider(log, u.cpus)
	u.topology.AddHintProvider(log, u.memory)
	if err := u.cpus.Start(ctx, n.Pods, n, n, theirs{}, containermap.NewContainerMap()); err != nil {
		return nil, err
	}
	return u, u.memory.Start(ctx, n.Pods, n, n, theirs{}, containermap.NewContainerMap())
}

const (
	gib  = 1 << 30
	page = 2 << 20
)

// random returns a machine and policies.
func random(r *rand.Rand) *setting {
	s := &setting{ours: pinning.Machine{CPUs: cpus.Topology{}, Memory: memory.Machine{}}, theirs: &cadvisor.MachineInfo{}}
	sockets, nodes, caches, cores, threads := 1+r.IntN(3), 1+r.IntN(3), 1+r.IntN(2), 1+r.IntN(4), 1+r.IntN(2)
	wide := r.IntN(4) == 0 // NUMA nodes of several sockets
	total := sockets * nodes * caches * cores * threads
	ids := r.Perm(total)
	if r.IntN(2) == 0 {
		slices.Sort(ids)
	}
	numaNodes := map[int]*cadvisor.Node{}
	for i := range sockets * nodes * caches * cores {
		list := ids[i*threads : (i+1)*threads]
		unit := i / cores / caches // the smaller of socket and NUMA node
		socket, id, cache := unit/nodes, unit, i/cores
		if wide {
			socket, id = unit, unit/nodes
		}
		if numaNodes[id] == nil {
			numaNodes[id] = &cadvisor.Node{Id: id, Memory: uint64(4+r.IntN(3)) * gib, HugePages: []cadvisor.HugePagesInfo{{PageSize: page / 1024, NumPages: uint64(r.IntN(3) * 64)}}}
		}
		n := numaNodes[id]
		n.Cores = append(n.Cores, cadvisor.Core{Id: i, Threads: list, SocketID: socket, UncoreCaches: []cadvisor.Cache{{Id: cache, Level: 3}}})
		for _, cpu := range list {
			s.ours.CPUs[cpu] = cpus.CPU{Core: slices.Min(list), Socket: socket, Node: id, Cache: cache}
		}
	}
	s.theirs.NumCores, s.theirs.NumSockets = total, sockets
	if wide {
		s.theirs.NumSockets = sockets * nodes
	}
	for _, id := range slices.Sorted(maps.Keys(numaNodes)) {
		n := numaNodes[id]
		for range len(numaNodes) {
			n.Distances = append(n.Distances, uint64(10+r.IntN(3)*10))
		}
		s.theirs.Topology = append(s.theirs.Topology, *n)
		s.ours.Nodes = append(s.ours.Nodes, numa.Node{ID: id, Distances: n.Distances})
		s.ours.Memory[id] = memory.NodeMemory{Memory: n.Memory, Hugepages: map[uint64]uint64{page: n.HugePages[0].NumPages * page}}
	}
	s.policies(r, total)
	return s
}

func (s *setting) policies(r *rand.Rand, total int) {
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	flags := func(names ...string) map[string]string {
		out := map[string]string{}
		for _, name := range names {
			if r.IntN(3) == 0 {
				out[name] = strconv.FormatBool(r.IntN(4) > 0)
			}
		}
		return out
	}
	s.CPUs.Policy = pick("static", "static", "static", "none")
	if s.CPUs.Policy == "static" {
		s.CPUs.Options = flags("full-pcpus-only", "distribute-cpus-across-numa", "strict-cpu-reservation", "prefer-align-cpus-by-uncorecache")
	}
	reserved := 1 + r.IntN(2)
	if r.IntN(2) == 0 {
		s.CPUs.Reserved = cpuset.New(r.Perm(total)[:min(reserved, total)]...)
	}
	s.Reserved = corev1.ResourceList{"cpu": *resource.NewMilliQuantity(int64(reserved*1000-r.IntN(2)*300), resource.DecimalSI), "memory": resource.MustParse("512Mi")}
	s.Topology.Policy = pick("none", "best-effort", "restricted", "single-numa-node")
	s.Topology.Scope = pick("container", "pod")
	s.Topology.Options = flags("prefer-closest-numa-nodes")
	s.Memory.Policy = pick("None", "Static")
	if s.Memory.Policy == "Static" {
		s.Memory.Reserved = []memory.Reservation{{Node: r.IntN(len(s.theirs.Topology)), Limits: corev1.ResourceList{"memory": resource.MustParse("512Mi")}}}
	}
}

// randomPod returns a pod, mostly a guaranteed one.
func randomPod(r *rand.Rand, i, most int) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("pod-", i), Namespace: "default", UID: types.UID(fmt.Sprint("uid-", i))}}
	container := func(name string) corev1.Container {
		milli := int64(1+r.IntN(most)) * 1000
		if r.IntN(5) == 0 {
			milli -= 500
		}
		list := corev1.ResourceList{"cpu": *resource.NewMilliQuantity(milli, resource.DecimalSI), "memory": *resource.NewQuantity(int64(1+r.IntN(8))*gib/2, resource.BinarySI)}
		if r.IntN(4) == 0 {
			list["hugepages-2Mi"] = *resource.NewQuantity(int64(1+r.IntN(40))*page, resource.BinarySI)
		}
		return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: list, Limits: list}}
	}
	always := corev1.ContainerRestartPolicyAlways
	for j := range r.IntN(3) {
		c := container(fmt.Sprint("init-", j))
		if r.IntN(3) == 0 {
			c.RestartPolicy = &always
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
	}
	for j := range 1 + r.IntN(2) {
		pod.Spec.Containers = append(pod.Spec.Containers, container(fmt.Sprint("main-", j)))
	}
	if r.IntN(6) == 0 {
		pod.Spec.Containers[0].Resources.Requests = nil
	}
	return pod
}

func containers(pod *corev1.Pod) []corev1.Container {
	return slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers)
}

// same compares what a pod was given.
func same(t *testing.T, ctx context.Context, a *pinning.Allocator, u *upstream, pod *corev1.Pod) {
	t.Helper()
	for _, c := range containers(pod) {
		var got cri.Resources
		a.Pin(pod.UID, c.Name, &got)
		if want := u.cpus.GetCPUAffinity(string(pod.UID), c.Name).String(); got.CPUs != want {
			t.Errorf("%s/%s has CPUs %s, upstream's has %s", pod.Name, c.Name, got.CPUs, want)
		}
		var nodes []int
		if set := u.memory.GetMemoryNUMANodes(klog.FromContext(ctx), pod, &c); set != nil {
			nodes = set.UnsortedList()
		}
		if want := cpuset.New(nodes...).String(); got.MemoryNodes != want {
			t.Errorf("%s/%s has memory on %q, upstream's on %q", pod.Name, c.Name, got.MemoryNodes, want)
		}
	}
}

func clone(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	for _, name := range []string{"cpu_manager_state", "memory_manager_state"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// TestHistories lets the same pods come and go.
func TestHistories(t *testing.T) {
	seeds := 100
	if testing.Short() {
		seeds = 15
	}
	for seed := range seeds {
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			history(t, rand.New(rand.NewPCG(uint64(seed), 1)))
		})
	}
}

func history(t *testing.T, r *rand.Rand) {
	ctx := klog.NewContext(t.Context(), logr.Discard())
	s := random(r)
	n := &node{list: map[types.UID]*corev1.Pod{}}
	mine, other := t.TempDir(), t.TempDir()
	u, want := s.upstream(ctx, other, n)
	a, err := pinning.New(mine, s.ours, n, ours{}, pinning.Options{Settings: s.Settings})
	if (err == nil) != (want == nil) {
		t.Fatalf("%+v: %v, upstream: %v", s.Settings, err, want)
	}
	if err != nil {
		return
	}
	var live []*corev1.Pod
	for i := range 30 {
		if len(live) > 0 && r.IntN(3) == 0 {
			j := r.IntN(len(live))
			n.set(live[j], false)
			live = slices.Delete(live, j, j+1)
			continue
		}
		pod := randomPod(r, i, max(1, len(s.ours.CPUs)/3))
		n.set(pod, true)
		result := u.topology.Admit(ctx, &lifecycle.PodAdmitAttributes{Pod: pod, Operation: lifecycle.AddOperation})
		refusal := a.Admit(pod)
		if refusal == nil {
			refusal = &pinning.Refusal{}
		}
		if refusal.Reason != result.Reason || refusal.Message != result.Message {
			t.Fatalf("%+v: %s: %q, upstream: %+v", s.Settings, pod.Name, *refusal, result)
		}
		if !result.Admit {
			n.set(pod, false)
			continue
		}
		live = append(live, pod)
		for _, pod := range live {
			same(t, ctx, a, u, pod)
		}
		if t.Failed() {
			t.Fatalf("%+v\n%+v\n%+v", s.ours, s.Settings, pod.Spec)
		}
	}
	last := randomPod(r, 99, 1)
	last.Spec.InitContainers, last.Spec.Containers = nil, []corev1.Container{{Name: "main"}}
	n.set(last, true) // takes back what the pods before it have left
	if !u.topology.Admit(ctx, &lifecycle.PodAdmitAttributes{Pod: last, Operation: lifecycle.AddOperation}).Admit || a.Admit(last) != nil {
		t.Fatal("a pod without requests is refused")
	}
	exchange(t, ctx, s, n, a, u, live, mine, other)
}

// exchange restarts each with the files of the other.
func exchange(t *testing.T, ctx context.Context, s *setting, n *node, a *pinning.Allocator, u *upstream, live []*corev1.Pod, mine, other string) {
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if err := a.Run(ended); err != nil { // writes the files
		t.Fatal(err)
	}
	one, err := os.ReadFile(filepath.Join(mine, "cpu_manager_state"))
	if err != nil {
		t.Fatal(err)
	}
	two, err := os.ReadFile(filepath.Join(other, "cpu_manager_state"))
	if err != nil || string(one) != string(two) {
		t.Errorf("the files are\n%s\n%s\n%v", one, two, err)
	}
	theirNext, want := s.upstream(ctx, clone(t, mine), n)
	ourNext, err := pinning.New(clone(t, other), s.ours, n, ours{}, pinning.Options{Settings: s.Settings})
	if (err == nil) != (want == nil) {
		t.Fatalf("with each other's files: %v, upstream: %v", err, want)
	}
	if err != nil {
		return // strict-cpu-reservation may leave no CPU to share, which neither accepts after a restart
	}
	for _, pod := range live {
		same(t, ctx, ourNext, u, pod)
		same(t, ctx, a, theirNext, pod)
		if result := theirNext.topology.Admit(ctx, &lifecycle.PodAdmitAttributes{Pod: pod, Operation: lifecycle.AddOperation}); ourNext.Admit(pod) != nil && result.Admit {
			t.Errorf("%s is refused after a restart", pod.Name)
		}
	}
}
